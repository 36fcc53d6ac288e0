"""A keeper that takes over running agents: none is started twice, and an end nobody could learn stays unknown."""

import pytest
from msgspec.structs import replace

from supervisor.core.entry import KeeperRef, ParentRef
from supervisor.core.identity import ProcessRef
from supervisor.core.launch_plan import RestartPlan
from supervisor.core.ports import Exit
from supervisor.core.profile import Policy
from supervisor.runtime.kept_agent import KeptAgent
from supervisor.testing import make_beat, make_entry, make_plan
from tests.parts import Stage


@pytest.fixture
def stage() -> Stage:
    return Stage()


def end_of(stage: Stage, agent: KeptAgent) -> tuple[str, int | None, str | None, bool | None]:
    end = stage.on_disk(agent).hand_off
    assert end is not None
    return end.outcome, end.code, end.signal, end.success


def test_an_attached_agent_runs_on_and_is_not_started(stage: Stage) -> None:
    lead = stage.attach()
    stage.go(60_000)
    assert (stage.on_disk(lead).status, stage.spawner.requests, stage.signals.sent) == ("running", [], [])


def test_its_end_is_heard_and_recorded_as_the_kernel_tells(stage: Stage) -> None:
    lead = stage.attach()
    stage.go(100)
    stage.processes.end(stage.pid(lead), Exit(code=7))
    stage.go(10)
    assert end_of(stage, lead) == ("exited", 7, None, False)


def test_an_end_that_no_kernel_tells_is_unknown_never_0(stage: Stage) -> None:
    stage.fakes.exit_watch.tells = False
    lead = stage.attach()
    stage.go(100)
    stage.processes.end(stage.pid(lead), Exit(code=0))
    stage.go(5000)
    assert end_of(stage, lead) == ("unknown", None, None, None)


def test_a_status_that_comes_late_is_still_learned(stage: Stage) -> None:
    """Its parent takes its time to reap it."""
    parent = stage.processes.add(argv=("slow parent",))
    lead = stage.attach(parent=parent.pid)
    stage.go(100)
    stage.processes.end(stage.pid(lead), Exit(code=7))
    stage.go(600)
    before = stage.on_disk(lead).status
    stage.processes.reap(stage.pid(lead))
    stage.go(1000)
    assert (before, end_of(stage, lead)) == ("running", ("exited", 7, None, False))


def test_a_parent_that_never_reaps_is_not_waited_for_in_vain(stage: Stage) -> None:
    parent = stage.processes.add(argv=("no parent at all",))
    lead = stage.attach(parent=parent.pid)
    stage.go(100)
    stage.processes.end(stage.pid(lead), Exit(code=7))
    stage.go(5000)
    assert end_of(stage, lead) == ("unknown", None, None, None)


def test_without_exit_watches_an_end_is_found_by_polling() -> None:
    stage = Stage(poll_only=True)
    lead = stage.attach()
    stage.go(1000)
    stage.processes.end(stage.pid(lead), Exit(code=0))
    stage.go(500)
    assert end_of(stage, lead) == ("unknown", None, None, None)


def test_a_polled_agent_whose_pid_was_reused_has_ended() -> None:
    """A pid alone is never an identity."""
    stage = Stage(poll_only=True)
    lead = stage.attach()
    stage.go(1000)
    stranger = stage.processes.reuse(stage.pid(lead))
    stage.go(2000)
    assert (end_of(stage, lead), stage.signals.to(stranger.pid)) == (("unknown", None, None, None), [])


def test_a_pid_reused_before_the_status_was_known_does_not_keep_the_agent_alive(stage: Stage) -> None:
    stage.fakes.exit_watch.tells = False
    lead = stage.attach()
    stage.go(100)
    pid = stage.pid(lead)
    stage.processes.end(pid, Exit(code=0))
    stage.turn()
    stage.processes.reuse(pid)
    stage.go(5000)
    assert end_of(stage, lead) == ("unknown", None, None, None)


@pytest.mark.parametrize(
    ("policy", "status"), [("temporary", "closed"), ("transient", "closed"), ("permanent", "running")]
)
def test_an_unknown_end_is_neither_success_nor_failure(stage: Stage, policy: Policy, status: str) -> None:
    stage.fakes.exit_watch.tells = False
    lead = stage.attach(plan=make_plan(restart=RestartPlan(policy=policy)))
    stage.go(100)
    stage.processes.end(stage.pid(lead), Exit(code=0))
    stage.go(5000)
    assert status == stage.on_disk(lead).status


def test_an_attached_agent_that_is_started_again_is_a_child_of_this_keeper(stage: Stage) -> None:
    lead = stage.attach(plan=make_plan(restart=RestartPlan(policy="permanent")))
    stage.go(100)
    stage.processes.end(stage.pid(lead), Exit(code=1))
    stage.go(100)
    stage.processes.end(stage.pid(lead), Exit(code=5))
    stage.go(10)
    assert [d.code for d in lead.entry.deaths] == [1, 5]


def test_a_hundred_attached_agents_can_still_be_stopped(stage: Stage) -> None:
    agents = [stage.attach(f"a{n}") for n in range(100)]
    stage.go(100)
    stage.turn(15)
    stage.go(2000)
    assert {("closed", "stopped")} == {
        (stage.on_disk(a).status, end.cause if (end := stage.on_disk(a).hand_off) else "") for a in agents
    }


def test_orphans_of_an_attached_agent_are_found_by_their_mark_wherever_they_hang(stage: Stage) -> None:
    lead = stage.attach()
    mark = {"SUPERVISOR_ENTRY_ID": lead.entry.entry_id}
    elsewhere = stage.processes.add(argv=("systemd", "--user"))
    orphan = stage.processes.add(parent=elsewhere.pid, env=mark)
    stranger = stage.processes.add(parent=elsewhere.pid)
    stage.go(100)
    stage.turn(15)
    stage.go(20_000)
    assert (
        [stage.processes.alive(k) for k in (orphan, stranger)],
        stage.on_disk(lead).status,
    ) == ([False, True], "closed")


def test_a_watch_is_closed_with_the_end_of_its_agent(stage: Stage) -> None:
    stage.add("anchor")
    lead = stage.attach()
    stage.go(100)
    before = stage.fakes.exit_watch.open
    stage.processes.end(stage.pid(lead), Exit(code=0))
    stage.go(1000)
    assert (1, 0, set()) == (before, stage.fakes.exit_watch.open, stage.watches.fds)


# -- keepers below


def keeper_below(stage: Stage, agent: KeptAgent) -> KeeperRef:
    """A keeper that an agent of ours has launched; its launcher is gone, so it is our child."""
    process = ProcessRef(stage.processes.machine(), stage.processes.add(parent=stage.me, new_session=True))
    ref = KeeperRef("keeper-2", process)
    stage.beats.beat(make_beat(ref))
    parent = ParentRef(session_id=agent.entry.session_id)
    assert stage.store.another().create(make_entry("child", keeper=ref, parent=parent)) is None
    return ref


def test_a_killed_keeper_below_calls_for_a_scan_at_once(stage: Stage) -> None:
    below = keeper_below(stage, stage.attach())
    stage.go(100)
    stage.processes.end(below.process.key.pid, Exit(signal=9))
    stage.turn()
    assert stage.scans >= 1


def test_an_orphan_that_ends_calls_for_nothing(stage: Stage) -> None:
    stage.add()
    stage.go(100)
    orphan = stage.processes.add(parent=stage.me)
    stage.processes.end(orphan.pid)
    stage.go(1000)
    assert (stage.scans, stage.processes.identify(orphan.pid)) == (0, None)


def test_three_hundred_orphans_are_reaped_within_a_turn(stage: Stage) -> None:
    lead = stage.add()
    stage.go(100)
    orphans = [stage.processes.add(parent=stage.me) for _ in range(300)]
    for orphan in orphans:
        stage.processes.end(orphan.pid)
    stage.turn()
    assert (stage.processes.zombies_of(stage.me), stage.on_disk(lead).status) == ([], "running")


def test_a_keeper_of_a_child_launched_elsewhere_is_watched(stage: Stage) -> None:
    lead = stage.attach()
    process = ProcessRef(stage.processes.machine(), stage.processes.add(new_session=True))
    ref = KeeperRef("keeper-2", process)
    stage.beats.beat(make_beat(ref))
    child = make_entry("child", keeper=ref, parent=ParentRef(session_id=lead.entry.session_id))
    assert stage.store.another().create(child) is None
    stage.go(1500)
    stage.keeper.hear(set(), {3})  # our bell: the launcher of the child has rung
    stage.go(1500)
    stage.processes.end(process.key.pid, Exit(signal=9))
    stage.turn()
    assert stage.scans == 1


def test_a_record_of_another_machine_is_never_watched_by_pid(stage: Stage) -> None:
    lead = stage.attach()
    key = stage.processes.add(new_session=True)
    away = replace(stage.processes.machine(), host_id="host-2")
    ref = KeeperRef("keeper-2", ProcessRef(away, key))
    child = make_entry("child", keeper=ref, parent=ParentRef(session_id=lead.entry.session_id))
    assert stage.store.another().create(child) is None
    stage.go(60_000)
    assert stage.fakes.exit_watch.open == 1
