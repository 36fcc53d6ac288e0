"""The keeper's heart: before any work, through every burst, by the monotonic clock."""

from collections.abc import Sequence

import pytest

from supervisor.core.launch_plan import RestartPlan
from supervisor.core.ports import Exit, Spawned, SpawnFailed, SpawnRequest
from supervisor.core.timing import HEARTBEAT_REFRESH_MS, HEARTBEAT_STALE_MS, MS, STARTS_PER_TURN
from supervisor.testing import FakeProcessTable, FakeSpawner, MemoryBeats, make_plan
from tests.parts import Stage

YEAR_MS = 365 * 24 * 3600 * 1000
PERMANENT = RestartPlan(policy="permanent", intensity=30, period_seconds=3600)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def gaps_ms(stage: Stage) -> list[float]:
    times = [b.monotonic_ns for b in stage.beats.all]
    return [(b - a) / MS for a, b in zip(times, times[1:], strict=False)]


def test_a_keeper_beats_once_a_second(stage: Stage) -> None:
    stage.add()
    stage.go(30_000)
    assert {HEARTBEAT_REFRESH_MS} == set(gaps_ms(stage))


def test_beats_are_numbered_and_name_their_keeper(stage: Stage) -> None:
    stage.add()
    stage.go(3000)
    beats = stage.beats.all
    assert ([1, 2, 3, 4], {("keeper-1", stage.me, "boot-1", "host-1")}) == (
        [b.beat for b in beats],
        {(b.keeper_id, b.pid, b.boot_id, b.host_id) for b in beats},
    )


def test_a_keeper_beats_before_its_first_intent(stage: Stage) -> None:
    stage.keeper.announce()
    assert (len(stage.beats.all), stage.keeper.agents) == (1, [])


class NotingSpawner(FakeSpawner):
    """Notes how many beats were out when the keeper looked for ends and started something."""

    def __init__(self, processes: FakeProcessTable, parent: int, beats: MemoryBeats) -> None:
        super().__init__(processes, parent=parent)
        self._beats = beats
        self.noted: list[int] = []

    def spawn(self, request: SpawnRequest) -> Spawned | SpawnFailed:
        self.noted.append(len(self._beats.all))
        return super().spawn(request)

    def reap(self) -> Sequence[tuple[int, Exit]]:
        self.noted.append(len(self._beats.all))
        return super().reap()


def test_a_beat_comes_before_any_work() -> None:
    stage = Stage(make_spawner=NotingSpawner)
    stage.add()
    stage.turn()
    assert isinstance(stage.spawner, NotingSpawner)
    assert stage.spawner.noted == [1, 1]


def test_beats_go_on_while_a_hundred_restarts_are_pending(stage: Stage) -> None:
    agents = [stage.add(f"a{n}", plan=make_plan(restart=PERMANENT)) for n in range(100)]
    stage.go(100)
    for _ in range(3):
        for agent in agents:
            if agent.leader:
                stage.kill(agent)
        stage.go(2000)
    assert max(gaps_ms(stage)) <= HEARTBEAT_REFRESH_MS


def test_a_slow_burst_of_starts_delays_no_beat(stage: Stage) -> None:
    """100 ms for each pass of at most sixteen starts: a beat is late by one pass at most."""
    for number in range(10 * STARTS_PER_TURN):
        stage.add(f"a{number}")
    while len(stage.spawner.started) < 10 * STARTS_PER_TURN:
        stage.turn()
        stage.clock.advance(100)
    assert max([0.0, *gaps_ms(stage)]) < HEARTBEAT_REFRESH_MS + 100


@pytest.mark.parametrize("step_ms", [-YEAR_MS, -3_600_000, 3_600_000])
def test_a_step_of_the_wall_clock_skips_no_beat(stage: Stage, step_ms: int) -> None:
    stage.add()
    stage.go(5000)
    stage.clock.step_wall(step_ms)
    stage.go(10_000)
    assert {HEARTBEAT_REFRESH_MS} == set(gaps_ms(stage))


def test_a_keeper_that_slept_beats_at_once_and_once(stage: Stage) -> None:
    stage.add()
    stage.go(2000)
    before = len(stage.beats.all)
    stage.clock.advance(10 * HEARTBEAT_STALE_MS)
    stage.turn()
    stage.turn()
    assert len(stage.beats.all) - before == 1


def test_an_idle_keeper_wakes_for_its_beat_alone(stage: Stage) -> None:
    stage.add()
    stage.go(1000)
    turns = 0
    start = stage.clock.monotonic_ns()
    while stage.clock.monotonic_ns() - start < 60_000 * MS:
        due = stage.turn()
        turns += 1
        assert due is not None
        stage.clock.advance_to(due)
    assert turns <= 62


def test_an_idle_keeper_looks_at_no_process_table(stage: Stage) -> None:
    stage.add()
    stage.go(1000)
    before = stage.processes.looks
    stage.go(60_000)
    assert before == stage.processes.looks


def test_a_clean_end_leaves_no_heartbeat_and_no_bell(stage: Stage) -> None:
    stage.fakes.bells.listen("keeper-1")
    stage.add()
    stage.go(100)
    stage.keeper.close()
    assert (stage.beats.read("keeper-1"), stage.fakes.bells.ring("keeper-1")) == (None, False)


def test_a_heartbeat_that_was_removed_is_made_anew(stage: Stage) -> None:
    stage.add()
    stage.go(1000)
    stage.beats.remove("keeper-1")
    stage.go(1000)
    assert stage.beats.read("keeper-1") is not None
