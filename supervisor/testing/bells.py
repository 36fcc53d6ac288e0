"""Bells in memory. Owns who listens and how often each was rung."""

from __future__ import annotations


class MemoryBells:
    """`Bells`, with the listener's side for tests."""

    def __init__(self) -> None:
        self._rung: dict[str, int] = {}
        self._stops: set[str] = set()

    def listen(self, keeper_id: str) -> None:
        """From now on this bell can be heard."""
        self._rung.setdefault(keeper_id, 0)

    def ring(self, keeper_id: str) -> bool:
        """False when nobody listens there."""
        if keeper_id not in self._rung:
            return False
        self._rung[keeper_id] += 1
        return True

    def mark_stop(self, entry_id: str) -> None:
        """Wish an agent down without its record."""
        self._stops.add(entry_id)

    def stop_marked(self, entry_id: str) -> bool:
        """Whether somebody wishes it down this way."""
        return entry_id in self._stops

    def unmark_stop(self, entry_id: str) -> None:
        """It is down."""
        self._stops.discard(entry_id)

    def remove(self, keeper_id: str) -> None:
        """Nobody listens any more."""
        self._rung.pop(keeper_id, None)

    def drain(self, keeper_id: str) -> int:
        """How often it was rung since last asked."""
        count = self._rung.get(keeper_id, 0)
        if keeper_id in self._rung:
            self._rung[keeper_id] = 0
        return count
