"""The real clocks. Owns nothing."""

from __future__ import annotations

import time


class SystemClock:
    """Wall clock for people and records, CLOCK_MONOTONIC (system-wide within a boot, stops in sleep) for decisions.

    `offset_ms` is added to the wall clock alone, as a step of it would be.
    """

    def __init__(self, offset_ms: int = 0) -> None:
        self._offset_ms = offset_ms

    def wall_ms(self) -> int:
        """Epoch milliseconds."""
        return time.time_ns() // 1_000_000 + self._offset_ms

    def monotonic_ns(self) -> int:
        """Nanoseconds of this boot, the same for every process of the machine."""
        return time.monotonic_ns()


def pause(seconds: float) -> None:
    """Sleep between two looks at a condition that has a deadline; nothing else may sleep."""
    time.sleep(seconds)
