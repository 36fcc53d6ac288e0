"""Whether and when a dead agent is started again: policies, wishes, ends, intensity, backoff, clocks."""

import msgspec
import pytest
from msgspec.structs import replace

from supervisor.core.ending import death
from supervisor.core.entry import MAX_DEATHS, Death, HandOff, Want
from supervisor.core.launch_plan import RestartPlan
from supervisor.core.liveness import Now
from supervisor.core.ports import Exit
from supervisor.core.profile import Policy, RestartPolicy
from supervisor.core.restarts import GiveUp, StartAt, next_start
from supervisor.core.timing import MS, RESTART_MAX_MS, RESTART_STEP_MS
from supervisor.core.transitions import restarting
from supervisor.testing import MACHINE, make_entry, make_hand_off, make_plan

NOW = 1_000_000 * MS
GOOD = make_hand_off()
BAD = make_hand_off(code=3, success=False)
KILLED = make_hand_off(outcome="signaled", code=None, signal="KILL", success=False)
UNKNOWN = make_hand_off(outcome="unknown", code=None, success=None)
YEAR_MS = 365 * 24 * 3600 * 1000


def deaths(*ages_ms: float, boot: str = "boot-1") -> tuple[Death, ...]:
    return tuple(Death(at=0, boot_id=boot, monotonic_ns=int(NOW - age * MS)) for age in ages_ms)


def decide(
    policy: RestartPlan,
    *,
    want: Want = "up",
    end: HandOff = BAD,
    tally: tuple[Death, ...] = deaths(0),
    spread: float = 0.0,
) -> StartAt | GiveUp:
    return next_start(policy, want=want, end=end, deaths=tally, boot_id="boot-1", now_ns=NOW, spread=spread)


AGAIN = StartAt(NOW, 1)
TABLE: list[tuple[Policy, HandOff, StartAt | GiveUp]] = [
    ("temporary", GOOD, GiveUp("its restart policy is temporary")),
    ("temporary", BAD, GiveUp("its restart policy is temporary")),
    ("temporary", KILLED, GiveUp("its restart policy is temporary")),
    ("temporary", UNKNOWN, GiveUp("its restart policy is temporary")),
    ("transient", GOOD, GiveUp("it ended without failure")),
    ("transient", BAD, AGAIN),
    ("transient", KILLED, AGAIN),
    ("transient", UNKNOWN, GiveUp("nobody knows how it ended")),
    ("permanent", GOOD, AGAIN),
    ("permanent", BAD, AGAIN),
    ("permanent", KILLED, AGAIN),
    ("permanent", UNKNOWN, AGAIN),
]


@pytest.mark.parametrize(("policy", "end", "expected"), TABLE)
def test_policy_and_end_decide(policy: Policy, end: HandOff, expected: StartAt | GiveUp) -> None:
    assert expected == decide(RestartPlan(policy=policy), end=end)


@pytest.mark.parametrize("policy", ["temporary", "transient", "permanent"])
@pytest.mark.parametrize("end", [GOOD, BAD, KILLED, UNKNOWN])
def test_what_is_wanted_down_is_never_started_again(policy: Policy, end: HandOff) -> None:
    assert GiveUp("it is wanted down") == decide(RestartPlan(policy=policy), want="down", end=end)


PERMANENT = RestartPlan(policy="permanent", intensity=3, period_seconds=10)


@pytest.mark.parametrize(
    ("tally", "expected"),
    [
        (deaths(0), StartAt(NOW, 1)),
        (deaths(5000, 0), StartAt(NOW + RESTART_STEP_MS * MS, 2)),
        (deaths(9999, 5000, 0), StartAt(NOW + 2 * RESTART_STEP_MS * MS, 3)),
        (deaths(9999, 8000, 5000, 0), GiveUp("it died 4 times within 10 s")),
        (deaths(10_000, 8000, 5000, 0), StartAt(NOW + 2 * RESTART_STEP_MS * MS, 3)),
        (deaths(60_000, 50_000, 40_000, 30_000, 0), StartAt(NOW, 1)),
    ],
)
def test_intensity_counts_the_deaths_within_its_period(tally: tuple[Death, ...], expected: StartAt | GiveUp) -> None:
    assert expected == decide(PERMANENT, tally=tally)


def test_without_intensity_the_first_death_is_the_last() -> None:
    assert GiveUp("it died 1 times within 60 s") == decide(RestartPlan(policy="permanent", intensity=0))


def test_the_backoff_doubles_up_to_its_ceiling() -> None:
    policy = RestartPlan(policy="permanent", intensity=20, period_seconds=3600)
    waits = [decide(policy, tally=deaths(*range(n, 0, -1))) for n in range(1, 11)]
    ms = [(w.not_before - NOW) // MS for w in waits if isinstance(w, StartAt)]
    assert ms == [0, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, RESTART_MAX_MS, RESTART_MAX_MS]


@pytest.mark.parametrize(("spread", "ms"), [(0.0, 500), (0.5, 625), (1.0, 750)])
def test_the_backoff_is_stretched_by_up_to_half(spread: float, ms: int) -> None:
    assert StartAt(NOW + ms * MS, 2) == decide(PERMANENT, tally=deaths(5, 0), spread=spread)


def test_deaths_of_another_boot_do_not_count() -> None:
    tally = (*deaths(900, 800, 700, 600, boot="boot-0"), *deaths(0))
    assert StartAt(NOW, 1) == decide(PERMANENT, tally=tally)


def test_a_monotonic_time_that_has_not_come_is_of_no_death_of_ours() -> None:
    assert StartAt(NOW, 1) == decide(PERMANENT, tally=(*deaths(-1, -2, -3, -4), *deaths(0)))


def test_a_wall_clock_set_back_a_year_changes_nothing() -> None:
    tally = deaths(9000, 5000, 0)
    shifted = tuple(replace(d, at=d.at - YEAR_MS) for d in tally)
    assert decide(PERMANENT, tally=tally) == decide(PERMANENT, tally=shifted)


def asked_for(intensity: int) -> RestartPlan | None:
    """The policy as a profile file gives it; None when the file is refused."""
    try:
        asked = msgspec.convert(
            {"policy": "permanent", "intensity": intensity, "period_seconds": 86_400}, RestartPolicy
        )
    except msgspec.ValidationError:
        return None
    return RestartPlan(policy=asked.policy, intensity=asked.intensity, period_seconds=asked.period_seconds)


@pytest.mark.parametrize("intensity", [1, MAX_DEATHS - 1, MAX_DEATHS, MAX_DEATHS + 8, 1000])
def test_an_intensity_is_refused_or_kept(intensity: int) -> None:
    """Through the record's own bounded tally: nobody is restarted more often than the profile says."""
    policy = asked_for(intensity)
    entry, restarts = make_entry(plan=make_plan(restart=policy or RestartPlan())), 0
    while policy is not None and restarts <= intensity:
        tally = death(Exit(code=1), Now(MACHINE, 0, NOW))
        if isinstance(decide(policy, tally=(*entry.deaths, tally)), GiveUp):
            break
        restarts += 1
        entry = restarting(entry, nonce="n", death=tally, attempt=1, not_before=None, now=0)
    assert (intensity if policy else 0) == restarts
