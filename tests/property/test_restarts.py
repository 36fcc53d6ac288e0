"""Restart intensity and backoff against a model that keeps every death in a list and counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.entry import MAX_DEATHS, Death
from supervisor.core.launch_plan import RestartPlan
from supervisor.core.restarts import GiveUp, StartAt, next_start
from supervisor.core.timing import MS, RESTART_MAX_MS, RESTART_STEP_MS
from supervisor.testing import make_hand_off

BAD = make_hand_off(code=1, success=False)
# a life may be short or long: milliseconds between two deaths
lives = st.lists(st.integers(0, 40_000), min_size=1, max_size=60)
policies = st.builds(
    RestartPlan,
    policy=st.just("permanent"),
    intensity=st.integers(0, MAX_DEATHS - 2),
    period_seconds=st.integers(1, 60),
)


def decide(policy: RestartPlan, deaths: list[Death], now_ns: int, spread: float = 0.0) -> StartAt | GiveUp:
    return next_start(policy, want="up", end=BAD, deaths=deaths, boot_id="boot-1", now_ns=now_ns, spread=spread)


def naive_recent(times: list[int], period_seconds: int) -> int:
    return len([t for t in times if times[-1] - t < period_seconds * 1000])


@given(policies, lives)
def test_intensity_is_that_of_the_naive_model(policy: RestartPlan, lives: list[int]) -> None:
    """Deaths at the end of each life, with the record's bounded tally on our side and all of them on the model's."""
    times: list[int] = []
    tally: list[Death] = []
    now = 0
    for life in lives:
        now += life
        times.append(now)
        tally = [*tally, Death(at=0, boot_id="boot-1", monotonic_ns=now * MS)][-MAX_DEATHS:]
        gave_up = isinstance(decide(policy, tally, now * MS), GiveUp)
        assert (naive_recent(times, policy.period_seconds) > policy.intensity) is gave_up
        if gave_up:
            return


@given(policies, lives, st.floats(0, 1))
def test_a_backoff_is_bounded_and_never_in_the_past(policy: RestartPlan, lives: list[int], spread: float) -> None:
    deaths = [Death(at=0, boot_id="boot-1", monotonic_ns=sum(lives[: n + 1]) * MS) for n in range(len(lives))]
    now = sum(lives) * MS
    decision = decide(policy, deaths, now, spread)
    if isinstance(decision, StartAt):
        assert 0 <= decision.not_before - now <= RESTART_MAX_MS * MS * 3 // 2


@given(st.integers(2, 25), st.floats(0, 1))
def test_more_deaths_never_mean_a_shorter_wait(count: int, spread: float) -> None:
    policy = RestartPlan(policy="permanent", intensity=30, period_seconds=60)
    waits = []
    for n in range(1, count + 1):
        deaths = [Death(at=0, boot_id="boot-1", monotonic_ns=i) for i in range(n)]
        decision = decide(policy, deaths, n, spread)
        assert isinstance(decision, StartAt)
        waits.append(decision.not_before - n)
    assert sorted(waits) == waits
    assert waits[1:] >= [RESTART_STEP_MS * MS]


@given(policies, lives, st.integers(-(2**45), 2**45))
def test_the_wall_clock_has_no_say(policy: RestartPlan, lives: list[int], wall: int) -> None:
    now = sum(lives) * MS
    plain = [Death(at=0, boot_id="boot-1", monotonic_ns=sum(lives[: n + 1]) * MS) for n in range(len(lives))]
    dated = [Death(at=wall, boot_id=d.boot_id, monotonic_ns=d.monotonic_ns) for d in plain]
    assert decide(policy, plain, now) == decide(policy, dated, now)
