"""A clock that stands still until told. Owns both times; never sleeps."""

from __future__ import annotations

from supervisor.core.timing import MS


class FakeClock:
    """`Clock`. `advance` moves both clocks; `step_wall` only the wall clock, as an administrator or NTP does."""

    def __init__(self, *, wall_ms: int = 1_750_000_000_000, monotonic_ns: int = 3_600_000 * MS) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ns = monotonic_ns
        self._started_ns = monotonic_ns

    def wall_ms(self) -> int:
        """Epoch milliseconds."""
        return self._wall_ms + (self._monotonic_ns - self._started_ns) // MS

    def monotonic_ns(self) -> int:
        """Nanoseconds of this boot."""
        return self._monotonic_ns

    def advance(self, ms: float) -> None:
        """Time passes."""
        self.advance_to(self._monotonic_ns + int(ms * MS))

    def advance_to(self, monotonic_ns: int) -> None:
        """Time passes until then; a time in the past is now."""
        self._monotonic_ns = max(self._monotonic_ns, monotonic_ns)

    def step_wall(self, ms: int) -> None:
        """Set the wall clock forward, or back."""
        self._wall_ms += ms
