"""Launch profiles: how one kind of agent is started, spoken to, resumed and stopped, as data. Pure types and checks.

Token lists, never shell text: a `{field}` is always a whole token, from a closed set. The JSON Schema in
`launch_profiles/schema.json` is generated from these types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

from supervisor.core.rules import RuleSpec

PROFILE_SCHEMA = 1

Token = Annotated[str, Meta(min_length=1)]
Tokens = tuple[Token, ...]
Groups = tuple[Tokens, ...]
VarName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$(?!\n)")]
AskMode = Literal["attended", "rules", "hold"]
Adapter = Literal["none", "claude_hook", "codex_hook", "opencode_plugin", "files", "own"]
Policy = Literal["temporary", "transient", "permanent"]

HOOKED = frozenset({"claude_hook", "codex_hook", "opencode_plugin"})
"""The adapters that have a CLI call our hook."""

HOOK_FIELDS = frozenset({"hook_settings", "hook_ask", "hook_start", "hook_trust"})
"""What has a CLI call our hook, each for the adapters that know it."""

FIELDS = frozenset({"session_id", "model", "prompt", "path", "cwd", "name", "python"}) | HOOK_FIELDS
"""What may stand in `argv`."""

LINK_FIELDS = frozenset(
    {"session_id", "agent_id", "task_ref", "parent_session", "parent_pid", "allowed_paths", "home", "asked"}
)
"""What may stand in `link.env`, `env.set` and `env.headless`. `asked`: the parent's session, else the agent's id."""

_FIELD = re.compile(r"\{([a-z_]+)\}\Z")
_LOOSE = re.compile(r"\{[a-z_]+\}")
_JOINED = re.compile(r"--[a-z][a-z0-9-]*=\{prompt\}\Z")


class _Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base: unknown keys are errors, with their path."""


class RestartPolicy(_Table, frozen=True):
    """`temporary` never, `transient` after a failure, `permanent` always; at most `intensity` in `period_seconds`."""

    policy: Policy = "temporary"
    intensity: Annotated[int, Meta(ge=0, le=1000)] = 5
    period_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 60


class Argv(_Table, frozen=True):
    """Token groups, joined in this order: base, headless or interactive, start or resume, options, paths, prompt.

    A group with an unset field is dropped whole. `path` is repeated for each allowed path.
    """

    base: Tokens = ()
    headless: Tokens = ()
    interactive: Tokens = ()
    start: Groups = ()
    resume: Groups = ()
    options: Groups = ()
    path: Tokens = ()


class Prompt(_Table, frozen=True):
    """How the first prompt arrives. `args` (needed for `argv`) must hold `--` or an option before `{prompt}`.

    `--option={prompt}` is for a CLI that would take a prompt like `-rf` for an option even behind `--option`.

    `interactive_resume`: as `interactive`, for a resume on a terminal, where that is not the same.

    `words`: what stands after `--` on the command line of `launch`: the prompt, or arguments of the program.
    """

    headless: Literal["stdin", "argv", "none"] = "stdin"
    interactive: Literal["argv", "none"] = "none"
    interactive_resume: Literal["argv", "none"] | None = None
    args: Tokens = ()
    words: Literal["prompt", "args"] = "prompt"


class Session(_Table, frozen=True):
    """`preset`: we choose the id (a UUID); `capture`: the CLI prints it; `none`: it has none and cannot be resumed.

    `files` are patterns of the session's own file, tried in order (`$VAR` and `~` are expanded, `*` matches within a
    folder, `{session_id}` is replaced); `capture_key` is the key of the id in a JSON line of the output. `resume_by`:
    what a resume names, the id or, once it was seen, the file.
    """

    id: Literal["preset", "capture", "none"] = "none"
    files: tuple[str, ...] = ()
    capture_key: str | None = None
    resume_by: Literal["id", "file"] = "id"


class Ready(_Table, frozen=True):
    """What proves the agent up: its exec, its first output, its session file, or that its session is proven."""

    when: Literal["spawned", "output", "session_file", "session"] = "spawned"
    timeout_seconds: Annotated[int, Meta(ge=1, le=600)] = 60


class Env(_Table, frozen=True):
    """`identity`: variables that say "I am this CLI's session": no agent of any profile inherits them.

    `tool_shell`: what this CLI's own tool shell exports, removed when we are launched from inside it. `unset`: removed
    for this agent alone. `set`, and for headless agents `headless`, may hold `{fields}` of LINK_FIELDS as whole values.
    """

    set: dict[VarName, str] = {}
    headless: dict[VarName, str] = {}
    unset: tuple[VarName, ...] = ()
    identity: tuple[VarName, ...] = ()
    tool_shell: tuple[VarName, ...] = ()


class Link(_Table, frozen=True):
    """How the child learns its parent by the names its CLI knows, besides our SUPERVISOR_* ones."""

    env: dict[VarName, str] = {}


class Stop(_Table, frozen=True):
    """The stop signal of a cooperative end, the time for it, and which ends count as success.

    `success_line`: what the last JSON line of a headless agent's output holds when it has done its work; then the exit
    code alone, which may be 0 for one that was interrupted, is no success.
    """

    signal: Literal["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "KILL"] = "TERM"
    grace_seconds: Annotated[float, Meta(ge=0, le=600)] = 10
    success_codes: tuple[int, ...] = (0,)
    success_line: dict[str, str | bool] = {}


class ProcessRules(_Table, frozen=True):
    """`leader`: the launched process is the agent. `tree`: it may be a wrapper; a survivor of its session goes on."""

    follow: Literal["leader", "tree"] = "leader"


class Asks(_Table, frozen=True):
    """Asks. `adapter`: how the CLI's own asks get to us; `mode` and `rules`: how asks that reach it are decided.

    `interactive` is the adapter on a terminal, where that is another one. `claude_hook` writes a settings file for the
    launch alone, `{hook_settings}` in `argv` names it. `codex_hook` fills `{hook_ask}`, `{hook_start}`, `{hook_trust}`.
    `opencode_plugin`: a plugin of ours, named by opencode's variable for its configuration, calls the hook.
    `files`: pi writes requests into a folder of its own, which the agent's keeper looks after.
    """

    adapter: Adapter = "none"
    interactive: Adapter | None = None
    mode: AskMode | None = None
    rules: tuple[RuleSpec, ...] = ()


class DriverRules(_Table, frozen=True):
    """Headless, a driver of ours speaks to the CLI: `kind` is the protocol, `command` the CLI's own words.

    Then `argv` and `prompt` are for a terminal only; session, model, allowed paths and prompt go by the driver.
    `session`: how its id is learned then, where that differs from `session.id`.
    """

    kind: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$(?!\n)")]
    command: Tokens = ()
    model: bool = True
    session: Literal["preset", "capture"] | None = None


class LaunchProfile(_Table, frozen=True):
    """One profile file."""

    schema: Literal[1]
    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$(?!\n)")]
    summary: str
    argv: Argv = Argv()
    needs: tuple[Token, ...] = ()
    probe: Tokens = ()
    tested_versions: tuple[str, ...] = ()
    enforces_paths: bool = False
    terminal: bool = True
    prompt: Prompt = Prompt()
    session: Session = Session()
    ready: Ready = Ready()
    env: Env = Env()
    link: Link = Link()
    stop: Stop = Stop()
    process: ProcessRules = ProcessRules()
    restart: RestartPolicy = RestartPolicy()
    asks: Asks = Asks()
    driver: DriverRules | None = None
    mcp: Literal["none", "claude", "codex", "opencode", "pi", "acp"] = "none"
    notes: tuple[str, ...] = ()
    cannot: tuple[str, ...] = ()


def field_of(token: str) -> str | None:
    """The field that a token stands for, or None for a literal."""
    match = _FIELD.match(token)
    return match.group(1) if match else None


def prompt_place(args: Tokens) -> int | None:
    """Where among these tokens the prompt goes."""
    return next((i for i, t in enumerate(args) if t == "{prompt}" or _JOINED.match(t)), None)


def problems(profile: LaunchProfile) -> Iterator[str]:
    """What the types cannot say, each with the key it is about."""
    argv = profile.argv
    groups = [argv.base, argv.headless, argv.interactive, argv.path, *argv.start, *argv.resume, *argv.options]
    for token in (t for g in [*groups, profile.prompt.args] for t in g):
        field = field_of(token)
        if token in profile.prompt.args and _JOINED.match(token):
            continue
        if field is None and _LOOSE.search(token):
            yield f"argv: {token!r}: a {{field}} must be a whole token"
        elif field is not None and field not in FIELDS:
            yield f"argv: {token!r}: unknown field (there are {', '.join(sorted(FIELDS))})"
    if sum(g.count("{session_id}") for g in profile.argv.resume) > 1:
        yield "argv.resume: names {session_id} twice"
    if any("{prompt}" in g for g in groups):
        yield "argv: {prompt} belongs in prompt.args"
    yield from _prompt_problems(profile.prompt)
    yield from _link_problems(profile)
    if argv.path and "{path}" not in argv.path:
        yield "argv.path: holds no {path}"
    if profile.session.id == "preset" and not profile.driver and not any("{session_id}" in g for g in argv.start):
        yield "session.id: `preset` needs a group with {session_id} in argv.start"
    if profile.session.id == "capture" and not (profile.session.capture_key or profile.driver):
        yield "session.capture_key: needed for `capture`"
    if profile.session.resume_by == "file" and not profile.session.files:
        yield "session.files: needed for session.resume_by = `file`"
    if profile.ready.when == "session_file" and not profile.session.files:
        yield "session.files: needed for ready.when = `session_file`"


def _prompt_problems(prompt: Prompt) -> Iterator[str]:
    if "argv" not in (prompt.headless, prompt.interactive):
        return
    at = prompt_place(prompt.args)
    if at is None:
        yield "prompt.args: needs {prompt} for delivery by `argv`"
    elif at == 0 and prompt.args[0] == "{prompt}":
        yield "prompt.args: {prompt} needs `--` or an option before it, or a prompt like '-rf' becomes an option"


def _link_problems(profile: LaunchProfile) -> Iterator[str]:
    env = profile.env
    for where, table in (("link.env", profile.link.env), ("env.set", env.set), ("env.headless", env.headless)):
        for name, value in table.items():
            field = field_of(value)
            if field is not None and field not in LINK_FIELDS:
                yield f"{where}.{name}: unknown field {value!r} (there are {', '.join(sorted(LINK_FIELDS))})"
