"""A resume before anything is done: what stops it, with which command line it starts, and what the agent is told."""

from typing import Any

import pytest
from msgspec.structs import replace

from supervisor.core.entry import AgentIdentity, Closed, Entry, Generation, ResumeContext, Running
from supervisor.core.launch_plan import LaunchPlan, ResumeLine, command_line
from supervisor.core.resuming import (
    MAX_TOLD_ENDS,
    Facts,
    fence,
    lines_of,
    outcome,
    provable,
    resumed_plan,
    session_argument,
    wake_prompt,
)
from supervisor.testing import make_entry, make_hand_off, make_plan

CONTEXT = ResumeContext(profile="demo", cwd="/work", provider_session_id="s-1", session_file="/sessions/s-1")
LINES = {
    "headless": ResumeLine(
        argv=("/bin/cli", "-p", "--resume", "{session_id}"), session_at=3, takes="stdin", ready="output"
    ),
    "interactive": ResumeLine(
        argv=("/bin/cli", "--resume", "{session_id}"), session_at=2, takes="argv", prompt=("--", "{prompt}")
    ),
}
PLAN = make_plan(argv=("/bin/cli", "-p", "--new"), resume_lines=LINES, capture_key="session_id")
GONE = Facts(alive=False)


def agent(name: str = "tests", *, context: ResumeContext | None = CONTEXT, **changes: Any) -> Entry:
    identity = AgentIdentity(agent_id=f"agent-{name}", resume_context=context)
    state = Closed(since=1, hand_off=make_hand_off())
    return make_entry(name, **{"agent": identity, "plan": PLAN, "state": state, **changes})


def test_who_has_ended_may_be_resumed() -> None:
    assert fence(agent(), GONE) is None


def test_a_driver_proves_the_session_in_the_background_only() -> None:
    lines = {**LINES, "headless": replace(LINES["headless"], ready="session")}
    plan = replace(PLAN, capture_key=None, resume_lines=lines)
    assert fence(agent(plan=plan), GONE) is None
    assert (provable(plan, "headless"), provable(plan, "interactive")) == (True, False)


def test_a_plugin_that_calls_our_hook_proves_the_session_too() -> None:
    assert provable(replace(PLAN, capture_key=None, env_hook={"CONFIG": "{}"}), "interactive")


@pytest.mark.parametrize(
    ("entry", "facts", "code"),
    [
        (agent(state=Running(since=1)), GONE, "alive"),
        (agent(), Facts(alive=True), "alive"),
        (agent(), Facts(alive=False, owner=make_entry("other")), "session_held"),
        (agent(), Facts(alive=None, owner=agent()), "unknown"),
        (agent(context=None), GONE, "no_resume_context"),
        (agent(plan=make_plan()), GONE, "no_resume_context"),
        (agent(context=None, enrolled=True), GONE, "no_session"),
        (agent(context=None, enrolled=True, plan=make_plan()), GONE, "no_resume_context"),
        (agent(context=replace(CONTEXT, provider_session_id=None)), GONE, "no_session"),
        (agent(plan=replace(PLAN, capture_key=None)), GONE, "no_proof"),
        (agent(), Facts(alive=False, folder_there=False), "cwd_gone"),
        (agent(context=replace(CONTEXT, worktree="/lane")), Facts(alive=False, worktree_there=False), "worktree_gone"),
        (agent(), Facts(alive=False, file_there=False), "session_file_gone"),
    ],
)
def test_each_fence_stops_it_and_says_what_it_is_about(entry: Entry, facts: Facts, code: str) -> None:
    found = fence(entry, facts)
    assert found is not None
    assert (found.code, "tests" in found.why or "profile" in found.why) == (code, True)


def test_a_session_that_is_in_use_names_its_owner() -> None:
    found = fence(agent(), Facts(alive=False, owner=make_entry("other")))
    assert found is not None
    assert found.why == "the session of tests is in use by other (entry-other, running)"


# -- command lines


def resumed(plan: LaunchPlan, *, session: str = "s-1", prompt: str = "") -> tuple[str, ...]:
    return command_line(plan, session=session, prompt=prompt)


def test_in_the_background_the_prompt_comes_by_stdin() -> None:
    plan = resumed_plan(PLAN, "headless", "/prompts/tests")
    assert resumed(plan) == ("/bin/cli", "-p", "--resume", "s-1")
    assert (plan.mode, plan.stdin, plan.prompt_file, plan.ready) == ("headless", "prompt", "/prompts/tests", "output")


def test_on_a_terminal_it_goes_on_without_a_prompt() -> None:
    plan = resumed_plan(PLAN, "interactive", None)
    assert resumed(plan) == ("/bin/cli", "--resume", "s-1")
    assert (plan.mode, plan.stdin, plan.prompt_file, plan.ready) == ("interactive", "inherit", None, "spawned")


def test_on_a_terminal_a_prompt_that_is_given_stands_behind_its_guard() -> None:
    plan = resumed_plan(PLAN, "interactive", "/prompts/tests")
    assert resumed(plan, prompt="-rf") == ("/bin/cli", "--resume", "s-1", "--", "-rf")


def test_a_plan_can_be_turned_again() -> None:
    there = resumed_plan(PLAN, "interactive", "/prompts/tests")
    assert resumed_plan(there, "headless", None) == resumed_plan(PLAN, "headless", None)


def test_a_plan_of_an_earlier_version_is_gone_on_with_as_it_was_launched() -> None:
    old = make_plan(
        mode="interactive",
        resume_argv=("/bin/cli", "--resume", "{session_id}", "--", "{prompt}"),
        session_at=2,
        prompt_at=-1,
        stdin="inherit",
        prompt_file="/prompts/tests",
    )
    assert set(lines_of(old)) == {"interactive"}
    assert resumed(resumed_plan(old, "interactive", None)) == ("/bin/cli", "--resume", "s-1")


@pytest.mark.parametrize(
    ("by", "context", "session", "named"),
    [
        ("id", CONTEXT, "s-1", "s-1"),
        ("file", CONTEXT, "s-1", "/sessions/s-1"),
        ("file", replace(CONTEXT, session_file=None), "s-1", "s-1"),
        ("file", CONTEXT, "s-0", "s-0"),
        ("file", None, "s-1", "s-1"),
    ],
)
def test_the_exact_file_stands_for_the_session_where_the_cli_takes_one(
    by: Any, context: ResumeContext | None, session: str, named: str
) -> None:
    assert session_argument(replace(PLAN, resume_by=by), context, session) == named


# -- the wake prompt


def test_a_wake_prompt_holds_task_checkpoint_and_pointers_instead_of_a_transcript() -> None:
    context = replace(CONTEXT, checkpoint="parser done", pointers=("file:///a", "file:///b"), summary="docs left")
    told = wake_prompt(agent(context=context, task_ref="GOAL-7", task_summary="mend the tests"))
    for part in ("resumed in the same session", "GOAL-7: mend the tests", "parser done", "- file:///b", "docs left"):
        assert part in told
    assert told.endswith("go on with your task.\n")


def test_a_wake_prompt_without_anything_to_tell_is_short() -> None:
    assert len(wake_prompt(agent()).splitlines()) == 2


def test_what_it_is_to_do_comes_last() -> None:
    assert wake_prompt(agent(), text="now the docs").splitlines()[-1] == "now the docs"


def test_an_agent_that_was_done_was_not_interrupted_and_gets_its_next_prompt_alone() -> None:
    done = agent(state=Closed(since=1, hand_off=make_hand_off(cause="ended", success=True)))
    assert wake_prompt(done, text="now the docs") == "now the docs"
    assert "interrupted" in wake_prompt(done)


@pytest.mark.parametrize(
    "end", [{"cause": "stopped"}, {"cause": "lost", "success": None}, {"success": False, "code": 1}]
)
def test_whatever_else_ended_it_was_an_interruption(end: dict[str, Any]) -> None:
    cut_off = agent(state=Closed(since=1, hand_off=make_hand_off(**end)))
    assert wake_prompt(cut_off, text="go on").startswith("You were interrupted")


def test_ends_of_children_are_told_and_counted_past_the_bound() -> None:
    ended = [agent(f"kid-{n}") for n in range(MAX_TOLD_ENDS + 3)]
    told = wake_prompt(agent(), ended=ended)
    assert ("- kid-0: exited with 0" in told, f"kid-{MAX_TOLD_ENDS}:" in told) == (True, False)
    assert "- and 3 more" in told


# -- how it goes


def running(*, session: str | None = None, mode: Any = "headless") -> Entry:
    generation = Generation(nonce="n", resumes="s-1", session=session)
    return agent(generation=generation, plan=replace(PLAN, mode=mode, ready_timeout_ms=1000))


@pytest.mark.parametrize(
    ("entry", "waited_ms", "found"),
    [
        (running(session="s-1"), 0, True),
        (running(), 1000, None),
        (running(session="s-2"), 0, "it came up in another session, s-2"),
        (running(), 1001, "it did not confirm its session within 1 s"),
        (running(mode="interactive"), 10_000, None),
    ],
)
def test_a_resume_stands_when_the_very_session_is_proven(entry: Entry, waited_ms: float, found: object) -> None:
    assert outcome(entry, waited_ms=waited_ms) == found
