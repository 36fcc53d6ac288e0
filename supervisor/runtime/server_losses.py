"""A tmux server that is gone takes all of its agents along: their ends are told as one event. Owns those held back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from supervisor.core.entry import Entry, is_live
from supervisor.core.events import Event
from supervisor.core.text import one_line
from supervisor.core.timing import HEARTBEAT_STALE_MS

HOLD_MS = HEARTBEAT_STALE_MS
"""Agents that ignore HUP are not waited for longer: their ends come later, one by one."""

_MAX_NAMES = 20


class ServerLosses:
    """`take` the events of one look; those of agents that a dead server has taken along come back as one."""

    def __init__(self, alive: Callable[[str], bool]) -> None:
        self._alive = alive
        self._held: dict[str, list[Event]] = {}

    def take(self, events: Iterable[Event], entries: Sequence[Entry], *, now: int) -> list[Event]:
        """What to tell now (epoch ms `now`)."""
        by_id = {e.entry_id: e for e in entries}
        dead: dict[str, bool] = {}
        out = []
        for event in events:
            socket = _server_of(by_id.get(event.entry_id)) if event.what == "ended" else None
            if socket is not None and socket not in dead:
                dead[socket] = not self._alive(socket)
            if socket is not None and dead[socket]:
                self._held.setdefault(socket, []).append(event)
            else:
                out.append(event)
        for socket, held in list(self._held.items()):
            waits = any(is_live(e) and e.terminal.socket == socket for e in entries)
            if not waits or now - held[0].at > HOLD_MS:
                del self._held[socket]
                out += held if _by_itself(held, by_id) else [_lost(socket, held, by_id, now)]
        return out


def still_gone(events: Iterable[Event], entries: Sequence[Entry]) -> list[Event]:
    """The last loss of each server, until an agent runs in it again."""
    back = {e.terminal.socket for e in entries if is_live(e)}
    last = {e.name: e for e in events if e.what == "server_gone" and e.name not in back}
    return list(last.values())


def _server_of(entry: Entry | None) -> str | None:
    """The server of an agent that may have been hung up on: nobody stopped it, and it did not end well."""
    end = entry.hand_off if entry else None
    if entry is None or end is None or entry.terminal.kind != "tmux" or end.cause != "ended" or end.success:
        return None
    return entry.terminal.socket


def _by_itself(held: Sequence[Event], by_id: Mapping[str, Entry]) -> bool:
    """A server ends with its last pane: one agent alone, that was not hung up on, has taken the server along."""
    entry = by_id.get(held[0].entry_id)
    end = entry.hand_off if entry else None
    return len(held) == 1 and (end is None or not (end.hung_up or end.signal == "HUP"))


def _lost(socket: str, held: Sequence[Event], by_id: Mapping[str, Entry], now: int) -> Event:
    names = ", ".join(e.name for e in held[:_MAX_NAMES]) + (", …" if len(held) > _MAX_NAMES else "")
    again = [e.name for e in held if (entry := by_id.get(e.entry_id)) and entry.agent.resume_context]
    hint = "; to bring them back: supervisor recover --tmux" if again else ""
    return Event(
        at=now,
        what="server_gone",
        name=one_line(socket),
        entry_id="",
        session_id="",
        pid=None,
        status="closed",
        verdict="dead_pid",
        detail=f"the tmux server is gone, and {len(held)} of its agents with it: {names}{hint}",
    )
