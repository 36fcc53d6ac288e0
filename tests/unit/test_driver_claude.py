"""Claude's stdio control protocol: captured conversations, and what must never become a yes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.ask_reasons import NO_TARGET
from supervisor.core.asks import Decision, abandoned
from supervisor.drivers.claude import HELLO, STATUS, STOP, Claude
from supervisor.drivers.effects import Ask, Broken, Effects, Job, Proven, Ready, Say, Send, TurnEnded, Withdraw
from supervisor.runtime.tool_use import PermissionAsk, Unclear
from tests.unit.driving import ALLOWED, DENIED

DATA = Path(__file__).parent.parent / "data" / "drivers"
SESSION, OTHER = "<UUID_1>", "<UUID_9>"
JOB = Job(("claude", "-p", "--verbose"), "<CWD>", session=SESSION)
ASK = {
    "type": "control_request",
    "request_id": "r",
    "request": {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "touch MARK"}},
}


def captured(name: str) -> list[Any]:
    return [json.loads(line) for line in (DATA / f"claude-stdio-{name}.jsonl").read_text().splitlines()]


def heard(claude: Claude, *messages: Any) -> list[Any]:
    return [effect for message in messages for effect in claude.hear(message)]


def sent(effects: Effects) -> list[Any]:
    return [effect.message for effect in effects if isinstance(effect, Send)]


def reply(call: str, response: Any, subtype: str = "success") -> dict[str, Any]:
    return {"type": "control_response", "response": {"subtype": subtype, "request_id": call, "response": response}}


def status(session: Any) -> dict[str, Any]:
    return reply(STATUS, {"sections": [{"title": "Session", "rows": [{"label": "Session ID", "value": session}]}]})


def opened(job: Job = JOB) -> Claude:
    claude = Claude(job)
    claude.open()
    heard(claude, reply(HELLO, {}), status(job.resume or job.session))
    return claude


def in_turn() -> Claude:
    claude = opened()
    claude.prompt("go")
    return claude


def init(session: str = SESSION) -> dict[str, Any]:
    return {"type": "system", "subtype": "init", "session_id": session, "cwd": "/elsewhere"}


def result(**fields: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, **fields}


def tasks(*kinds: str) -> dict[str, Any]:
    found = [{"task_id": str(i), "task_type": kind} for i, kind in enumerate(kinds)]
    return {"type": "system", "subtype": "background_tasks_changed", "tasks": found}


# -- captured turns


@pytest.mark.parametrize(("name", "decision"), [("allow", ALLOWED), ("deny", DENIED)])
def test_a_captured_turn_is_carried_on_to_its_end(name: str, decision: Decision) -> None:
    claude, conversation = opened(), captured(name)
    said = sent(claude.prompt(conversation[0]["o"]["message"]["content"]))
    effects: list[Any] = []
    for line in conversation:
        if line["dir"] == "in":
            continue
        new = heard(claude, line["o"])
        effects += new
        for effect in new:
            if isinstance(effect, Ask):
                said += sent(claude.answer(effect.key, decision))

    prompt, answer = said
    asked, replied = (line["o"] for line in conversation if line["dir"] == "in")
    assert prompt == asked
    assert answer["response"]["request_id"] == replied["response"]["request_id"]
    assert answer["response"]["response"]["behavior"] == replied["response"]["response"]["behavior"]
    (ask,) = (e.wanted for e in effects if isinstance(e, Ask))
    assert (ask.tool, ask.value, ask.cwd) == ("bash", "touch MARK", "<CWD>")
    assert effects[-1] == TurnEnded("done")
    assert Say("tool", "bash: touch MARK") in effects


def test_a_captured_turn_with_a_sub_agent_is_over_when_that_is() -> None:
    claude, conversation = opened(), captured("agent")
    claude.prompt("go")
    effects = [heard(claude, line["o"]) for line in conversation if line["dir"] == "out"]

    asks = [e for new in effects for e in new if isinstance(e, Ask)]
    assert [a.wanted.value for a in asks if isinstance(a.wanted, PermissionAsk)] == ["touch MARK"]
    ends = [i for i, new in enumerate(effects) if any(isinstance(e, TurnEnded) for e in new)]
    assert ends == [len(effects) - 1], "the first result is not the end"
    assert any(isinstance(e, Say) and e.text.startswith("(sub-agent) ") for new in effects for e in new)


# -- its session


def test_it_is_ready_when_it_has_named_its_session() -> None:
    claude = Claude(JOB)

    assert sent(claude.open())[0]["request"] == {"subtype": "initialize"}
    assert sent(heard(claude, reply(HELLO, {})))[0]["request"] == {"subtype": "get_status"}
    assert heard(claude, status(SESSION)) == [Proven(SESSION), Ready()]


@pytest.mark.parametrize("answer", [reply(STATUS, None, "error"), reply(STATUS, {}), reply(STATUS, {"sections": [7]})])
def test_a_version_that_does_not_tell_proves_it_with_its_first_message(answer: Any) -> None:
    claude = Claude(JOB)
    heard(claude, reply(HELLO, {}))

    assert heard(claude, answer) == [Ready()]
    assert heard(claude, init()) == [Proven(SESSION)]


@pytest.mark.parametrize("job", [JOB, JOB._replace(session=None, resume=SESSION)])
def test_another_session_than_the_wanted_one_ends_it(job: Job) -> None:
    for message in (status(OTHER), init(OTHER)):
        claude = Claude(job)
        heard(claude, reply(HELLO, {}))
        effects = heard(claude, message)
        assert isinstance(effects[0], Broken)
        assert f"session {OTHER} instead of {SESSION}" in effects[0].why


def test_an_unknown_session_is_told_as_what_it_is() -> None:
    claude = Claude(JOB._replace(session=None, resume=OTHER))
    gave_up = {"type": "result", "subtype": "error_during_execution", "is_error": True, "errors": ["No conversation"]}

    assert heard(claude, gave_up) == [Broken("claude gave up: No conversation")]


def test_a_change_of_the_session_inside_is_proven_too() -> None:
    assert heard(in_turn(), init(OTHER)) == [Proven(OTHER)]


def test_its_own_options_come_before_all_that_is_given() -> None:
    job = JOB._replace(model="m", paths=("/a",), argv=("claude", "-p", "--allowedTools", "Bash"))

    assert Claude(job).command() == (
        *("claude", "--session-id", SESSION, "--model", "m", "--add-dir", "/a"),
        *("-p", "--allowedTools", "Bash"),
    )
    assert Claude(JOB._replace(resume="R", session=None)).command()[:3] == ("claude", "--resume", "R")


# -- asks


ODD = [Decision("true", "approved"), Decision(1, "approved"), abandoned(NO_TARGET), DENIED]  # type: ignore[arg-type]


@pytest.mark.parametrize("decision", ODD)
def test_only_an_approval_is_allowed(decision: Decision) -> None:
    claude = in_turn()
    heard(claude, ASK)
    (answer,) = sent(claude.answer("r", decision))

    assert answer["response"]["response"]["behavior"] == "deny"
    assert answer["response"]["response"]["message"]


def test_an_approval_changes_nothing_and_remembers_nothing() -> None:
    claude = in_turn()
    heard(claude, ASK)

    (answer,) = sent(claude.answer("r", ALLOWED))
    assert answer["response"] == {"subtype": "success", "request_id": "r", "response": {"behavior": "allow"}}
    assert claude.answer("r", ALLOWED) == (), "and it is given once"


def test_an_ask_that_the_cli_cancels_is_withdrawn_and_gets_no_answer() -> None:
    claude = in_turn()
    cancel = {"type": "control_cancel_request", "request_id": "r"}

    assert heard(claude, cancel) == []
    heard(claude, ASK)
    assert heard(claude, cancel, cancel) == [Withdraw("r")]
    assert claude.answer("r", ALLOWED) == ()


@pytest.mark.parametrize(
    "request_",
    [
        {"tool_name": "Bash"},
        {"tool_name": "Bash", "input": []},
        {"tool_name": "Bash", "input": {}},
        {"tool_name": 7, "input": {"command": "x"}},
        {"input": {"command": "x"}},
        {"tool_name": "Bash", "input": {"command": "a\x1bb"}},
        {"tool_name": "Bash", "input": {"command": "x" * 200_000}},
    ],
)
def test_what_is_not_understood_is_unclear(request_: dict[str, Any]) -> None:
    (ask,) = heard(in_turn(), {**ASK, "request": {"subtype": "can_use_tool", **request_}})

    assert isinstance(ask.wanted, Unclear)


@pytest.mark.parametrize("subtype", ["hook_callback", "mcp_message", "elicitation", "request_user_dialog", None, 7])
def test_requests_of_other_kinds_get_an_error(subtype: Any) -> None:
    (answer,) = sent(heard(in_turn(), {**ASK, "request": {**ASK["request"], "subtype": subtype}}))  # type: ignore[dict-item]

    assert (answer["response"]["subtype"], answer["response"]["request_id"]) == ("error", "r")


@pytest.mark.parametrize("message", [{**ASK, "request_id": None}, {**ASK, "request": "x"}])
def test_an_ask_that_cannot_be_answered_breaks_the_conversation(message: Any) -> None:
    (broken,) = heard(in_turn(), message)

    assert isinstance(broken, Broken)


# -- turns


def test_turns_end_as_they_are_told() -> None:
    for message, how in (
        (result(), "done"),
        (result(subtype="error_during_execution", is_error=True, terminal_reason="aborted_tools"), "interrupted"),
        (result(subtype="error_during_execution", is_error=True, terminal_reason="aborted_streaming"), "interrupted"),
        (result(subtype="error_max_turns", is_error=True), "failed"),
        (result(is_error=True, result="API Error: 400"), "failed"),
        (result(is_error="no"), "failed"),
    ):
        (ended,) = heard(in_turn(), message)
        assert isinstance(ended, TurnEnded)
        assert ended.how == how


def test_a_failed_turn_says_why() -> None:
    assert heard(in_turn(), result(is_error=True, result="API Error: 400")) == [TurnEnded("failed", "API Error: 400")]


def test_a_shell_in_the_background_is_not_waited_for_and_a_sub_agent_is() -> None:
    claude = in_turn()
    assert heard(claude, tasks("local_bash"), result()) == [TurnEnded("done")]

    claude.prompt("again")
    assert heard(claude, tasks("local_agent", "local_bash"), result(), tasks("local_bash")) == []
    assert heard(claude, init(), result()) == [Proven(SESSION), TurnEnded("done")]


def test_an_interrupt_is_a_request_of_its_own() -> None:
    (request,) = sent(in_turn().interrupt())

    assert (request["type"], request["request"]) == ("control_request", {"subtype": "interrupt"})


def test_an_interrupt_while_only_sub_agents_go_on_ends_the_turn_with_its_answer() -> None:
    claude = in_turn()
    heard(claude, tasks("local_agent"), result())
    claude.interrupt()

    assert heard(claude, reply(STOP, {})) == [TurnEnded("interrupted")]
    assert heard(claude, tasks(), init(), result())[1:] == [], "what claude adds by itself is no turn of ours"
    assert heard(in_turn(), reply(STOP, {})) == [], "else its result is the end"


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"type": "rate_limit_event"},
        {"type": "system", "subtype": "status"},
        {"type": "system", "subtype": "background_tasks_changed", "tasks": 7},
        {"type": "assistant", "message": {"content": [7, {"type": "tool_use", "name": 7}]}},
        {"type": "user", "message": None},
    ],
)
def test_other_messages_end_nothing(message: Any) -> None:
    assert [e for e in heard(in_turn(), message) if not isinstance(e, Say)] == []
