"""A profile in words, and its JSON Schema. Pure; prints nothing."""

from __future__ import annotations

from typing import Any

from supervisor.core.driver_plan import as_driver
from supervisor.core.profile import LaunchProfile

_PROMPT = {"stdin": "on standard input", "argv": "as an argument", "none": "not at all"}
_ASKS = {
    "none": "not forwarded: it decides by itself",
    "claude_hook": "forwarded to its parent by a hook that is set for each launch",
    "codex_hook": "forwarded to its parent by a hook that is set and trusted for each launch",
    "opencode_plugin": "forwarded to its parent by a plugin that is set for each launch",
    "files": "forwarded to its parent by the CLI itself, as files",
    "own": "forwarded to its parent by the agent itself",
}
_ON_TERMINAL = {**_ASKS, "none": "asked of the person there"}
_READY = {
    "spawned": "when it is started",
    "output": "with its first output",
    "session_file": "when its session file is there",
    "session": "when its session is proven",
}


_TOOLS = {
    "none": "not for one launch; an agent with a shell launches without them: supervisor guide",
    "acp": "given for one launch (--mcp), in the background only",
}


def abilities(profile: LaunchProfile) -> list[tuple[str, str]]:
    """What a CLI that is started by this profile can do and cannot, as (label, sentence)."""
    launched = as_driver(profile) if profile.driver else profile
    ready, stop = launched.ready, launched.stop
    lines = [
        ("summary", profile.summary),
        ("paths", _paths(profile)),
        ("prompt", _prompt(profile)),
        ("session", _session(profile)),
        ("model", "can be chosen" if _takes_model(profile) else "cannot be chosen"),
        ("asks", _asks(profile)),
        ("tools", _TOOLS.get(profile.mcp, "given for one launch (--mcp)")),
        ("ready", f"{_READY[ready.when]}, within {ready.timeout_seconds} s"),
        ("stop", f"{stop.signal}, {stop.grace_seconds:g} s to end, then it is killed"),
        ("restart", f"{profile.restart.policy}"),
    ]
    if profile.asks.mode or profile.asks.rules:
        mode = f"mode {profile.asks.mode}" if profile.asks.mode else "the mode of the settings"
        lines.append(("serving", f"{mode}, {len(profile.asks.rules)} rules of its own for asks of its children"))
    if profile.tested_versions:
        lines.append(("verified", f"with version {', '.join(profile.tested_versions)}"))
    return [*lines, *(("note", text) for text in profile.notes), *(("cannot", text) for text in profile.cannot)]


def _paths(profile: LaunchProfile) -> str:
    if not profile.argv.path:
        return "allowed paths are recorded only: the CLI has no option for them"
    if profile.enforces_paths:
        return "allowed paths are handed to the CLI, which enforces them"
    return "allowed paths are handed to the CLI, which does not enforce them"


def _takes_model(profile: LaunchProfile) -> bool:
    return any("{model}" in g for g in profile.argv.options) or bool(profile.driver and profile.driver.model)


def _asks(profile: LaunchProfile) -> str:
    said = _ASKS[profile.asks.adapter]
    other = profile.asks.interactive or profile.asks.adapter
    if profile.driver is not None:
        said = "forwarded to its parent by a driver, which can be interrupted and given follow-ups"
    if not profile.terminal or (profile.driver is None and other == profile.asks.adapter != "none"):
        return said
    return f"headless {said}; on a terminal {_ON_TERMINAL[other]}"


def _prompt(profile: LaunchProfile) -> str:
    prompt = profile.prompt
    said = f"headless {_PROMPT[prompt.headless]}"
    if profile.terminal:
        said += f", interactive {_PROMPT[prompt.interactive]}"
    return said + ("; words after -- are arguments" if prompt.words == "args" else "")


def _session(profile: LaunchProfile) -> str:
    launched = as_driver(profile).session if profile.driver else profile.session
    kind = {
        "preset": "its id is chosen at launch",
        "capture": "its id is read from the output" if launched.capture_key else "its id is told by the CLI",
        "none": "it has no id",
    }[launched.id]
    resumable = profile.argv.resume or (profile.driver and profile.session.id != "none")
    return f"{kind}; it {'can' if resumable else 'cannot'} be resumed"


def profile_schema() -> dict[str, Any]:
    """The schema of a profile *file*: the types', where what the file's name and `extends` give may be absent."""
    import msgspec

    schema = msgspec.json.schema(LaunchProfile)
    top = schema["$defs"]["LaunchProfile"]
    top["properties"]["extends"] = {
        "type": "string",
        "description": "Another profile that this file changes: tables merge key by key, everything else replaces.",
    }
    top["required"] = []
    top["anyOf"] = [{"required": ["summary"]}, {"required": ["extends"]}]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "supervisor launch profile", **schema}
