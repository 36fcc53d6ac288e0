"""Brings back, in tmux, the agents that a tmux server has taken along. Owns nothing; each resume has its own fences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from supervisor.core.entry import Entry, is_live
from supervisor.core.errors import SupervisorError
from supervisor.core.tree import ancestors
from supervisor.runtime.agent_request import ResumeRequest
from supervisor.runtime.compose import Context
from supervisor.runtime.panes import open_pane
from supervisor.runtime.recovering import Event
from supervisor.runtime.tmux_trees import TreeWindow

TOGETHER_MS = 10_000
"""A server hangs up on all of its agents at once; each has its stop grace to end."""

_HUNG_UP = 128 + 1


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
    if end is None or is_live(entry) or entry.terminal.kind != "tmux" or entry.agent.resume_context is None:
        return False
    return end.cause == "lost" or (end.cause == "ended" and (end.signal == "HUP" or end.code == _HUNG_UP))


def recover_in_tmux(context: Context, entries: Sequence[Entry], tell: Callable[[Event], None]) -> list[Event]:
    """Resume them one after the other, each tree in a window of its own, in the server that each was in."""
    windows: dict[tuple[str | None, str], TreeWindow] = {}
    events = []
    for entry in lost_together(entries):
        socket, name = entry.terminal.socket, entry.tree or entry.name
        window = windows.setdefault((socket, name), TreeWindow(name, context.env, socket=socket))
        event = _resume(context, entry, window)
        tell(event)
        events.append(event)
    return events


def _resume(context: Context, entry: Entry, window: TreeWindow) -> Event:
    request = ResumeRequest(entry_id=entry.entry_id, name=entry.name, cwd=entry.plan.cwd, mode="interactive")
    try:
        now = open_pane(context, request, lambda argv: window.open(argv, agent=entry.name, cwd=entry.plan.cwd))
    except SupervisorError as error:
        return _event("failed", entry, why=str(error))
    return _event("resumed", now) if is_live(now) else _event("failed", now, why="it has ended again")


def _event(what: str, entry: Entry, why: str = "") -> Event:
    return Event(
        event="resumed" if what == "resumed" else "failed",
        name=entry.name,
        entry_id=entry.entry_id,
        session_id=entry.session_id,
        kind="dead",
        why=why,
    )
