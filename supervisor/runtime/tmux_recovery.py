"""Brings back, in tmux, the agents that a tmux server has taken along. Owns nothing; each resume has its own fences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from supervisor.adapters.clock import pause
from supervisor.core.entry import Entry, failed_resume, is_live, unconfirmed
from supervisor.core.errors import SupervisorError
from supervisor.core.ports import Clock
from supervisor.core.resuming import outcome
from supervisor.core.timing import MS
from supervisor.core.tree import ancestors
from supervisor.runtime.agent_request import ResumeRequest
from supervisor.runtime.compose import Context
from supervisor.runtime.panes import open_pane
from supervisor.runtime.recovering import Event, What
from supervisor.runtime.tmux_trees import TreeWindow

TOGETHER_MS = 10_000
"""A server hangs up on all of its agents at once; each has its stop grace to end."""

_HUNG_UP = 128 + 1
_LOOK_S = 0.05


def lost_together(entries: Sequence[Entry]) -> list[Entry]:
    """Of each server the agents that were last hung up on, or found dead, together; parents first.

    A window that was closed by itself earlier is not among them, nor one that ended well or was stopped.
    """
    lost = [(e, e.hand_off.observed_at) for e in entries if e.hand_off is not None and _was_lost(e)]
    newest: dict[str | None, int] = {}
    for entry, at in lost:
        newest[entry.terminal.socket] = max(at, newest.get(entry.terminal.socket, 0))
    found = [e for e, at in lost if newest[e.terminal.socket] - at <= TOGETHER_MS]
    return sorted(found, key=lambda e: (len(ancestors(e, entries)), e.started_at))


def _was_lost(entry: Entry) -> bool:
    end = entry.hand_off
    if (
        end is None
        or is_live(entry)
        or entry.want == "down"
        or entry.terminal.kind != "tmux"
        or entry.agent.resume_context is None
    ):
        return False
    hung_up = end.hung_up or end.signal == "HUP" or end.code == _HUNG_UP
    return end.cause == "lost" or (end.cause == "ended" and hung_up)


def recover_in_tmux(context: Context, entries: Sequence[Entry], tell: Callable[[Event], None]) -> list[Event]:
    """Resume them one after the other, each tree in a window of its own, in the server that each was in.

    An agent is told of once it has confirmed its session, once its resume was taken back, or when its time is over.
    """
    windows: dict[tuple[str | None, str], TreeWindow] = {}
    events: list[Event] = []

    def told(event: Event) -> None:
        tell(event)
        events.append(event)

    opened = []
    for entry in lost_together(entries):
        socket, name = entry.terminal.socket, entry.tree or entry.name
        window = windows.setdefault((socket, name), TreeWindow(name, context.env, socket=socket))
        request = ResumeRequest(entry_id=entry.entry_id, name=entry.name, cwd=entry.plan.cwd, mode="interactive")
        try:
            opened.append(open_pane(context, request, partial(window.open, agent=entry.name, cwd=entry.plan.cwd)))
        except SupervisorError as error:
            told(_event("failed", entry, why=str(error)))
    await_proofs(opened, told, read=context.store.read, clock=context.clock, pause=partial(pause, _LOOK_S))
    return events


def await_proofs(
    opened: Sequence[Entry],
    tell: Callable[[Event], None],
    *,
    read: Callable[[str], Entry | None],
    clock: Clock,
    pause: Callable[[], None],
) -> None:
    """Tell what has become of each, as it becomes known; of who says nothing in its profile's time, that it is so."""
    since = clock.monotonic_ns()
    waiting = {e.key: e for e in opened}
    while waiting:
        waited = clock.monotonic_ns() - since
        for key, before in list(waiting.items()):
            now = read(key) or before
            event = became(now) or (_unproven(now) if waited >= now.plan.ready_timeout_ms * MS else None)
            if event is not None:
                del waiting[key]
                tell(event)
        if waiting:
            pause()


def became(entry: Entry) -> Event | None:
    """What a resume has come to; None while that is open."""
    if unconfirmed(entry) is not None:
        return None
    if (failed := failed_resume(entry)) is not None:
        return _event("failed", entry, why=failed.why)
    if outcome(entry, waited_ms=0) is True:
        return _event("resumed", entry)
    return None if is_live(entry) else _event("failed", entry, why="it has ended again")


def _unproven(entry: Entry) -> Event:
    seconds = entry.plan.ready_timeout_ms // 1000
    return _event("unconfirmed", entry, why=f"it has not confirmed its session within {seconds} s")


def _event(what: What, entry: Entry, why: str = "") -> Event:
    return Event(
        event=what, name=entry.name, entry_id=entry.entry_id, session_id=entry.session_id, kind="dead", why=why
    )
