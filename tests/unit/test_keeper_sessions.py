"""Which session a generation has proven: what its hook says, what it prints, and the file it writes."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.core.entry import AgentIdentity, Entry, Generation, ResumeContext
from supervisor.core.launch_plan import RestartPlan
from supervisor.core.session_proof import Above, SessionProof, encode_proof
from supervisor.core.transitions import in_session
from supervisor.runtime.kept_agent import KeptAgent
from supervisor.testing import make_entry, make_plan
from tests.parts import Stage

RESUMES = make_plan(
    argv=("/bin/lead", "--new"),
    resume_argv=("/bin/lead", "--resume", "s-1"),
    session_at=2,
    restart=RestartPlan(policy="permanent", intensity=5, period_seconds=60),
)


def identity(session: str | None = "s-1", file: str | None = None) -> AgentIdentity:
    context = ResumeContext(profile="demo", cwd="/work", provider_session_id=session, session_file=file)
    return AgentIdentity(agent_id="agent-lead", resume_context=context)


def stored(entry: Entry) -> tuple[str | None, str | None]:
    context = entry.agent.resume_context
    assert context is not None
    return context.provider_session_id, context.session_file


@pytest.fixture
def stage() -> Stage:
    return Stage()


def hook(stage: Stage, agent: KeptAgent, session: str, **changes: Any) -> None:
    """The agent's hook writes."""
    key = stage.key(agent)
    proof = SessionProof(
        session=session,
        source="startup",
        transcript=f"/c/{session}.jsonl",
        generation=agent.entry.generation.nonce,
        own_session=9,
        above=(Above(key.pid, key.start_ticks, key.pid),),
    )
    stage.fakes.proofs.content[agent.entry.entry_id] = encode_proof(proof._replace(**changes))


def test_what_the_hook_says_is_on_record(stage: Stage) -> None:
    lead = stage.add(plan=RESUMES, agent=identity())
    stage.go(500)
    before = stage.on_disk(lead).generation.session
    hook(stage, lead, "s-1")
    stage.go(1500)
    assert (before, stage.on_disk(lead).generation.session) == (None, "s-1")
    assert stored(stage.on_disk(lead)) == ("s-1", "/c/s-1.jsonl")


def test_a_session_that_is_changed_inside_is_followed_again_and_again(stage: Stage) -> None:
    lead = stage.add(plan=RESUMES, agent=identity())
    seen = []
    for session in ("s-1", "s-2", "s-3", "s-1"):
        stage.go(1500)
        hook(stage, lead, session)
        stage.go(1500)
        seen.append(stored(stage.on_disk(lead)))
    assert seen == [(s, f"/c/{s}.jsonl") for s in ("s-1", "s-2", "s-3", "s-1")]
    assert stage.on_disk(lead).session_id == lead.entry.session_id, "ours is for the whole life of the entry"


def test_a_restart_goes_on_with_the_session_it_was_in_last(stage: Stage) -> None:
    lead = stage.add(plan=RESUMES, agent=identity())
    stage.go(500)
    hook(stage, lead, "s-1")
    stage.go(1500)
    hook(stage, lead, "s-2")
    stage.go(1500)
    stage.kill(lead)
    stage.go(100)
    assert stage.spawner.requests[-1].argv == ("/bin/lead", "--resume", "s-2")
    generation = stage.on_disk(lead).generation
    assert (generation.resumes, generation.session) == ("s-2", None)


def test_what_an_earlier_generation_has_proven_proves_nothing(stage: Stage) -> None:
    lead = stage.add(plan=RESUMES, agent=identity())
    stage.go(500)
    hook(stage, lead, "s-1")
    stage.go(1500)
    stage.kill(lead)
    stage.go(3000)
    assert len(stage.spawner.requests) == 2
    assert stage.on_disk(lead).generation.session is None


def test_another_process_of_its_own_kind_is_not_believed(stage: Stage) -> None:
    lead = stage.add(plan=RESUMES, agent=identity())
    stage.go(500)
    hook(stage, lead, "s-9", above=(Above(4711, 1, 4711),))
    stage.go(1500)
    assert stage.on_disk(lead).generation.session is None
    assert stored(stage.on_disk(lead)) == ("s-1", None)


def test_a_broken_proof_is_passed_over(stage: Stage) -> None:
    lead = stage.add(plan=RESUMES, agent=identity())
    stage.go(500)
    stage.fakes.proofs.content[lead.entry.entry_id] = b"{"
    stage.go(1500)
    hook(stage, lead, "s-1")
    stage.go(1500)
    assert stage.on_disk(lead).generation.session == "s-1"


def test_what_it_prints_is_read_from_its_own_output_on(stage: Stage) -> None:
    output = stage.transcript()
    stage.transcripts.content[str(output.transcript)] = b'{"id":"old"}\n'
    plan = make_plan(ready="output", capture_key="id")
    lead = stage.add(plan=plan, agent=identity(None), output=output)
    stage.go(500)
    before = (lead.is_ready, stage.on_disk(lead).generation.session)
    stage.transcripts.content[str(output.transcript)] += b'{"id":"new"}\n'
    stage.go(1500)
    assert before == (False, None)
    assert stage.on_disk(lead).generation.session == "new"
    assert stored(stage.on_disk(lead))[0] == "new"


def test_who_says_nothing_proves_its_session_by_the_file_it_writes(stage: Stage) -> None:
    plan = make_plan(ready="session_file", session_files=("~/{session_id}",))
    lead = stage.add(plan=plan, agent=identity())
    stage.go(500)
    stage.fakes.session_files.there["~/s-1"] = "/root/s-1"
    stage.fakes.session_files.modified["/root/s-1"] = stage.clock.wall_ms()
    stage.go(1500)
    assert lead.is_ready
    assert stage.on_disk(lead).generation.session == "s-1"
    assert stored(stage.on_disk(lead)) == ("s-1", "/root/s-1")


# -- the rule itself


@pytest.mark.parametrize(
    ("stored_id", "resumes", "proven", "says", "expected"),
    [
        (None, None, None, "s-1", "s-1"),
        ("s-1", None, None, "s-1", "s-1"),
        ("s-1", None, None, "s-2", "s-2"),
        ("s-1", None, "s-1", "s-2", "s-2"),
        ("s-1", "s-1", None, "s-1", "s-1"),
        ("s-1", "s-1", "s-1", "s-2", "s-2"),
        ("s-1", "s-1", None, "s-2", "s-1"),
        ("s-1", "s-1", "s-2", "s-3", "s-1"),
        ("s-1", "s-1", "s-2", "s-1", "s-1"),
    ],
    ids=["the first id", "as chosen", "not as chosen", "changed inside", "resumed", "resumed, then changed inside",
         "came up in another", "and changed that one", "and came back"],
)  # fmt: skip
def test_what_is_stored_follows_the_agent_but_never_a_failed_resume(
    stored_id: str | None, resumes: str | None, proven: str | None, says: str, expected: str
) -> None:
    generation = Generation(nonce="n", resumes=resumes, session=proven)
    entry = in_session(make_entry(agent=identity(stored_id, "/f"), generation=generation), says, None)
    assert stored(entry)[0] == expected
    assert entry.generation.session == says, "what it says is on record all the same"
    assert stored(entry)[1] == ("/f" if expected == stored_id else None), "the file is that of the session"
