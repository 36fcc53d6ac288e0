"""Has a CLI call our hook for one launch, by its command line or a variable: no file of the user's is touched.

Owns `<home>/hooks`. What a CLI cannot be told is left out: it then asks on its own terminal, and headless nobody.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from supervisor.adapters.atomic_file import read_bounded, write_atomic
from supervisor.adapters.binary_notes import BinaryNotes
from supervisor.adapters.spawn import converse
from supervisor.core.hook_settings import claude_settings, codex_hashes, codex_hooks, codex_trust
from supervisor.core.launch_plan import Mode
from supervisor.core.opencode_config import with_plugin
from supervisor.core.profile import LaunchProfile
from supervisor.runtime.compose import Context

_PLUGIN = Path(__file__).with_name("opencode_plugin.js")

_CODEX_S = 20.0
"""Codex says the hashes within half a second; on a machine that is much too busy it may take this long, once."""

_QUESTIONS = (
    {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "supervisor", "version": "0"}}},
    {"method": "initialized"},
    {"id": 2, "method": "hooks/list", "params": {"cwds": ["/"]}},
)


def hook_fields(context: Context, profile: LaunchProfile, mode: Mode, program: str | None) -> Mapping[str, str]:
    """What the fields of HOOK_FIELDS hold in this launch; of another adapter unset. `config`: for a variable."""
    if not context.matrix_on:
        return {}
    adapter = profile.asks.adapter
    if mode == "interactive" and profile.asks.interactive is not None:
        adapter = profile.asks.interactive
    shim = (context.python, "-P", "-m", "supervisor.hook")
    if adapter == "claude_hook":
        return {"hook_settings": _claude(context, shim)}
    if adapter == "codex_hook" and program is not None:
        return _codex(context, shim, program)
    if adapter == "opencode_plugin":
        return {"config": _opencode(context, shim)}
    return {}


def hook_left_out(profile: LaunchProfile, mode: Mode, argv: tuple[str, ...]) -> bool:
    """Whether the CLI should call our hook on this terminal, and could not be made to."""
    wanted = profile.asks.interactive == "codex_hook" and mode == "interactive"
    return wanted and not any(token.startswith("hooks.state=") for token in argv)


def _claude(context: Context, shim: tuple[str, ...]) -> str:
    path = os.path.join(context.places.hooks, "claude.json")
    data = json.dumps(claude_settings(shim), indent=2).encode()
    if read_bounded(path) != data:
        write_atomic(path, data)
    return path


def _opencode(context: Context, shim: tuple[str, ...]) -> str:
    path = Path(context.places.hooks, "opencode.js")
    data = _PLUGIN.read_bytes().replace(b"SHIM_OF_THIS_LAUNCH", json.dumps(shim).encode())
    if read_bounded(str(path)) != data:
        write_atomic(str(path), data)
    return with_plugin(path.as_uri())


def _codex(context: Context, shim: tuple[str, ...], program: str) -> Mapping[str, str]:
    """The hooks, and the trust in them. Codex skips a hook that it does not trust in silence, so it is both or none."""
    hooks = codex_hooks(shim)
    notes = BinaryNotes(context.places.binaries)
    topic = "hooks " + " ".join(hooks.values())
    hashes = notes.get(program, topic)
    if not isinstance(hashes, dict):
        hashes = _ask_codex(context, program, tuple(hooks.values()))
        if hashes is None:
            return {}
        notes.put(program, topic, hashes)
    return {**hooks, "hook_trust": codex_trust(hashes)}


def _ask_codex(context: Context, program: str, hooks: tuple[str, ...]) -> dict[str, str] | None:
    """The hashes that this codex calls these hooks by; it gets a home of its own, so that it writes into nobody's."""
    import tempfile

    argv = [program, "app-server", *(word for hook in hooks for word in ("-c", hook))]
    say = b"".join(json.dumps(q).encode() + b"\n" for q in _QUESTIONS)
    try:
        with tempfile.TemporaryDirectory(dir=context.places.hooks, ignore_cleanup_errors=True) as home:
            env = {"PATH": context.env.get("PATH", os.defpath), "HOME": home, "CODEX_HOME": home}
            heard = converse(
                argv, env=env, cwd="/", say=say, heard=lambda out: _answer(out) is not None, timeout=_CODEX_S
            )
    except OSError:
        return None
    return codex_hashes((_answer(heard) or {}).get("result"))


def _answer(output: bytes) -> dict[str, object] | None:
    """The line that answers the last question, once it is there whole."""
    for line in output.split(b"\n")[:-1]:
        try:
            raw = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(raw, dict) and raw.get("id") == 2:
            return raw
    return None
