"""Profile + request → a frozen plan. Compiled once and stored with the entry: a resume uses what was launched.

Pure: environment and clock come in as values. The plan holds names of environment variables, never their values,
and a reference to the prompt, never its text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from supervisor.core.driver_plan import as_driver
from supervisor.core.errors import BadInput
from supervisor.core.opencode_config import VARIABLE
from supervisor.core.profile import HOOK_FIELDS, AskMode, Groups, LaunchProfile, Policy, Tokens, field_of, prompt_place
from supervisor.core.rules import Rule, plain

MAX_ARGV_PROMPT = 96 * 1024
"""Linux takes at most 128 KiB in one argument; longer prompts need stdin."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_PROMPT, _SESSION = "\0prompt", "\0session"
"""The two places while a plan is compiled: no word of a user's can look like them."""

_VAR = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

Mode = Literal["headless", "interactive"]
_MODES: tuple[Mode, ...] = ("headless", "interactive")


class RestartPlan(Struct, frozen=True, kw_only=True, rename="camel"):
    """The restart policy as launched (`profile.RestartPolicy` in the record's own spelling)."""

    policy: Policy = "temporary"
    intensity: int = 5
    period_seconds: int = 60


class ResumeLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a session is gone on with in one mode, with or without a prompt. `prompt` are the tokens that carry one."""

    argv: tuple[str, ...]
    session_at: int
    takes: Literal["stdin", "argv", "none"] = "none"
    prompt: tuple[str, ...] = ()
    ready: Literal["spawned", "output", "session_file", "session"] = "spawned"


class LaunchPlan(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the agent was launched, with the places that only a start can fill in.

    `prompt_at`: where in both command lines, counted from the end, the text of `prompt_file` goes; `session_at`: where
    in `resume_argv` the session id goes. `resume_lines`: how a resume goes on with the session, by mode; what was
    launched on a terminal can be resumed without one. `resume_by`: whether the session's file is named, or its id.

    `env_set`, and for workers `env_link`, may hold `{fields}` of the profile's LINK_FIELDS as whole values, filled in
    at each spawn (a parent can change); `env_given` are names of variables that the caller gave, without values.
    `env_hook`: configuration that has the CLI call our hook; joined, at each spawn, to what the variable holds then.
    `driven`: a driver of ours speaks to the CLI, so nothing may be left of it when the driver has ended.
    """

    profile: str
    argv: tuple[str, ...]
    resume_argv: tuple[str, ...] = ()
    prompt_at: int | None = None
    session_at: int | None = None
    resume_lines: dict[Mode, ResumeLine] = {}
    resume_by: Literal["id", "file"] = "id"
    cwd: str
    mode: Mode = "headless"
    stdin: Literal["null", "prompt", "inherit"] = "null"
    prompt_file: str | None = None
    env_set: dict[str, str] = {}
    env_link: dict[str, str] = {}
    env_unset: tuple[str, ...] = ()
    env_given: tuple[str, ...] = ()
    env_hook: dict[str, str] = {}
    allowed_paths: tuple[str, ...] = ()
    paths_enforced: bool = False
    session_files: tuple[str, ...] = ()
    capture_key: str | None = None
    ready: Literal["spawned", "output", "session_file", "session"] = "spawned"
    ready_timeout_ms: int = 60_000
    stop_signal: str = "TERM"
    stop_grace_ms: int = 10_000
    success_codes: tuple[int, ...] = (0,)
    success_line: dict[str, str | bool] = {}
    follow: Literal["leader", "tree"] = "leader"
    restart: RestartPlan = RestartPlan()
    asks_mode: AskMode | None = None
    asks_rules: tuple[Rule, ...] = ()
    driven: bool = False
    asks_folder: str | None = None
    """Where the CLI itself writes asks, and takes them when it has a screen."""


class LaunchRequest(Struct, frozen=True, kw_only=True):
    """What the user asked for; everything but the profile is checked here or before."""

    name: str
    session_id: str
    cwd: str
    python: str
    mode: Mode = "headless"
    prompt_file: str | None = None
    prompt_bytes: int = 0
    words: tuple[str, ...] = ()
    model: str | None = None
    allowed_paths: tuple[str, ...] = ()
    env_given: tuple[str, ...] = ()
    restart: Policy | None = None
    asks_mode: AskMode | None = None
    hook: Mapping[str, str] = {}
    mcp_server: str | None = None


def plan_launch(profile: LaunchProfile, request: LaunchRequest) -> LaunchPlan:
    """Compile the plan.

    Raises:
        BadInput: the profile cannot do what is asked (a prompt it cannot take, a model it has no flag for, a terminal).
    """
    if request.mode == "interactive" and not profile.terminal:
        raise BadInput(f"profile {profile.name} does not run on a terminal", hint="Use --detach")
    if profile.driver is None:
        return _compiled(profile, request)
    if request.mode == "headless":
        words = ("--", *profile.driver.command, *request.words)
        plan = _compiled(as_driver(profile), replace(request, words=words, hook={}))
        plan = replace(plan, driven=True)
    else:
        plan = _compiled(profile, request)
    lines = {m: line for m, line in plan.resume_lines.items() if m == request.mode}
    return replace(plan, resume_lines=lines)  # by a driver and without one are two ways, told apart by more than words


def _compiled(profile: LaunchProfile, request: LaunchRequest) -> LaunchPlan:
    fields: dict[str, str | None] = {
        "session_id": request.session_id if profile.session.id == "preset" else None,
        "model": request.model,
        "cwd": request.cwd,
        "name": request.name,
        "python": request.python,
        **dict.fromkeys(HOOK_FIELDS),
        **request.hook,
        "mcp_server": request.mcp_server,
        "prompt": _PROMPT if request.prompt_file else None,
    }
    if request.model and not _mentions(profile.argv.options, "{model}"):
        raise BadInput(f"profile {profile.name} has no option for a model")
    delivery = _delivery(profile, request)
    head = _head(profile, request.mode, fields)
    prompt = _fill((profile.prompt.args,), fields) if delivery == "argv" else ()
    tail = (*_tail(profile, request, fields), *prompt)
    resume = (*head, *_fill(profile.argv.resume, {**fields, "session_id": _SESSION}))
    resumable = _SESSION in resume
    shown = {_PROMPT: "{prompt}", _SESSION: fields["session_id"] or "{session_id}"}
    return LaunchPlan(
        profile=profile.name,
        argv=_shown((*head, *_fill(profile.argv.start, fields), *tail), shown),
        resume_argv=_shown((*resume, *tail), shown) if resumable else (),
        prompt_at=at - len(prompt) if prompt and (at := prompt_place(profile.prompt.args)) is not None else None,
        session_at=resume.index(_SESSION) if resumable else None,
        resume_lines=_resume_lines(profile, request, fields) if resumable else {},
        resume_by=profile.session.resume_by,
        cwd=request.cwd,
        mode=request.mode,
        stdin="inherit" if request.mode == "interactive" else "prompt" if delivery == "stdin" else "null",
        prompt_file=request.prompt_file,
        env_set={**profile.env.set, **(profile.env.headless if request.mode == "headless" else {})},
        env_link=dict(profile.link.env),
        env_unset=tuple(sorted(set(profile.env.unset))),
        env_given=request.env_given,
        env_hook={VARIABLE: config} if (config := request.hook.get("config")) else {},
        allowed_paths=request.allowed_paths,
        paths_enforced=profile.enforces_paths and bool(profile.argv.path),
        session_files=profile.session.files,
        capture_key=profile.session.capture_key,
        ready=profile.ready.when if request.mode == "headless" else "spawned",
        ready_timeout_ms=profile.ready.timeout_seconds * 1000,
        stop_signal=profile.stop.signal,
        stop_grace_ms=int(profile.stop.grace_seconds * 1000),
        success_codes=profile.stop.success_codes,
        success_line=profile.stop.success_line,
        follow=profile.process.follow,
        restart=_restart(profile, request),
        asks_mode=request.asks_mode or profile.asks.mode,
        asks_rules=tuple(plain(r) for r in profile.asks.rules),
    )


def _head(profile: LaunchProfile, mode: Mode, fields: Mapping[str, str | None]) -> Tokens:
    words = profile.argv.headless if mode == "headless" else profile.argv.interactive
    return _fill(((*profile.argv.base, *words),), fields)


def _tail(profile: LaunchProfile, request: LaunchRequest, fields: Mapping[str, str | None]) -> Tokens:
    """What follows the session on every command line, but for the prompt."""
    paths = (t for p in request.allowed_paths for t in _fill((profile.argv.path,), {**fields, "path": p}))
    return (*_fill(profile.argv.options, fields), *paths, *request.words)


def _resume_lines(
    profile: LaunchProfile, request: LaunchRequest, fields: Mapping[str, str | None]
) -> dict[Mode, ResumeLine]:
    lines: dict[Mode, ResumeLine] = {}
    for mode in _MODES if profile.terminal else ("headless",):
        resume = _fill(profile.argv.resume, {**fields, "session_id": _SESSION})
        head = (*_head(profile, mode, fields), *resume)
        on_terminal = profile.prompt.interactive_resume or profile.prompt.interactive
        takes = profile.prompt.headless if mode == "headless" else on_terminal
        prompt = _fill((profile.prompt.args,), {**fields, "prompt": _PROMPT}) if takes == "argv" else ()
        lines[mode] = ResumeLine(
            argv=_shown((*head, *_tail(profile, request, fields)), {_SESSION: "{session_id}"}),
            session_at=head.index(_SESSION),
            takes=takes,
            prompt=_shown(prompt, {_PROMPT: "{prompt}"}),
            ready=profile.ready.when if mode == "headless" else "spawned",
        )
    return lines


def _shown(tokens: Tokens, places: Mapping[str, str]) -> Tokens:
    return tuple(places.get(t, t) for t in tokens)


def command_line(plan: LaunchPlan, *, session: str | None, prompt: str) -> tuple[str, ...]:
    """The tokens of one start: `session` resumes it where the plan can, `prompt` goes where the plan says."""
    resume = session is not None and bool(plan.resume_argv)
    tokens = list(plan.resume_argv if resume else plan.argv)
    if resume and session is not None and plan.session_at is not None:
        tokens[plan.session_at] = session
    if plan.prompt_at is not None:
        tokens[plan.prompt_at] = tokens[plan.prompt_at].replace("{prompt}", prompt)
    return tuple(tokens)


def _mentions(groups: Groups, token: str) -> bool:
    return any(token in g for g in groups)


def _delivery(profile: LaunchProfile, request: LaunchRequest) -> Literal["stdin", "argv", "none"]:
    if request.prompt_file is None:
        return "none"
    how = profile.prompt.headless if request.mode == "headless" else profile.prompt.interactive
    if how == "none":
        raise BadInput(
            f"profile {profile.name} takes no prompt when it is {request.mode}",
            hint="Use --detach" if request.mode == "interactive" else "Give arguments after --",
        )
    if how == "argv" and request.prompt_bytes > MAX_ARGV_PROMPT:
        raise BadInput(
            f"the prompt is {request.prompt_bytes} bytes, an {request.mode} {profile.name} takes {MAX_ARGV_PROMPT}",
            hint="Use --detach, which hands it over by stdin",
        )
    return how


def _fill(groups: Groups, fields: Mapping[str, str | None]) -> Tokens:
    """The groups' tokens with their fields filled in; a group with an unset field is dropped whole."""
    out: list[str] = []
    for group in groups:
        values = [fields.get(field) if (field := field_of(t)) else t for t in group]
        if None not in values:
            out.extend(v for v in values if v is not None)
    return tuple(out)


def _restart(profile: LaunchProfile, request: LaunchRequest) -> RestartPlan:
    return RestartPlan(
        policy=request.restart or profile.restart.policy,
        intensity=profile.restart.intensity,
        period_seconds=profile.restart.period_seconds,
    )


def allowed_path(raw: str) -> str:
    """A checked allowed path.

    Raises:
        BadInput: relative, with `..`, or with control characters.
    """
    if not raw.startswith("/") or ".." in raw.split("/") or _CONTROL.search(raw):
        raise BadInput(f"allowed path {raw!r} is not an absolute path without '..'")
    return raw


def variable(raw: str) -> tuple[str, str | None]:
    """`NAME=VALUE`, or `NAME` (value taken from the launcher's environment: keeps it out of the command line).

    Raises:
        BadInput: no valid variable name.
    """
    name, equals, value = raw.partition("=")
    if not _VAR.match(name) or "\0" in value:
        raise BadInput(f"--env {name[:60]!r} is no variable name")
    if name.startswith("SUPERVISOR_"):
        raise BadInput(f"--env {name}: SUPERVISOR_ variables are set by supervisor itself")
    return name, value if equals else None
