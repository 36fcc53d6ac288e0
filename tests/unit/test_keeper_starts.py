"""The keeper starts agents: intent before deed, proof of being up, predecessors first, and failures that stay quick."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from supervisor.core.entry import AgentIdentity, ParentRef, ResumeContext, Running, Starting
from supervisor.core.launch_plan import RestartPlan
from supervisor.core.timing import MS, STARTS_PER_TURN
from supervisor.testing import make_plan
from tests.parts import Stage

RESUMES = AgentIdentity(agent_id="agent-lead", resume_context=ResumeContext(profile="demo", cwd="/work"))


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_an_agent_is_spawned_recorded_and_ready(stage: Stage) -> None:
    lead = stage.add()
    stage.turn()
    now = stage.clock.wall_ms()
    assert Running(since=now, ready_at=now) == stage.on_disk(lead).state


def test_the_record_names_the_process_that_was_started(stage: Stage) -> None:
    lead = stage.add()
    stage.turn()
    process = stage.on_disk(lead).generation.process
    assert process is not None
    assert (stage.spawner.started, stage.processes.machine()) == ([process.key.pid], process.machine)


def test_the_nonce_is_on_record_before_the_spawn_and_in_the_childs_environment(stage: Stage) -> None:
    lead = stage.add()
    intended = stage.on_disk(lead).generation
    stage.turn()
    env = stage.processes.environment(stage.pid(lead))
    assert (None, intended.nonce, intended.nonce) == (
        intended.process,
        env["SUPERVISOR_GENERATION"],
        stage.on_disk(lead).generation.nonce,
    )


def test_a_child_gets_its_own_environment_and_identity(stage: Stage) -> None:
    lead = stage.add(env={"PATH": "/bin", "KEY": "value"})
    stage.turn()
    env = stage.requests("lead")[0].env
    assert ("value", lead.entry.entry_id, "/state") == (
        env["KEY"],
        env["SUPERVISOR_ENTRY_ID"],
        env["SUPERVISOR_HOME"],
    )


@pytest.mark.parametrize(
    ("mode", "stdin", "expected"),
    [
        ("headless", "null", ("/dev/null", True)),
        ("headless", "prompt", ("/state/prompts/1", True)),
        ("interactive", "inherit", (None, False)),
    ],
)
def test_a_headless_agent_has_a_session_of_its_own(
    stage: Stage, mode: str, stdin: str, expected: tuple[str | None, bool]
) -> None:
    stage.add(plan=make_plan(mode=mode, stdin=stdin, prompt_file="/state/prompts/1"))
    stage.turn()
    (request,) = stage.spawner.requests
    assert expected == (request.stdin, request.new_session)


def test_news_is_told_once_the_records_are_durable(stage: Stage) -> None:
    lead = stage.add()
    stage.turn()
    assert ([(lead.entry.key, "ready")], set()) == (stage.news, stage.store.unsynced)


# -- proof of being up


def test_by_output_an_agent_is_ready_with_its_first_byte(stage: Stage) -> None:
    output = stage.transcript()
    lead = stage.add(plan=make_plan(ready="output"), output=output)
    stage.go(3000)
    before = lead.is_ready
    stage.transcripts.content[str(output.transcript)] = b"x"
    stage.go(3000, until=lambda: lead.is_ready)
    assert (before, lead.is_ready, [what for _, what in stage.news]) == (False, True, ["spawned", "ready"])


def test_by_session_file_an_agent_is_ready_when_it_is_there(stage: Stage) -> None:
    plan = make_plan(ready="session_file", session_files=("~/s",))
    lead = stage.add(plan=plan, agent=RESUMES)
    stage.go(3000)
    before = lead.is_ready
    stage.fakes.session_files.there["~/s"] = "/root/s"
    stage.go(3000, until=lambda: lead.is_ready)
    context = stage.on_disk(lead).agent.resume_context
    assert context is not None
    assert (before, lead.is_ready, context.session_file) == (False, True, "/root/s")


def test_the_id_that_a_cli_prints_is_recorded(stage: Stage) -> None:
    output = stage.transcript()
    lead = stage.add(plan=make_plan(ready="output", capture_key="thread_id"), agent=RESUMES, output=output)
    stage.go(100)
    stage.transcripts.content[str(output.transcript)] = b'noise\n{"x":1}\n{"thread_id":"th-7"}\n'
    stage.go(3000)
    context = stage.on_disk(lead).agent.resume_context
    assert context is not None
    assert context.provider_session_id == "th-7"


@pytest.mark.parametrize(
    "line", [b'{"thread_id":".."}', b'{"thread_id":7}', b'{"thread_id":"a\\nb"}', b'["thread_id"]']
)
def test_a_hostile_id_is_not_taken(stage: Stage, line: bytes) -> None:
    output = stage.transcript()
    lead = stage.add(plan=make_plan(ready="output", capture_key="thread_id"), agent=RESUMES, output=output)
    stage.go(100)
    stage.transcripts.content[str(output.transcript)] = line + b"\n"
    stage.go(3000)
    context = stage.on_disk(lead).agent.resume_context
    assert context is not None
    assert context.provider_session_id is None


def test_an_agent_that_dies_unproven_was_never_ready(stage: Stage) -> None:
    """A launch whose agent dies 1.2 s after the spawn must not be told as a success."""
    lead = stage.add(plan=make_plan(ready="output"), output=stage.transcript())
    stage.go(1200)
    stage.kill(lead)
    stage.go(10)
    assert [what for _, what in stage.news] == ["spawned", "ended"]


# -- the prompt


def test_a_prompt_on_the_command_line_is_one_argument(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("p") / "prompt"
    text = '-rf "; $(boom)\n{prompt}'
    file.write_text(text)
    stage.add(plan=make_plan(argv=("/bin/lead", "--", "{prompt}"), prompt_at=-1, prompt_file=str(file)))
    stage.turn()
    assert ("/bin/lead", "--", text) == stage.spawner.requests[0].argv


def test_a_word_that_reads_like_the_prompt_arrives_as_it_is(stage: Stage) -> None:
    stage.add(plan=make_plan(argv=("/bin/echo", "{prompt}")))
    stage.turn()
    assert stage.spawner.requests[0].argv == ("/bin/echo", "{prompt}")


def test_a_prompt_that_is_gone_fails_the_start_not_the_keeper(stage: Stage) -> None:
    lead = stage.add(plan=make_plan(argv=("/bin/lead", "--", "{prompt}"), prompt_at=-1, prompt_file="/nowhere/prompt"))
    tests = stage.add("tests")
    stage.turn()
    end = stage.on_disk(lead).hand_off
    assert end is not None
    assert (end.outcome, stage.on_disk(tests).status) == ("not_started", "running")


# -- order


def test_who_waits_for_another_starts_when_that_one_is_ready(stage: Stage) -> None:
    output = stage.transcript("db")
    database = stage.add("db", plan=make_plan(argv=("/bin/db",), ready="output"), output=output)
    web = stage.add("web", state=Starting(since=0, waits_for=(database.entry.entry_id,)))
    stage.go(5000)
    before = [r.argv[0] for r in stage.spawner.requests]
    stage.transcripts.content[str(output.transcript)] = b"listening"
    stage.go(1000, until=lambda: web.is_ready)
    assert (before, [r.argv[0] for r in stage.spawner.requests]) == (["/bin/db"], ["/bin/db", "/bin/web"])


def test_a_child_learns_the_process_of_its_parent_before_its_start(stage: Stage) -> None:
    lead = stage.add()
    tests = stage.add("tests", parent=ParentRef(session_id=lead.entry.session_id))
    stage.go(10)
    env: Mapping[str, str] = stage.requests("tests")[0].env
    parent = stage.on_disk(tests).parent
    assert parent is not None
    assert (str(stage.pid(lead)), stage.key(lead)) == (
        env["SUPERVISOR_PARENT_PID"],
        parent.process.key if parent.process else None,
    )


def test_a_burst_of_starts_lets_the_loop_breathe(stage: Stage) -> None:
    for number in range(3 * STARTS_PER_TURN + 1):
        stage.add(f"a{number}")
    counts = []
    for _ in range(4):
        stage.turn()
        counts.append(len(stage.spawner.started))
    assert counts == [16, 32, 48, 49]


def test_a_burst_of_starts_is_told_in_one_go_once_durable(stage: Stage) -> None:
    for number in range(2 * STARTS_PER_TURN):
        stage.add(f"a{number}")
    stage.turn()
    before = list(stage.news)
    stage.turn()
    assert ([], 32, set()) == (before, len(stage.news), stage.store.unsynced)


# -- failures


def test_a_missing_program_ends_the_start_with_its_reason(stage: Stage) -> None:
    lead = stage.add()
    stage.spawner.fail("/bin/lead", "lead was not found")
    stage.turn()
    end = stage.on_disk(lead).hand_off
    assert end is not None
    assert (
        stage.on_disk(lead).status,
        end.outcome,
        end.cause,
        end.detail,
    ) == ("closed", "not_started", "spawn_failed", "lead was not found")


def test_a_keeper_without_agents_left_is_done(stage: Stage) -> None:
    stage.add()
    stage.spawner.fail("/bin/lead", "not found")
    assert stage.turn() is None


PATIENT = RestartPlan(policy="permanent", intensity=5, period_seconds=60)


def test_agents_that_cannot_start_back_off_while_others_start(stage: Stage) -> None:
    """Ten agents with a missing binary under a restart policy."""
    broken = [stage.add(f"b{n}", plan=make_plan(restart=PATIENT)) for n in range(10)]
    for agent in broken:
        stage.spawner.fail(agent.entry.plan.argv[0], "not found")
    sound = stage.add("sound")
    stage.turn()
    assert ("running", {"starting"}) == (stage.on_disk(sound).status, {stage.on_disk(a).status for a in broken})


def test_a_spawn_that_fails_again_and_again_waits_longer_and_longer(stage: Stage) -> None:
    lead = stage.add(plan=make_plan(restart=PATIENT))
    stage.add("anchor")
    stage.spawner.fail("/bin/lead", "not found")
    tries: list[int] = []
    while lead.entry.status == "starting":
        count = len(stage.requests("lead"))
        stage.turn()
        if len(stage.requests("lead")) > count:
            tries.append(stage.clock.monotonic_ns())
        stage.clock.advance(10)
    waits = [(b - a) // MS for a, b in zip(tries, tries[1:], strict=False)]
    assert (6, sorted(waits[1:])) == (len(tries), waits[1:])


def test_a_spawn_that_fails_too_often_is_given_up_with_its_tally(stage: Stage) -> None:
    lead = stage.add(plan=make_plan(restart=replace(PATIENT, intensity=2)))
    stage.spawner.fail("/bin/lead", "not found")
    stage.go(60_000)
    found = stage.on_disk(lead)
    assert found.hand_off is not None
    assert (found.status, found.hand_off.cause, len(found.deaths)) == ("closed", "spawn_failed", 3)


def test_a_program_that_is_there_again_is_started(stage: Stage) -> None:
    lead = stage.add(plan=make_plan(restart=PATIENT))
    stage.spawner.fail("/bin/lead", "not found")
    stage.go(2000)
    stage.spawner.allow("/bin/lead")
    stage.go(10_000, until=lambda: lead.is_ready)
    assert stage.on_disk(lead).status == "running"
