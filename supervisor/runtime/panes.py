"""The use case of a tmux pane: request and answer travel in owner-only files. Owns `<home>/requests`.

Neither prompt nor environment ever stands on tmux's command line.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from supervisor.adapters.atomic_file import read_bounded, write_atomic
from supervisor.adapters.clock import pause
from supervisor.core.ending import describe
from supervisor.core.entry import Entry, Terminal
from supervisor.core.errors import NotFound, Refused, SupervisorError
from supervisor.core.timing import MS, READY_TIMEOUT_MS
from supervisor.runtime.agent_request import MAX_PROMPT_BYTES, AgentRequest, Request
from supervisor.runtime.compose import Context
from supervisor.runtime.starting import run_foreground

_LOOK_S = 0.02
_OF_THE_PANE = ("TMUX", "TMUX_PANE", "TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION")


class PaneRequest(Struct, frozen=True):
    """What the pane's keeper is to do, with the launcher's environment."""

    request: Request
    env: dict[str, str]


class PaneAnswer(Struct, frozen=True):
    """What became of it: the entry's key, or why not."""

    key: str = ""
    why: str = ""


Opener = Callable[[Sequence[str]], object]
"""Opens the pane in which a command is to run. Raises Refused."""


def open_pane(context: Context, request: Request, opener: Opener | None = None, *, socket: str | None = None) -> Entry:
    """Open the pane (by default a window of the server at `socket`, or of ours) and wait for the agent's record.

    Raises:
        Refused: no tmux, or the agent could not be started; with the reason.
    """
    from supervisor.adapters.tmux import available, new_window

    def window(argv: Sequence[str]) -> None:
        name = request.name or (request.profile if isinstance(request, AgentRequest) else request.entry_id)
        new_window(argv, name=name, cwd=request.cwd, env=context.env, socket=socket)

    if available(context.env) is None:
        raise Refused("tmux is not installed", hint="Install it, or use --detach")
    number = os.urandom(8).hex()
    path, answer = _paths(context, number)
    write_atomic(path, msgspec.json.encode(PaneRequest(request, dict(context.env))))
    try:
        (opener or window)(context.self_argv("_pane", context.places.home, number))
        deadline = context.clock.monotonic_ns() + READY_TIMEOUT_MS * MS
        while (data := read_bounded(answer)) is None:
            if context.clock.monotonic_ns() > deadline:
                raise Refused("the tmux pane did not start in time", hint="See: tmux list-panes -a")
            pause(_LOOK_S)
    finally:
        for leftover in (path, answer):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(leftover)
    told = msgspec.json.decode(data, type=PaneAnswer)
    entry = context.store.read(told.key) if told.key else None
    if entry is None:
        raise Refused(told.why or "the agent in the pane could not be started")
    if entry.hand_off is not None and entry.hand_off.outcome == "not_started":
        raise Refused(f"{entry.name} {describe(entry.hand_off)}")
    return entry


def be_pane(make: Callable[[dict[str, str]], Context], env: dict[str, str], home: str, number: str) -> Entry:
    """In the pane: take the request, be the agent's keeper until it has ended.

    Raises:
        SupervisorError: also told to the launcher.
    """
    here = make({**env, "SUPERVISOR_HOME": home})
    path, answer = _paths(here, number)
    data = read_bounded(path, MAX_PROMPT_BYTES * 2)
    if data is None:
        raise NotFound("there is no such request for a pane")
    os.unlink(path)
    wanted = msgspec.json.decode(data, type=PaneRequest)
    launcher = {n: v for n, v in wanted.env.items() if n not in _OF_THE_PANE}
    pane = {n: env[n] for n in _OF_THE_PANE if n in env}
    context = make({**launcher, **pane, "SUPERVISOR_HOME": home})
    terminal = Terminal(kind="tmux", pane=env.get("TMUX_PANE"), socket=env.get("TMUX", "").rsplit(",", 2)[0] or None)
    request = replace(wanted.request, terminal=terminal)

    def started(key: str) -> None:
        write_atomic(answer, msgspec.json.encode(PaneAnswer(key=key)))

    try:
        return run_foreground(context, lambda _activated: [request], started=started)
    except SupervisorError as error:
        write_atomic(answer, msgspec.json.encode(PaneAnswer(why=str(error))))
        raise


def sweep_requests(context: Context) -> None:
    """Requests whose launcher was killed hold an environment: they do not stay."""
    with contextlib.suppress(OSError):
        for item in os.scandir(context.places.requests):
            if context.clock.wall_ms() - item.stat().st_mtime_ns // MS > 2 * READY_TIMEOUT_MS:
                os.unlink(item.path)


def _paths(context: Context, number: str) -> tuple[str, str]:
    if not number.isalnum():
        raise NotFound("there is no such request for a pane")
    base = os.path.join(context.places.requests, number)
    return f"{base}.json", f"{base}.answer"
