"""Heartbeats in memory. Owns every beat ever made, so that a test can read their rhythm."""

from __future__ import annotations

from collections.abc import Mapping

from supervisor.core.liveness import Beat


class MemoryBeats:
    """`Heartbeats`. `all` lists every beat in order; `broken` makes beating fail."""

    def __init__(self) -> None:
        self._last: dict[str, Beat] = {}
        self.all: list[Beat] = []
        self.broken: OSError | None = None

    def beat(self, beat: Beat) -> None:
        """The keeper lives."""
        if self.broken is not None:
            raise self.broken
        self._last[beat.keeper_id] = beat
        self.all.append(beat)

    def read(self, keeper_id: str) -> Beat | None:
        """The last beat."""
        return self._last.get(keeper_id)

    def remove(self, keeper_id: str) -> None:
        """A clean end, or somebody who removes the file of a living keeper."""
        self._last.pop(keeper_id, None)

    def owners(self) -> Mapping[int, int]:
        """The keepers with a heartbeat: pid → start ticks."""
        return {beat.pid: beat.start_ticks for beat in self._last.values()}

    def misplaced(self, keeper_id: str) -> bool:
        """Memory is never moved away."""
        return False
