"""Ending a tree of processes: ask, freeze, rescan until stable, kill. Signals go only to verified identities."""

from __future__ import annotations

from supervisor.core.identity import ProcessKey
from supervisor.core.liveness import Now
from supervisor.core.text import one_line
from supervisor.core.timing import KILL_WAIT_MS, MS, STOP_RESCAN_MS, TICK_MS
from supervisor.runtime.look import Look
from supervisor.runtime.parts import Parts

SIGKILL, SIGTERM = 9, 15
_ROUNDS = 20


def ask_to_stop(parts: Parts, signal: str, leader: ProcessKey | None, tree: set[ProcessKey]) -> None:
    """The profile's stop signal to the agent; where only its helpers are left, TERM to those.

    A stopped agent could not hear it: it is continued as well.
    """
    import signal as signals

    number = getattr(signals, f"SIG{signal}", SIGTERM) if leader else SIGTERM  # USR1 has another number on macOS
    targets = [leader] if leader else sorted(tree, key=lambda k: k.pid)
    for key in targets:
        parts.signals.send(key, number)
        parts.signals.send(key, signals.SIGCONT)


def kill_tree(parts: Parts, look: Look, entry_id: str, leader: ProcessKey | None, *, attached: bool) -> int:
    """Freeze what is there, look again until nothing new appears, then kill all of it. How many were signalled.

    Frozen processes cannot fork, so the second look is complete where the first was not.
    """
    import signal as signals

    frozen: set[ProcessKey] = set()
    for _ in range(_ROUNDS):
        look.refresh()
        new = look.tree(entry_id, leader, attached=attached) - frozen
        if not new:
            break
        for key in new:
            parts.signals.send(key, signals.SIGSTOP)
        frozen |= new
    killed = sum(parts.signals.send(key, SIGKILL) for key in frozen)
    look.refresh()
    return killed


class Leftovers:
    """What an agent has left when it ended: looked for again until it is gone or the kill wait is over.

    What the same Ctrl-C has hit ends a moment after the agent, and is no process that still runs.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._until: int | None = None

    def settle(
        self, look: Look, entry_id: str, left: set[ProcessKey], now: Now, *, attached: bool, kill: bool
    ) -> int | None:
        """When to look again (monotonic ns); None when nothing is left, or what is left stays. `kill`: end it."""
        self._until = self._until or now.monotonic_ns + KILL_WAIT_MS * MS
        if not left or now.monotonic_ns >= self._until:
            self._until = None
            return None
        if not kill:
            return now.monotonic_ns + STOP_RESCAN_MS * MS
        kill_tree(self._parts, look, entry_id, None, attached=attached)
        return now.monotonic_ns + MS * TICK_MS // 10


def look_from_outside(parts: Parts) -> Look:
    """For who keeps no agent: what an ended one has left is found by its marker."""
    return Look(parts.processes, home=parts.home, me=0, agents=frozenset, keepers=parts.beats.owners, subreaper=False)


def names(parts: Parts, tree: set[ProcessKey]) -> tuple[str, ...]:
    """Survivors for people: pid and command."""
    return tuple(
        f"pid {k.pid} ({one_line(' '.join(parts.processes.command(k.pid)) or '?', 80)})"
        for k in sorted(tree, key=lambda k: k.pid)
    )
