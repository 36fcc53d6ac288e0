"""The keeper ends agents: asked first, the whole tree, by identity, and whoever survives is named."""

import signal

import pytest

from supervisor.core.entry import Death, Starting, WindingDown
from supervisor.core.launch_plan import RestartPlan
from supervisor.core.ports import Exit
from supervisor.core.timing import KILL_WAIT_MS
from supervisor.runtime.kept_agent import KeptAgent
from supervisor.testing import make_beat, make_plan
from tests.parts import Stage

TERM, KILL, STOP, CONT = signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT
GRACE_MS = 4000


@pytest.fixture
def stage() -> Stage:
    return Stage()


def running(stage: Stage, name: str = "lead", **plan: object) -> KeptAgent:
    agent = stage.add(name, plan=make_plan(**{"stop_grace_ms": GRACE_MS, **plan}))
    stage.go(50)
    return agent


def deaf(stage: Stage, agent: KeptAgent, *numbers: int) -> None:
    """From now on these signals have no effect on the agent."""
    stage.processes.row(stage.pid(agent)).ignores = frozenset(numbers)


def ended(stage: Stage, agent: KeptAgent) -> tuple[str, str, str]:
    entry = stage.on_disk(agent)
    assert entry.hand_off is not None
    return entry.status, entry.hand_off.cause, entry.hand_off.outcome


# -- who may ask for it


def test_a_wish_written_by_another_process_is_obeyed_within_a_second(stage: Stage) -> None:
    lead = running(stage)
    stage.wants_down(lead)
    stage.go(1100)
    assert ended(stage, lead) == ("closed", "stopped", "signaled")


def test_a_bell_makes_it_at_once(stage: Stage) -> None:
    lead = running(stage)
    stage.go(500)
    stage.wants_down(lead)
    stage.keeper.hear(set(), {3})
    stage.go(10)
    assert stage.on_disk(lead).status == "closed"


def test_the_grace_of_the_wish_beats_the_plans(stage: Stage) -> None:
    lead = running(stage)
    deaf(stage, lead, TERM)
    stage.wants_down(lead, grace_ms=0)
    stage.go(1500)
    assert stage.on_disk(lead).status == "closed"


def test_a_wish_concerns_its_agent_alone(stage: Stage) -> None:
    lead, tests = running(stage), running(stage, "tests")
    stage.wants_down(lead)
    stage.go(5000)
    assert (
        stage.on_disk(lead).status,
        stage.on_disk(tests).status,
        stage.signals.to(stage.pid(tests)),
    ) == ("closed", "running", [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_keeper_that_is_told_to_end_winds_its_agents_down(stage: Stage, number: int) -> None:
    lead, tests = running(stage), running(stage, "tests")
    stage.turn(number)
    stage.go(1000)
    assert [ended(stage, a) for a in (lead, tests)] == [("closed", "stopped", "signaled")] * 2


def test_a_keeper_has_nothing_left_once_its_agents_are_down(stage: Stage) -> None:
    running(stage)
    stage.turn(TERM)
    stage.go(1000)
    assert stage.turn() is None


def test_a_keeper_that_is_told_to_end_starts_nobody_again(stage: Stage) -> None:
    lead = running(stage, restart=RestartPlan(policy="permanent"))
    stage.turn(TERM)
    stage.go(60_000)
    assert (len(stage.spawner.started), stage.on_disk(lead).status) == (1, "closed")


def test_a_keeper_that_is_told_to_end_starts_no_agent_that_backs_off(stage: Stage) -> None:
    lead = running(stage, restart=RestartPlan(policy="permanent"))
    for _ in range(2):
        stage.kill(lead)
        stage.go(10)
    stage.turn(TERM)
    stage.go(60_000)
    assert (len(stage.spawner.started), stage.on_disk(lead).status) == (2, "closed")


def test_a_keeper_that_is_told_to_end_starts_no_agent_that_waits(stage: Stage) -> None:
    first = stage.add("db", plan=make_plan(ready="output"), output=stage.transcript("db"))
    second = stage.add("web", state=Starting(since=0, waits_for=(first.entry.entry_id,)))
    stage.go(50)
    stage.turn(TERM)
    stage.go(60_000)
    assert (stage.requests("web"), stage.on_disk(second).status) == ([], "closed")


def test_a_hangup_does_not_concern_a_detached_keeper(stage: Stage) -> None:
    lead = running(stage)
    stage.turn(signal.SIGHUP)
    stage.go(1000)
    assert (stage.on_disk(lead).status, stage.signals.to(stage.pid(lead))) == ("running", [])


def test_a_hangup_reaches_a_foreground_agent() -> None:
    stage = Stage(foreground=True)
    lead = stage.add(plan=make_plan(mode="interactive", stdin="inherit"))
    stage.go(50)
    stage.turn(signal.SIGHUP)
    stage.go(100)
    end = stage.on_disk(lead).hand_off
    assert end is not None
    assert (end.cause, end.signal, end.hung_up) == ("ended", "HUP", True)


def test_an_interrupt_at_the_terminal_is_the_agents_to_decide() -> None:
    stage = Stage(foreground=True)
    lead = stage.add(plan=make_plan(mode="interactive", stdin="inherit"))
    stage.go(50)
    stage.turn(signal.SIGINT)
    stage.go(1000)
    assert (stage.on_disk(lead).status, stage.signals.sent) == ("running", [])


# -- the ladder


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "KILL"])
def test_an_agent_is_asked_by_the_signal_of_its_profile(stage: Stage, name: str) -> None:
    lead = running(stage, stop_signal=name)
    pid = stage.pid(lead)
    stage.wants_down(lead)
    stage.go(1100)
    assert stage.signals.to(pid)[0] == signal.Signals[f"SIG{name}"]


def test_a_clean_answer_is_recorded_as_such(stage: Stage) -> None:
    lead = running(stage)
    stage.processes.row(stage.pid(lead)).answers = {TERM: Exit(code=0)}
    stage.wants_down(lead)
    stage.go(1100)
    end = stage.on_disk(lead).hand_off
    assert end is not None
    assert (end.outcome, end.code, end.success, end.cause) == ("exited", 0, None, "stopped")


def test_a_stopped_agent_is_continued_so_that_it_can_hear(stage: Stage) -> None:
    lead = running(stage)
    stage.processes.deliver(stage.pid(lead), STOP)
    stage.wants_down(lead)
    stage.go(1100)
    assert ended(stage, lead) == ("closed", "stopped", "signaled")


def test_nobody_is_killed_within_the_grace(stage: Stage) -> None:
    lead = running(stage)
    deaf(stage, lead, TERM)
    stage.wants_down(lead)
    stage.go(GRACE_MS)
    assert KILL not in stage.signals.to(stage.pid(lead))


def test_after_the_grace_the_agent_is_killed(stage: Stage) -> None:
    lead = running(stage)
    pid = stage.pid(lead)
    deaf(stage, lead, TERM)
    stage.wants_down(lead)
    stage.go(GRACE_MS + 2000)
    assert (stage.signals.to(pid)[-1], ended(stage, lead)) == (KILL, ("closed", "stopped", "signaled"))


def test_a_long_end_is_visible_as_winding_down(stage: Stage) -> None:
    lead = running(stage)
    deaf(stage, lead, TERM)
    stage.wants_down(lead)
    stage.go(GRACE_MS - 500)
    state = stage.on_disk(lead).state
    assert isinstance(state, WindingDown)
    assert state.reason == "user_cleanup"


def test_a_stop_ends_the_whole_tree_not_the_leader_alone(stage: Stage) -> None:
    """Helpers in other sessions, one of them double-forked away, one deaf to TERM."""
    lead = running(stage)
    mark = {"SUPERVISOR_ENTRY_ID": lead.entry.entry_id}
    child = stage.processes.add(parent=stage.pid(lead), env=mark)
    away = stage.processes.add(parent=child.pid, env=mark, new_session=True)
    hard = stage.processes.add(parent=away.pid, env=mark, ignores={TERM})
    stage.processes.end(child.pid)
    stage.wants_down(lead)
    stage.go(GRACE_MS + 2000)
    assert (
        [stage.processes.alive(k) for k in (away, hard)],
        ended(stage, lead),
    ) == ([False, False], ("closed", "stopped", "signaled"))


def test_a_tree_that_goes_on_forking_is_frozen_whole_before_any_of_it_is_killed(stage: Stage) -> None:
    lead = running(stage)
    deaf(stage, lead, TERM)
    stage.processes.row(stage.pid(lead)).forks = 5
    stage.wants_down(lead, grace_ms=0)
    stage.go(5000)
    numbers = [s.signal for s in stage.signals.sent if s.signal in (STOP, KILL)]
    assert (numbers, stage.on_disk(lead).status) == ([STOP] * 6 + [KILL] * 6, "closed")


def test_the_end_is_not_told_before_the_tree_is_empty(stage: Stage) -> None:
    lead = running(stage)
    helper = stage.processes.add(
        parent=stage.pid(lead), env={"SUPERVISOR_ENTRY_ID": lead.entry.entry_id}, ignores={TERM}
    )
    stage.wants_down(lead)
    stage.go(GRACE_MS - 100)
    assert (stage.on_disk(lead).status, stage.processes.alive(helper)) == ("winding_down", True)


def test_whoever_survives_is_named(stage: Stage) -> None:
    lead = running(stage)
    stuck = stage.processes.add(
        parent=stage.pid(lead),
        env={"SUPERVISOR_ENTRY_ID": lead.entry.entry_id},
        argv=("dd", "if=/dev/stuck\x1b"),
        ignores={TERM, KILL},
    )
    stage.wants_down(lead, grace_ms=0)
    stage.go(KILL_WAIT_MS + 2000)
    end = stage.on_disk(lead).hand_off
    assert end is not None
    assert (f"pid {stuck.pid} (dd if=/dev/stuck\\x1b)",) == end.survivors


def test_another_keepers_agents_below_are_not_touched(stage: Stage) -> None:
    lead = running(stage)
    other = stage.processes.add(parent=stage.pid(lead), new_session=True, argv=("keeper",))
    theirs = stage.processes.add(parent=other.pid, env={"SUPERVISOR_ENTRY_ID": "entry-theirs"})
    ref = stage.keeper.ref
    beat = make_beat(type(ref)("keeper-2", type(ref.process)(stage.processes.machine(), other)))
    stage.beats.beat(beat)
    stage.wants_down(lead, grace_ms=0)
    stage.go(5000)
    assert (
        stage.on_disk(lead).status,
        stage.processes.alive(other),
        stage.processes.alive(theirs),
        stage.signals.to(other.pid),
        stage.signals.to(theirs.pid),
    ) == ("closed", True, True, [], [])


def test_a_pid_reused_during_the_grace_is_spared_with_all_below_it() -> None:
    """Of an agent that is not our child, the pid is free as soon as its own parent has reaped it."""
    stage = Stage(poll_only=True)
    lead = stage.attach(plan=make_plan(stop_grace_ms=GRACE_MS))
    deaf(stage, lead, TERM)
    stage.wants_down(lead)
    stage.go(1500)
    stranger = stage.processes.reuse(stage.pid(lead))
    child = stage.processes.add(parent=stranger.pid)
    asked = len(stage.signals.sent)
    stage.go(GRACE_MS + 5000)
    assert (
        [stage.processes.alive(k) for k in (stranger, child)],
        stage.signals.sent[asked:],
    ) == ([True, True], [])


@pytest.mark.parametrize("step_ms", [-31_536_000_000, 3_600_000])
def test_a_step_of_the_wall_clock_moves_no_rung(stage: Stage, step_ms: int) -> None:
    lead = running(stage)
    deaf(stage, lead, TERM)
    stage.wants_down(lead)
    stage.go(1100)
    stage.clock.step_wall(step_ms)
    stage.go(GRACE_MS - 1000)
    before = stage.processes.alive(stage.key(lead))
    stage.go(1000)
    assert (before, stage.on_disk(lead).status) == (True, "closed")


def test_a_stop_that_an_earlier_keeper_began_is_finished(stage: Stage) -> None:
    lead = stage.attach(state=WindingDown(since=0, reason="user_cleanup"))
    stage.go(2000)
    assert stage.on_disk(lead).status == "closed"


def test_an_agent_that_is_wanted_down_before_its_start_is_never_started(stage: Stage) -> None:
    lead = stage.add(want="down")
    stage.turn()
    assert (stage.spawner.requests, ended(stage, lead)) == ([], ("closed", "stopped", "not_started"))


def test_a_stop_leaves_the_tally_of_deaths_alone(stage: Stage) -> None:
    deaths = (Death(at=1, boot_id="boot-1", monotonic_ns=1, code=1),)
    lead = stage.add(deaths=deaths)
    stage.go(50)
    stage.wants_down(lead)
    stage.go(1100)
    assert deaths == stage.on_disk(lead).deaths
