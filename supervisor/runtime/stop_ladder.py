"""The stop ladder of one agent, carried out: asked, the whole tree waited for, frozen and killed, survivors named.

Owns where on the ladder the agent is. What is recorded of it, and what follows, is the agent's.
"""

from __future__ import annotations

from msgspec import Struct

from supervisor.core.entry import Entry
from supervisor.core.identity import ProcessKey
from supervisor.core.liveness import Now
from supervisor.core.stopping import (
    AskToStop,
    Empty,
    KillTree,
    Stopping,
    Survived,
    begin,
    next_step,
    sooner,
)
from supervisor.core.timing import MS, TICK_MS
from supervisor.runtime.look import Look
from supervisor.runtime.parts import Parts
from supervisor.runtime.tree_end import ask_to_stop, kill_tree, names


class Stands(Struct, frozen=True):
    """Something of the tree is there: come back at this monotonic time (ns). `long`: it takes more than a tick."""

    at: int
    long: bool = False


class Over(Struct, frozen=True):
    """The end of the ladder, and who is still there (for people)."""

    survivors: tuple[str, ...]


class StopLadder:
    """`begin`, then `climb` until it is `Over`."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._at: Stopping | None = None
        self._asked_at = 0

    @property
    def begun(self) -> bool:
        """On the ladder: there is no way back."""
        return self._at is not None

    def begin(self, entry: Entry) -> None:
        """The first rung, unless it is on the ladder already."""
        if self._at is None:
            self._at = begin(_grace_ms(entry))

    def climb(self, entry: Entry, leader: ProcessKey | None, look: Look, now: Now, *, attached: bool) -> Stands | Over:
        """One rung. `leader` is the agent's process, None when its end is known."""
        assert self._at is not None  # it has begun
        tree: set[ProcessKey] = set()
        if leader is None or self._at.phase == "kill":  # while the agent itself lives that is all to know
            tree = look.tree(entry.entry_id, leader, attached=attached)
        alive = len(tree) or (1 if leader is not None else 0)  # a leader not reaped yet has no known end
        self._at = sooner(self._at, _grace_ms(entry), now.monotonic_ns)
        self._at, step = next_step(self._at, alive=alive, now_ns=now.monotonic_ns)
        if isinstance(step, Empty | Survived):
            return Over(names(self._parts, tree))
        if isinstance(step, AskToStop):
            self._asked_at = self._asked_at or now.monotonic_ns
            ask_to_stop(self._parts, entry.plan.stop_signal, leader, tree)
            return Stands(now.monotonic_ns + TICK_MS * MS if self._at.grace_ms else now.monotonic_ns)
        if isinstance(step, KillTree):
            kill_tree(self._parts, look, entry.entry_id, leader, attached=attached)
            return Stands(now.monotonic_ns + MS * TICK_MS // 10)
        return Stands(step.at, long=now.monotonic_ns - self._asked_at >= TICK_MS * MS)


def _grace_ms(entry: Entry) -> int:
    return entry.plan.stop_grace_ms if entry.stop_grace_ms is None else entry.stop_grace_ms
