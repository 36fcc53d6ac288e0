"""The keeper starts again what has died, by policy; never what is wanted down, never by the wall clock."""

import pytest
from msgspec.structs import replace

from supervisor.core.entry import AgentIdentity, Generation, ResumeContext, Starting
from supervisor.core.launch_plan import RestartPlan
from supervisor.core.ports import Exit
from supervisor.core.profile import Policy
from supervisor.core.timing import KILL_WAIT_MS, MS, RESTART_STEP_MS
from supervisor.runtime.kept_agent import KeptAgent
from supervisor.testing import make_plan
from tests.parts import Stage

BELL = 3  # a descriptor that is no watched process
YEAR_MS = 365 * 24 * 3600 * 1000
PERMANENT = RestartPlan(policy="permanent", intensity=5, period_seconds=60)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def running(stage: Stage, name: str = "lead", *, policy: RestartPlan = PERMANENT) -> KeptAgent:
    agent = stage.add(name, plan=make_plan(restart=policy))
    stage.go(50)
    return agent


def backing_off(stage: Stage) -> KeptAgent:
    """An agent that has died twice: its second restart waits."""
    agent = running(stage)
    for _ in range(2):
        stage.kill(agent)
        stage.go(10)
    assert isinstance(agent.entry.state, Starting)
    return agent


def test_a_permanent_agent_that_was_killed_is_started_again_at_once(stage: Stage) -> None:
    lead = running(stage)
    first, nonce = stage.pid(lead), lead.entry.generation.nonce
    stage.kill(lead)
    stage.go(0)
    assert (
        stage.on_disk(lead).status,
        len(stage.spawner.started),
        stage.pid(lead) == first,
        stage.on_disk(lead).generation.nonce == nonce,
    ) == ("running", 2, False, False)


def test_the_death_is_on_the_tally(stage: Stage) -> None:
    lead = running(stage)
    stage.kill(lead)
    stage.go(0)
    assert [d.signal for d in stage.on_disk(lead).deaths] == ["KILL"]


@pytest.mark.parametrize(
    ("policy", "how", "status"),
    [
        ("temporary", Exit(signal=9), "closed"),
        ("temporary", Exit(code=0), "closed"),
        ("transient", Exit(signal=9), "running"),
        ("transient", Exit(code=1), "running"),
        ("transient", Exit(code=0), "closed"),
        ("permanent", Exit(code=0), "running"),
    ],
)
def test_the_policy_decides_what_follows_an_end(stage: Stage, policy: Policy, how: Exit, status: str) -> None:
    lead = running(stage, policy=replace(PERMANENT, policy=policy))
    stage.processes.end(stage.pid(lead), how)
    stage.go(100)
    assert status == stage.on_disk(lead).status


@pytest.mark.parametrize(
    ("how", "outcome", "code", "signal", "success"),
    [
        (Exit(code=0), "exited", 0, None, True),
        (Exit(code=3), "exited", 3, None, False),
        (Exit(signal=11), "signaled", None, "SEGV", False),
    ],
)
def test_an_end_is_recorded_as_it_was(
    stage: Stage, how: Exit, outcome: str, code: int | None, signal: str | None, success: bool
) -> None:
    lead = running(stage, policy=RestartPlan())
    stage.processes.end(stage.pid(lead), how)
    stage.go(100)
    end = stage.on_disk(lead).hand_off
    assert end is not None
    assert (outcome, "ended", code, signal, success) == (end.outcome, end.cause, end.code, end.signal, end.success)


def test_an_agent_whose_output_is_held_open_by_a_grandchild_has_ended(stage: Stage) -> None:
    """The end is that of the process, not of its pipes."""
    lead = running(stage, policy=RestartPlan())
    stage.processes.add(parent=stage.pid(lead), env={"SUPERVISOR_ENTRY_ID": lead.entry.entry_id})
    stage.processes.end(stage.pid(lead))
    stage.go(KILL_WAIT_MS)
    end = stage.on_disk(lead).hand_off
    assert end is not None
    assert end.detail == "1 of its processes still run (`supervisor stop` ends them)"


def test_what_ends_a_moment_after_its_agent_is_no_process_that_still_runs(stage: Stage) -> None:
    """Ctrl-C hits all of a terminal's processes, and they do not end in order."""
    lead = running(stage, policy=RestartPlan())
    helper = stage.processes.add(parent=stage.pid(lead), env={"SUPERVISOR_ENTRY_ID": lead.entry.entry_id})
    stage.processes.end(stage.pid(lead), Exit(code=130))
    stage.go(KILL_WAIT_MS / 2)
    before = stage.on_disk(lead).status
    stage.processes.end(helper.pid)
    stage.go(KILL_WAIT_MS / 4)
    end = stage.on_disk(lead).hand_off
    assert end is not None
    assert (before, end.code, end.detail) == ("running", 130, "")


def test_what_its_keeper_has_not_reaped_yet_is_no_process_that_still_runs(stage: Stage) -> None:
    lead = running(stage, policy=RestartPlan())
    helper = stage.processes.add(parent=stage.pid(lead), env={"SUPERVISOR_ENTRY_ID": lead.entry.entry_id})
    stage.processes.end(helper.pid)
    stage.processes.end(stage.pid(lead))
    stage.go(0)
    end = stage.on_disk(lead).hand_off
    assert end is not None
    assert end.detail == ""


def test_a_stop_meanwhile_ends_what_a_dead_agent_has_left(stage: Stage) -> None:
    lead = running(stage, policy=RestartPlan())
    helper = stage.processes.add(parent=stage.pid(lead), env={"SUPERVISOR_ENTRY_ID": lead.entry.entry_id})
    stage.processes.end(stage.pid(lead))
    stage.go(100)
    stage.wants_down(lead, grace_ms=0)
    stage.go(KILL_WAIT_MS)
    end = stage.on_disk(lead).hand_off
    assert end is not None
    assert (stage.processes.alive(helper), end.detail) == (False, "")


def test_what_a_dead_agent_left_is_ended_before_it_is_started_again(stage: Stage) -> None:
    lead = running(stage)
    helper = stage.processes.add(parent=stage.pid(lead), env={"SUPERVISOR_ENTRY_ID": lead.entry.entry_id})
    stage.kill(lead)
    stage.go(100)
    assert (stage.processes.alive(helper), stage.on_disk(lead).status) == (False, "running")


def test_what_a_killed_driver_left_is_ended_though_it_is_not_started_again(stage: Stage) -> None:
    lead = stage.add("lead", plan=make_plan(restart=RestartPlan(), driven=True))
    stage.go(50)
    cli = stage.processes.add(parent=stage.pid(lead), env={"SUPERVISOR_ENTRY_ID": lead.entry.entry_id})
    tool = stage.processes.add(parent=cli.pid, new_session=True, env={})
    stage.kill(lead)
    stage.go(100)
    end = stage.on_disk(lead).hand_off
    assert end is not None
    assert (stage.processes.alive(cli), stage.processes.alive(tool), end.signal, end.detail) == (
        False,
        False,
        "KILL",
        "",
    )


def test_a_session_is_not_taken_up_again_beside_what_an_earlier_driver_left(stage: Stage) -> None:
    plan = make_plan(restart=RestartPlan(), driven=True)
    cli = stage.processes.add(parent=1, env={"SUPERVISOR_ENTRY_ID": "entry-lead"})
    lead = stage.add("lead", plan=plan, generation=Generation(nonce="n", resumes="s-1"), entry_id="entry-lead")
    stage.go(100)
    assert (stage.processes.alive(cli), stage.on_disk(lead).status) == (False, "running")


def test_a_siblings_orphan_without_a_mark_is_not_taken_for_the_dead_agents(stage: Stage) -> None:
    """Two agents of one keeper: whose an unmarked orphan is cannot be known, so it is nobody's to kill."""
    lead, sibling = running(stage), running(stage, "sibling")
    middle = stage.processes.add(parent=stage.pid(sibling))
    daemon = stage.processes.add(parent=middle.pid, new_session=True, env={})
    stage.processes.end(middle.pid)
    stage.processes.reap(middle.pid)
    stage.kill(lead)
    stage.go(100)
    assert (stage.processes.alive(daemon), stage.signals.to(daemon.pid)) == (True, [])


# -- backoff and intensity


def test_the_second_death_within_the_period_waits(stage: Stage) -> None:
    lead = backing_off(stage)
    assert isinstance(lead.entry.state, Starting)
    assert lead.entry.state.not_before is not None
    wait = (lead.entry.state.not_before - lead.entry.deaths[-1].monotonic_ns) // MS
    assert RESTART_STEP_MS <= wait <= RESTART_STEP_MS * 3 // 2


def test_a_backoff_ends_with_a_start(stage: Stage) -> None:
    lead = backing_off(stage)
    stage.go(2 * RESTART_STEP_MS, until=lambda: lead.is_ready)
    assert (len(stage.spawner.started), stage.on_disk(lead).status) == (3, "running")


def test_who_dies_too_often_is_given_up_and_says_why(stage: Stage) -> None:
    lead = running(stage, policy=replace(PERMANENT, intensity=2))
    for _ in range(3):
        stage.go(5000, until=lambda: lead.is_ready)
        stage.kill(lead)
        stage.go(0)
    end = stage.on_disk(lead).hand_off
    assert end is not None
    assert (len(stage.spawner.started), end.detail) == (3, "it died 3 times within 60 s")


def test_a_hundred_deaths_at_once_do_not_come_back_at_once(stage: Stage) -> None:
    agents = [stage.add(f"a{n}", plan=make_plan(restart=PERMANENT)) for n in range(100)]
    stage.go(100)
    for _ in range(2):
        for agent in agents:
            stage.kill(agent)
        stage.go(20)
    times = {a.entry.state.not_before for a in agents if isinstance(a.entry.state, Starting)}
    assert (len(times), all(t is not None for t in times)) == (100, True)


@pytest.mark.parametrize("step_ms", [-YEAR_MS, YEAR_MS])
def test_a_step_of_the_wall_clock_moves_no_restart(stage: Stage, step_ms: int) -> None:
    lead = backing_off(stage)
    assert isinstance(lead.entry.state, Starting)
    due = lead.entry.state.not_before
    stage.clock.step_wall(step_ms)
    stage.go(2 * RESTART_STEP_MS, until=lambda: lead.is_ready)
    assert due == stage.clock.monotonic_ns()


# -- stopped meanwhile


@pytest.mark.parametrize("rung", [True, False])
def test_a_stop_during_a_backoff_stays_stopped(stage: Stage, rung: bool) -> None:
    """Also when the bell was lost: a bell is a hint, the wish on disk is the truth."""
    lead = backing_off(stage)
    stage.wants_down(lead)
    if rung:
        stage.keeper.hear(set(), {BELL})
    stage.go(60_000)
    end = stage.on_disk(lead).hand_off
    assert end is not None
    assert (len(stage.spawner.started), stage.on_disk(lead).status, end.cause) == (2, "closed", "stopped")


def test_a_backoff_whose_record_another_keeper_has_taken_starts_nothing(stage: Stage) -> None:
    lead = backing_off(stage)
    newer = stage.taken_over(lead)
    stage.go(60_000)
    assert (len(stage.spawner.started), stage.on_disk(lead)) == (2, newer)


def test_a_stop_that_crosses_with_a_death_is_obeyed(stage: Stage) -> None:
    lead = running(stage)
    stage.wants_down(lead)
    stage.kill(lead)
    stage.go(60_000)
    assert (len(stage.spawner.started), stage.on_disk(lead).status) == (1, "closed")


# -- resuming


CAPTURES = AgentIdentity(agent_id="agent-lead", resume_context=ResumeContext(profile="demo", cwd="/work"))
PRESET = AgentIdentity(
    agent_id="agent-lead", resume_context=ResumeContext(profile="demo", cwd="/work", provider_session_id="s")
)
RESUMING = make_plan(
    argv=("/bin/lead", "--new"),
    resume_argv=("/bin/lead", "--resume", "s"),
    session_at=2,
    session_files=("~/s",),
    restart=PERMANENT,
)


def test_a_restart_resumes_the_session_that_exists(stage: Stage) -> None:
    stage.fakes.session_files.there["~/s"] = "/root/s"
    lead = stage.add(plan=RESUMING, agent=PRESET)
    stage.go(3000)
    stage.kill(lead)
    stage.go(100)
    assert [r.argv for r in stage.spawner.requests] == [("/bin/lead", "--new"), ("/bin/lead", "--resume", "s")]


def test_without_a_session_a_restart_begins_anew(stage: Stage) -> None:
    lead = stage.add(plan=RESUMING, agent=PRESET)
    stage.go(3000)
    stage.kill(lead)
    stage.go(100)
    assert [r.argv for r in stage.spawner.requests] == [("/bin/lead", "--new")] * 2


def test_a_restart_resumes_a_captured_session_by_the_id_that_the_cli_printed(stage: Stage) -> None:
    plan = make_plan(
        argv=("/bin/lead", "exec"),
        resume_argv=("/bin/lead", "exec", "resume", "{session_id}"),
        session_at=3,
        capture_key="thread_id",
        session_files=("~/s",),
        restart=PERMANENT,
    )
    output = stage.transcript()
    stage.fakes.session_files.there["~/s"] = "/root/s"
    lead = stage.add(plan=plan, agent=CAPTURES, output=output)
    stage.go(100)
    stage.transcripts.content[str(output.transcript)] = b'{"thread_id":"th-7"}\n'
    stage.go(3000)
    stage.kill(lead)
    stage.go(100)
    assert stage.spawner.requests[-1].argv == ("/bin/lead", "exec", "resume", "th-7")


# -- wrappers


def test_where_the_launched_process_was_a_wrapper_its_heir_is_the_agent(stage: Stage) -> None:
    lead = stage.add(plan=make_plan(follow="tree"))
    stage.go(50)
    heir = stage.processes.add(parent=stage.pid(lead), env={"SUPERVISOR_ENTRY_ID": lead.entry.entry_id})
    stage.processes.end(stage.pid(lead))
    stage.go(500)
    assert ("running", heir.pid) == (stage.on_disk(lead).status, stage.pid(lead))


def test_the_child_of_an_heir_that_began_in_the_same_tick_is_not_taken_for_it(stage: Stage) -> None:
    lead = stage.add(plan=make_plan(follow="tree"))
    stage.go(50)
    env = {"SUPERVISOR_ENTRY_ID": lead.entry.entry_id}
    heir = stage.processes.add(parent=stage.pid(lead), env=env)
    for _ in range(8):
        tool = stage.processes.add(parent=heir.pid, env=env)
        stage.processes.row(tool.pid).start_ticks = heir.start_ticks
    stage.processes.end(stage.pid(lead))
    stage.go(500)
    assert stage.pid(lead) == heir.pid


def test_the_end_of_the_heir_is_the_end_of_the_agent(stage: Stage) -> None:
    lead = stage.add(plan=make_plan(follow="tree"))
    stage.go(50)
    heir = stage.processes.add(parent=stage.pid(lead), env={"SUPERVISOR_ENTRY_ID": lead.entry.entry_id})
    stage.processes.end(stage.pid(lead))
    stage.go(500)
    stage.processes.end(heir.pid, Exit(code=4))
    stage.go(3000)
    end = stage.on_disk(lead).hand_off
    assert end is not None
    assert (end.outcome, end.code) == ("exited", 4)
