"""The stop ladder, rung by rung."""

import pytest

from supervisor.core.stopping import (
    AskToStop,
    Empty,
    KillTree,
    LookAgain,
    Step,
    Stopping,
    Survived,
    begin,
    next_step,
    sooner,
)
from supervisor.core.timing import KILL_WAIT_MS, MS, STOP_RESCAN_MS

NOW = 50_000 * MS
ASKED = Stopping("ask_again", 1000, NOW + 500 * MS)
GRACE = Stopping("grace", 1000, NOW + 1000 * MS)
KILL = Stopping("kill", 1000, NOW + KILL_WAIT_MS * MS)


@pytest.mark.parametrize(
    ("stop", "at_ms", "alive", "after", "step"),
    [
        (begin(1000), 0, 3, ASKED, AskToStop()),
        (ASKED, 1, 3, ASKED, LookAgain(NOW + (1 + STOP_RESCAN_MS) * MS)),
        (ASKED, 490, 3, ASKED, LookAgain(ASKED.deadline)),
        (ASKED, 500, 3, GRACE, AskToStop()),
        (ASKED, 700, 3, GRACE, AskToStop()),
        (GRACE, 501, 3, GRACE, LookAgain(NOW + (501 + STOP_RESCAN_MS) * MS)),
        (GRACE, 999, 3, GRACE, LookAgain(GRACE.deadline)),
        (GRACE, 1000, 1, Stopping("kill", 1000, NOW + (1000 + KILL_WAIT_MS) * MS), KillTree()),
        (begin(0), 0, 3, Stopping("ask_again", 0, NOW), AskToStop()),
        (Stopping("ask_again", 0, NOW), 0, 1, Stopping("kill", 0, NOW + KILL_WAIT_MS * MS), KillTree()),
        (KILL, KILL_WAIT_MS - 1, 1, KILL, KillTree()),
        (KILL, KILL_WAIT_MS, 1, KILL, Survived()),
    ],
)
def test_each_rung_leads_to_the_next(stop: Stopping, at_ms: int, alive: int, after: Stopping, step: Step) -> None:
    assert (after, step) == next_step(stop, alive=alive, now_ns=NOW + at_ms * MS)


@pytest.mark.parametrize("stop", [begin(1000), ASKED, GRACE, KILL])
@pytest.mark.parametrize("at_ms", [0, 100_000])
def test_an_empty_tree_ends_the_ladder_on_every_rung(stop: Stopping, at_ms: int) -> None:
    assert (stop, Empty()) == next_step(stop, alive=0, now_ns=NOW + at_ms * MS)


def test_nothing_is_killed_before_it_was_asked() -> None:
    late = next_step(begin(1000), alive=1, now_ns=NOW + 3_600_000 * MS)
    assert AskToStop() == late[1]


def test_a_tree_that_nothing_can_end_is_named_a_survivor_in_time() -> None:
    stop, now = begin(1000), 0
    steps: list[Step] = []
    while not steps or not isinstance(steps[-1], Survived):
        stop, step = next_step(stop, alive=1, now_ns=now)
        steps.append(step)
        now = step.at if isinstance(step, LookAgain) else now + STOP_RESCAN_MS * MS
    assert now <= (1000 + KILL_WAIT_MS + 2 * STOP_RESCAN_MS) * MS


def test_an_agent_is_asked_twice_and_no_more() -> None:
    """pi ignores the first TERM while it asks for a permission."""
    stop, now, asked = begin(1000), 0, []
    while now < 1000 * MS:
        stop, step = next_step(stop, alive=1, now_ns=now)
        if isinstance(step, AskToStop):
            asked.append(now // MS)
        now = step.at if isinstance(step, LookAgain) else now + MS
    assert asked == [0, 500]


@pytest.mark.parametrize(
    ("stop", "at_ms", "grace_ms", "after"),
    [
        (begin(1000), 0, 200, begin(200)),
        (ASKED, 100, 200, begin(200)),
        (ASKED, 100, 0, begin(0)),
        (ASKED, 900, 200, ASKED),
        (GRACE, 700, 200, begin(200)),
        (GRACE, 900, 200, GRACE),
        (KILL, 0, 0, KILL),
        (ASKED, 100, 1000, ASKED),
        (ASKED, 100, 5000, ASKED),
    ],
)
def test_another_stop_shortens_the_time_and_never_lengthens_it(
    stop: Stopping, at_ms: int, grace_ms: int, after: Stopping
) -> None:
    assert sooner(stop, grace_ms, NOW + at_ms * MS) == after
