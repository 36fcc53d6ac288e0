"""A keeper resumes an agent: confirmed in the very session, or the record is as it was before, with the reason."""

from typing import Any

import pytest
from msgspec.structs import replace

from supervisor.core import transitions
from supervisor.core.entry import (
    AgentIdentity,
    Entry,
    Output,
    ParentRef,
    ResumeContext,
    Running,
    Starting,
    failed_resume,
    unconfirmed,
)
from supervisor.core.launch_plan import RestartPlan
from supervisor.core.ports import Exit
from supervisor.core.session_proof import Above, SessionProof, encode_proof
from supervisor.runtime.kept_agent import KeptAgent
from supervisor.testing import make_entry, make_hand_off, make_plan
from tests.parts import Stage

SESSION, OTHER = "s-1", "s-2"
AGENT = AgentIdentity(
    agent_id="agent-lead",
    resume_context=ResumeContext(
        profile="demo", cwd="/work", provider_session_id=SESSION, session_file="/sessions/s-1", checkpoint="half"
    ),
)
PLAN = make_plan(
    argv=("/bin/lead", "--new"),
    resume_argv=("/bin/lead", "--resume", "{session_id}"),
    session_at=2,
    capture_key="session_id",
    session_files=("~/{session_id}",),
    ready="session_file",
    ready_timeout_ms=5000,
    restart=RestartPlan(policy="permanent"),
)
PARENT = ParentRef(session_id="session-boss")
EARLIER = b'{"session_id":"s-1"}\n'


@pytest.fixture
def stage() -> Stage:
    return Stage()


def resuming(stage: Stage, *, mode: Any = "headless", parent: ParentRef | None = None) -> KeptAgent:
    """An agent that is claimed for a resume; the transcript holds what its earlier generation said."""
    output = stage.transcript() if mode == "headless" else Output()
    if output.transcript:
        stage.transcripts.content[output.transcript] = EARLIER
    closed = transitions.closed(make_entry(parent=PARENT, agent=AGENT), make_hand_off(code=1, success=False), now=1)
    claimed = transitions.resuming(closed, nonce="n2", session=SESSION, now=stage.clock.wall_ms(), parent=parent)
    plan = replace(PLAN, mode=mode, ready="session_file" if mode == "headless" else "spawned")
    return stage.add(
        plan=plan,
        agent=AGENT,
        role="worker",
        parent=parent,
        output=output,
        state=claimed.state,
        generation=claimed.generation,
    )


def says(stage: Stage, agent: KeptAgent, session: str) -> None:
    stage.transcripts.content[str(agent.entry.output.transcript)] += f'{{"session_id":"{session}"}}\n'.encode()


def assert_as_before(entry: Entry, why: str) -> None:
    failed = failed_resume(entry)
    assert (entry.status, entry.agent, entry.parent, failed and failed.why) == ("closed", AGENT, PARENT, why)
    assert entry.hand_off is not None
    assert entry.hand_off.code == 1


def test_it_is_started_with_its_session_and_is_not_ready_before_it_confirms(stage: Stage) -> None:
    lead = resuming(stage)
    stage.go(1000)
    assert [r.argv for r in stage.spawner.requests] == [("/bin/lead", "--resume", SESSION)]
    entry = stage.on_disk(lead)
    assert (entry.status, lead.is_ready, entry.generation.session) == ("running", False, None)
    assert unconfirmed(entry) is not None


def test_its_process_is_on_record_before_it_has_confirmed(stage: Stage) -> None:
    lead = resuming(stage)
    stage.go(0)
    assert stage.on_disk(lead).generation.process is not None


def test_what_an_earlier_generation_said_confirms_nothing(stage: Stage) -> None:
    lead = resuming(stage)
    stage.go(4000)
    assert not lead.is_ready


def test_it_is_resumed_once_it_says_that_it_is_in_its_session(stage: Stage) -> None:
    lead = resuming(stage)
    stage.go(100)
    says(stage, lead, SESSION)
    stage.go(1000)
    state = stage.on_disk(lead).state
    assert isinstance(state, Running)
    assert (state.unconfirmed, state.ready_at is not None, stage.news[-1][1]) == (None, True, "ready")


def test_one_that_comes_up_in_another_session_is_stopped_and_its_record_is_as_before(stage: Stage) -> None:
    lead = resuming(stage)
    stage.go(100)
    pid = stage.pid(lead)
    says(stage, lead, OTHER)
    stage.go(30_000)
    assert_as_before(stage.on_disk(lead), f"it came up in another session, {OTHER}")
    assert (stage.signals.to(pid) != [], len(stage.spawner.started)) == (True, 1)


def test_one_that_was_seen_in_its_session_and_begins_another_at_once_was_resumed(stage: Stage) -> None:
    """Its keeper was killed when it had seen that, before it could say that the resume stands."""
    lead = resuming(stage)
    stage.go(100)
    key, elsewhere = stage.key(lead), stage.store.another()
    seen = replace(lead.entry, generation=replace(lead.entry.generation, session=SESSION))
    elsewhere.replace_if_unchanged(lead.entry, seen)
    lead.refresh()
    proof = SessionProof(OTHER, "clear", None, "n2", key.pid, (Above(key.pid, key.start_ticks, key.pid),))
    stage.fakes.proofs.content[lead.entry.entry_id] = encode_proof(proof)
    stage.go(30_000)
    entry = stage.on_disk(lead)
    context = entry.agent.resume_context
    assert (lead.is_ready, failed_resume(entry), context and context.provider_session_id) == (True, None, OTHER)


def test_one_that_ends_before_it_has_confirmed_is_not_started_again(stage: Stage) -> None:
    """Whatever its restart policy says."""
    lead = resuming(stage)
    stage.go(100)
    stage.processes.end(stage.pid(lead), Exit(code=7))
    stage.go(30_000)
    assert_as_before(stage.on_disk(lead), "it exited with 7 before it had confirmed its session")
    assert len(stage.spawner.started) == 1


def test_one_that_confirms_and_ends_at_once_was_resumed(stage: Stage) -> None:
    lead = resuming(stage)
    stage.go(0)
    says(stage, lead, SESSION)
    stage.processes.end(stage.pid(lead), Exit(code=0))
    stage.go(0)
    assert failed_resume(stage.on_disk(lead)) is None
    assert ("ready" in [what for _, what in stage.news], len(stage.on_disk(lead).deaths)) == (True, 1)


def test_one_that_never_confirms_is_stopped_in_time(stage: Stage) -> None:
    lead = resuming(stage)
    stage.go(60_000)
    assert_as_before(stage.on_disk(lead), "it did not confirm its session within 5 s")


def test_one_that_cannot_be_started_is_as_before(stage: Stage) -> None:
    stage.spawner.fail("/bin/lead", "no such file")
    lead = resuming(stage)
    stage.go(1000)
    assert_as_before(stage.on_disk(lead), "it could not be started: no such file")


def test_a_person_at_its_terminal_is_given_time(stage: Stage) -> None:
    lead = resuming(stage, mode="interactive")
    stage.go(60_000)
    assert (stage.on_disk(lead).status, lead.is_ready) == ("running", False)


def test_on_a_terminal_writing_into_the_sessions_file_confirms(stage: Stage) -> None:
    lead = resuming(stage, mode="interactive")
    stage.go(1000)
    stage.fakes.session_files.modified["/sessions/s-1"] = stage.clock.wall_ms()
    stage.go(1000)
    assert lead.is_ready


def test_one_that_is_stopped_before_it_has_confirmed_stays_stopped(stage: Stage) -> None:
    lead = resuming(stage)
    stage.go(100)
    stage.wants_down(lead)
    stage.go(60_000)
    entry = stage.on_disk(lead)
    assert entry.hand_off is not None
    assert (entry.status, entry.hand_off.cause, entry.agent) == ("closed", "stopped", AGENT)


def test_after_its_confirmation_it_is_restarted_like_any_other(stage: Stage) -> None:
    lead = resuming(stage)
    stage.go(100)
    says(stage, lead, SESSION)
    stage.go(1000)
    stage.kill(lead)
    stage.go(1000)
    assert [r.argv[-1] for r in stage.spawner.requests] == [SESSION, SESSION]


def test_an_intent_that_nobody_started_is_taken_back(stage: Stage) -> None:
    lead = resuming(stage)
    lead.close_unstarted("its keeper died before it was started", stage.parts.now(), cause="lost")
    assert isinstance(stage.on_disk(lead).state, Starting) is False
    assert failed_resume(stage.on_disk(lead)) is not None


def test_tools_that_it_has_left_are_ended_before_it_starts_and_its_own_agents_are_not(stage: Stage) -> None:
    left = stage.processes.add(new_session=True, env={"SUPERVISOR_ENTRY_ID": "entry-lead"})
    child = stage.processes.add(new_session=True, env={"SUPERVISOR_ENTRY_ID": "entry-child"})
    lead = resuming(stage)
    stage.go(1000)
    assert (stage.processes.alive(left), stage.processes.alive(child)) == (False, True)
    assert stage.on_disk(lead).status == "running"
