"""The wall clock of a command may be shifted for tests; what decisions are made by may not."""

from __future__ import annotations

import pytest

from supervisor.adapters.clock import SystemClock
from supervisor.runtime.compose import Context


@pytest.mark.parametrize("offset_ms", [3_600_000, -3_600_000])
def test_an_offset_steps_the_wall_clock_alone(offset_ms: int) -> None:
    here = SystemClock()
    there = Context({"SUPERVISOR_CLOCK_OFFSET_MS": str(offset_ms)}, cwd="/").clock

    assert abs(there.wall_ms() - here.wall_ms() - offset_ms) < 1_800_000
    assert here.monotonic_ns() <= there.monotonic_ns() <= here.monotonic_ns()


def test_an_offset_that_is_no_number_is_none() -> None:
    there = Context({"SUPERVISOR_CLOCK_OFFSET_MS": "soon"}, cwd="/").clock

    assert abs(there.wall_ms() - SystemClock().wall_ms()) < 1_800_000
