"""ACP as the driver speaks it: captured conversations of three agents, and what a bad agent may say."""

import json
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.asks import Decision
from supervisor.drivers.acp import AcpSpeaker
from supervisor.drivers.effects import (
    Ask,
    Broken,
    Effects,
    Job,
    Proven,
    Ready,
    Say,
    Send,
    TurnEnded,
    Withdraw,
)
from supervisor.runtime.tool_use import PermissionAsk, Unclear

DATA = Path(__file__).parents[1] / "data" / "acp"
CWD = "/work/here"
SESSION = "11111111-2222-4333-8444-555555555555"
JOB = Job(("agent", "--acp"), CWD)
ALLOWED = Decision(True, "approved", decided_by={"kind": "user"})
DENIED = Decision(False, "denied", "not today", decided_by={"kind": "user"})
OPTIONS = [
    {"optionId": "always", "kind": "allow_always", "name": "Always"},
    {"optionId": "yes", "kind": "allow_once", "name": "Once"},
    {"optionId": "no", "kind": "reject_once", "name": "No"},
]
HELLO = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}


def sent(effects: Effects) -> list[Any]:
    return [effect.message for effect in effects if isinstance(effect, Send)]


def result(number: int, body: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": body}


def error(number: int, **body: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": body}


def permission(number: Any = 7, *, options: Any = OPTIONS, **call: Any) -> dict[str, Any]:
    tool = {"toolCallId": "c1", "title": "touch MARK", "kind": "execute", **call}
    params = {"sessionId": SESSION, "options": options, "toolCall": tool}
    return {"jsonrpc": "2.0", "id": number, "method": "session/request_permission", "params": params}


def update(**about: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": SESSION, "update": about}}


def in_session(job: Job = JOB) -> AcpSpeaker:
    speaker = AcpSpeaker(job)
    speaker.open()
    speaker.hear(result(1, HELLO))
    speaker.hear(result(2, {"sessionId": SESSION}))
    return speaker


def test_a_session_is_told_of_our_mcp_server() -> None:
    speaker = AcpSpeaker(JOB._replace(mcp=("/opt/s", "mcp")))
    speaker.open()
    (call,) = sent(speaker.hear(result(1, HELLO)))
    server = {"name": "supervisor", "command": "/opt/s", "args": ["mcp"], "env": []}
    assert (call["method"], call["params"]["mcpServers"]) == ("session/new", [server])


def in_turn() -> AcpSpeaker:
    speaker = in_session()
    speaker.prompt("do it")
    return speaker


def asked(speaker: AcpSpeaker, message: dict[str, Any]) -> Ask:
    (ask,) = [effect for effect in speaker.hear(message) if isinstance(effect, Ask)]
    return ask


# ---------------------------------------------------------------- captured conversations


@pytest.mark.parametrize("agent", ["gemini", "claude", "opencode"])
def test_a_captured_conversation_goes_as_it_went(agent: str) -> None:
    """Two turns, the first allowed, the second denied: we send what was sent then."""
    lines = (DATA / f"acp-{agent}-allow-then-reject.jsonl").read_text().splitlines()
    script = [json.loads(line.replace("<CWD>", CWD)) for line in lines]
    speaker = AcpSpeaker(JOB)
    ours: list[Any] = sent(speaker.open())
    effects: list[Any] = []
    decisions = [ALLOWED, DENIED]
    for line in script:
        if line["dir"] == "in":
            wanted = line["o"]
            if wanted.get("method") == "session/prompt":
                ours += sent(speaker.prompt(wanted["params"]["prompt"][0]["text"]))
            mine = ours.pop(0)
            if wanted.get("method") == "initialize":
                assert {**mine["params"], "clientInfo": 0} == {**wanted["params"], "clientInfo": 0}
            else:
                assert mine == wanted
        else:
            new = speaker.hear(line["o"])
            effects += new
            ours += sent(new)
            for ask in (e for e in new if isinstance(e, Ask)):
                ours += sent(speaker.answer(ask.key, decisions.pop(0)))
    assert ours == []
    asks = [effect.wanted for effect in effects if isinstance(effect, Ask)]
    assert [(ask.tool, ask.value, ask.cwd) for ask in asks if isinstance(ask, PermissionAsk)] == [
        ("bash", "touch MARK", CWD)
    ] * 2
    assert [e for e in effects if isinstance(e, TurnEnded)] == [TurnEnded("done")] * 2
    words = "".join(e.text for e in effects if isinstance(e, Say) and e.kind == "text")
    assert words.startswith("TOOLRESULT<<")


# ---------------------------------------------------------------- the beginning


def test_a_new_session_is_proven_and_ready() -> None:
    speaker = AcpSpeaker(JOB, file_of={SESSION: "/s/file"}.get)
    speaker.open()
    speaker.hear(result(1, HELLO))
    assert speaker.hear(result(2, {"sessionId": SESSION})) == (Proven(SESSION, "/s/file"), Ready())


def test_another_version_of_the_protocol_is_not_spoken() -> None:
    speaker = AcpSpeaker(JOB)
    speaker.open()
    assert speaker.hear(result(1, {"protocolVersion": 2})) == (Broken("it speaks version 2 of ACP, not 1"),)


@pytest.mark.parametrize(
    "named", [{}, {"sessionId": 5}, {"sessionId": ""}, {"sessionId": "a\nb"}, {"sessionId": "x" * 300}]
)
def test_an_agent_that_names_no_usable_session_is_ended(named: Any) -> None:
    speaker = AcpSpeaker(JOB)
    speaker.open()
    speaker.hear(result(1, HELLO))
    (broken,) = speaker.hear(result(2, named))
    assert isinstance(broken, Broken)


def test_an_error_tells_its_hidden_detail() -> None:
    speaker = AcpSpeaker(JOB._replace(resume=SESSION))
    speaker.open()
    speaker.hear(result(1, HELLO))
    answer = error(2, code=-32603, message="Internal error", data={"details": "No previous sessions found."})
    (broken,) = speaker.hear(answer)
    assert broken == Broken(f"session {SESSION} cannot be loaded: Internal error: No previous sessions found.")


@pytest.mark.parametrize(
    ("can", "method"),
    [
        ({"loadSession": True}, "session/load"),
        ({"loadSession": True, "sessionCapabilities": {"resume": {}}}, "session/resume"),
    ],
)
def test_a_session_is_gone_on_with_as_the_agent_can(can: Any, method: str) -> None:
    speaker = AcpSpeaker(JOB._replace(resume=SESSION))
    speaker.open()
    (call,) = sent(speaker.hear(result(1, {"protocolVersion": 1, "agentCapabilities": can})))
    assert call["method"] == method
    assert call["params"] == {"sessionId": SESSION, "cwd": CWD, "mcpServers": []}


def test_an_agent_that_cannot_go_on_with_a_session_begins_no_other() -> None:
    speaker = AcpSpeaker(JOB._replace(resume=SESSION))
    speaker.open()
    effects = speaker.hear(result(1, {"protocolVersion": 1, "agentCapabilities": {}}))
    assert effects == (Broken("it cannot go on with an earlier session"),)


def test_another_session_than_the_one_asked_for_is_a_failure() -> None:
    speaker = AcpSpeaker(JOB._replace(resume=SESSION))
    speaker.open()
    speaker.hear(result(1, HELLO))
    (broken,) = speaker.hear(result(2, {"sessionId": "other"}))
    assert isinstance(broken, Broken)


def test_what_a_loaded_session_repeats_is_not_said_again() -> None:
    speaker = AcpSpeaker(JOB._replace(resume=SESSION))
    speaker.open()
    speaker.hear(result(1, HELLO))
    proven, echo = speaker.hear(result(2, {}))
    assert proven == Proven(SESSION)
    assert isinstance(echo, Send)
    before = {"type": "text", "text": "said before"}
    assert speaker.hear(update(sessionUpdate="agent_message_chunk", content=before)) == ()
    assert speaker.hear(error(echo.message["id"], code=-32601, message="Method not found")) == (Ready(),)


def test_the_model_is_set_before_the_first_turn() -> None:
    speaker = AcpSpeaker(JOB._replace(model="big-1"))
    speaker.open()
    speaker.hear(result(1, HELLO))
    _, call = speaker.hear(result(2, {"sessionId": SESSION}))
    assert isinstance(call, Send)
    assert call.message["params"] == {"sessionId": SESSION, "modelId": "big-1"}
    assert speaker.hear(result(3, {})) == (Ready(),)


def test_a_model_that_is_not_taken_ends_it() -> None:
    speaker = AcpSpeaker(JOB._replace(model="big-1"))
    speaker.open()
    speaker.hear(result(1, HELLO))
    speaker.hear(result(2, {"sessionId": SESSION}))
    (broken,) = speaker.hear(error(3, message="no such model"))
    assert broken == Broken("it does not take the model big-1: no such model")


def test_a_mode_that_asks_less_is_said() -> None:
    speaker = AcpSpeaker(JOB)
    speaker.open()
    speaker.hear(result(1, HELLO))
    effects = speaker.hear(result(2, {"sessionId": SESSION, "modes": {"currentModeId": "yolo"}}))
    assert Say("note", "mode yolo") in effects


# ---------------------------------------------------------------- asks


def test_an_ask_is_allowed_by_the_option_of_that_kind_alone() -> None:
    speaker = in_turn()
    ask = asked(speaker, permission())
    outcome = {"outcome": {"outcome": "selected", "optionId": "yes"}}
    assert sent(speaker.answer(ask.key, ALLOWED)) == [result(7, outcome)]


def test_an_ask_is_denied_by_the_option_of_that_kind() -> None:
    speaker = in_turn()
    ask = asked(speaker, permission())
    outcome = {"outcome": {"outcome": "selected", "optionId": "no"}}
    assert sent(speaker.answer(ask.key, DENIED)) == [result(7, outcome)]


@pytest.mark.parametrize(
    "options",
    [
        [],
        None,
        "yes",
        [None, 5, {}],
        [{"kind": "allow_once"}],
        [{"kind": "allow_once", "optionId": 5}],
        [{"kind": "allow_always", "optionId": "always"}],
        [{"optionId": "allow_once", "name": "allow_once"}],
    ],
)
def test_without_an_option_to_allow_once_an_approval_allows_nothing(options: Any) -> None:
    speaker = in_turn()
    ask = asked(speaker, permission(options=options))
    effects = speaker.answer(ask.key, ALLOWED)
    assert sent(effects) == [result(7, {"outcome": {"outcome": "cancelled"}})]
    assert isinstance(effects[-1], Say)


def test_a_denial_never_uses_an_option_that_holds_for_ever() -> None:
    speaker = in_turn()
    ask = asked(speaker, permission(options=[{"kind": "reject_always", "optionId": "never"}]))
    assert sent(speaker.answer(ask.key, DENIED)) == [result(7, {"outcome": {"outcome": "cancelled"}})]


@pytest.mark.parametrize("approved", [1, "true", None, "approved"])
def test_only_true_is_an_approval(approved: Any) -> None:
    speaker = in_turn()
    ask = asked(speaker, permission())
    (answer,) = sent(speaker.answer(ask.key, Decision(approved, "approved")))
    assert answer["result"]["outcome"]["optionId"] == "no"


def test_an_ask_is_answered_once() -> None:
    speaker = in_turn()
    ask = asked(speaker, permission())
    speaker.answer(ask.key, DENIED)
    assert speaker.answer(ask.key, ALLOWED) == ()


def test_two_asks_under_one_id_are_both_refused() -> None:
    speaker = in_turn()
    ask = asked(speaker, permission())
    assert speaker.hear(permission()) == (
        Withdraw(ask.key),
        Send(result(7, {"outcome": {"outcome": "cancelled"}})),
    )
    assert speaker.answer(ask.key, ALLOWED) == ()


def test_asks_wait_beside_each_other() -> None:
    speaker = in_turn()
    one, two = asked(speaker, permission("a")), asked(speaker, permission("b"))
    assert sent(speaker.answer(two.key, ALLOWED))[0]["id"] == "b"
    assert sent(speaker.answer(one.key, DENIED))[0]["id"] == "a"


@pytest.mark.parametrize("method", ["$/cancel_request", "$/cancelRequest"])
def test_an_ask_that_the_agent_takes_back_is_withdrawn_with_an_outcome(method: str) -> None:
    speaker = in_turn()
    ask = asked(speaker, permission())
    key = "requestId" if method == "$/cancel_request" else "id"
    effects = speaker.hear({"jsonrpc": "2.0", "method": method, "params": {key: 7}})
    assert effects == (Withdraw(ask.key), Send(result(7, {"outcome": {"outcome": "cancelled"}})))


@pytest.mark.parametrize(
    ("call", "tool", "value"),
    [
        ({"title": "touch A\ntouch B"}, "bash", "touch A\ntouch B"),
        ({"title": "Shell", "rawInput": {"command": "rm x"}}, "bash", "rm x"),
        ({"title": "Shell", "rawInput": {"command": ["bash", "-c", "rm 'x'"]}}, "bash", "bash -c 'rm '\"'\"'x'\"'\"''"),
        ({"kind": None, "rawInput": {"command": "rm x"}}, "bash", "rm x"),
        ({"kind": "edit", "content": [{"type": "diff", "path": "/w/f", "newText": "x"}]}, "edit", "/w/f"),
        ({"kind": "edit", "rawInput": {"filePath": "a/../f"}}, "edit", f"{CWD}/f"),
        ({"kind": "edit", "rawInput": {"path": "f"}, "content": [{"type": "diff", "path": "./f"}]}, "edit", f"{CWD}/f"),
        ({"kind": "read", "locations": [{"path": "/etc/passwd"}]}, "read", "/etc/passwd"),
        ({"kind": "fetch", "rawInput": {"url": "http://a/"}}, "webfetch", "http://a/"),
        ({"kind": "fetch", "title": "get http://a/"}, "webfetch", "get http://a/"),
    ],
)  # fmt: skip
def test_what_is_wanted_is_read_where_an_agent_says_it(call: dict[str, Any], tool: str, value: str) -> None:
    wanted = asked(in_turn(), permission(**call)).wanted
    assert isinstance(wanted, PermissionAsk), wanted
    assert (wanted.tool, wanted.value, wanted.session) == (tool, value, SESSION)


def test_another_tool_is_judged_by_all_that_is_told_of_it() -> None:
    wanted = asked(in_turn(), permission(kind="other", title="Deploy", rawInput={"to": "prod"})).wanted
    assert isinstance(wanted, PermissionAsk)
    assert wanted.tool == "other"
    assert '"to":"prod"' in wanted.value


@pytest.mark.parametrize(
    "call",
    [
        {"title": None},
        {"title": "  "},
        {"title": "a\x1b[2Jb"},
        {"title": "x" * 200_000},
        {"kind": "edit", "title": "Writing to f"},
        {"kind": "edit", "content": [{"type": "diff", "path": "/a"}, {"type": "diff", "path": "/b"}]},
        {"kind": "read", "locations": []},
        {"kind": "x y"},
    ],
)
def test_what_cannot_be_judged_whole_is_unclear(call: dict[str, Any]) -> None:
    assert isinstance(asked(in_turn(), permission(**call)).wanted, Unclear)


def test_an_ask_without_a_tool_call_is_unclear() -> None:
    message = permission()
    del message["params"]["toolCall"]
    assert isinstance(asked(in_turn(), message).wanted, Unclear)


def test_an_ask_knows_what_an_update_has_told_of_its_call() -> None:
    speaker = in_turn()
    speaker.hear(update(sessionUpdate="tool_call", toolCallId="c9", kind="execute", rawInput={"command": "rm x"}))
    message = permission()
    message["params"]["toolCall"] = {"toolCallId": "c9"}
    wanted = asked(speaker, message).wanted
    assert isinstance(wanted, PermissionAsk)
    assert wanted.value == "rm x"


def test_what_we_do_not_offer_is_refused_and_not_left_waiting() -> None:
    speaker = in_turn()
    request = {"jsonrpc": "2.0", "id": "r", "method": "fs/write_text_file", "params": {"path": "/etc/x"}}
    (answer,) = sent(speaker.hear(request))
    assert (answer["id"], answer["error"]["code"]) == ("r", -32601)


# ---------------------------------------------------------------- turns


@pytest.mark.parametrize(
    ("answer", "how"),
    [
        ({"stopReason": "end_turn"}, "done"),
        ({"stopReason": "cancelled"}, "interrupted"),
        ({"stopReason": "refusal"}, "failed"),
        ({"stopReason": "max_tokens"}, "failed"),
        ({"stopReason": "what\nelse"}, "failed"),
        ({}, "failed"),
        (None, "failed"),
    ],
)
def test_a_turn_ends_as_the_agent_says(answer: Any, how: str) -> None:
    (ended,) = in_turn().hear(result(3, answer))
    assert isinstance(ended, TurnEnded)
    assert ended.how == how


def test_a_turn_that_fails_says_why() -> None:
    assert in_turn().hear(error(3, code=400, message="fake error")) == (TurnEnded("failed", "fake error"),)


def test_words_come_as_whole_lines() -> None:
    speaker = in_turn()

    def chunk(text: Any) -> Effects:
        return speaker.hear(update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text}))

    assert chunk("one ") == ()
    assert chunk("line\nan") == (Say("text", "one line"),)
    assert chunk(None) == ()
    assert chunk("other") == ()
    assert speaker.hear(result(3, {"stopReason": "end_turn"})) == (Say("text", "another"), TurnEnded("done"))


def test_a_line_that_never_ends_is_not_kept_for_ever() -> None:
    speaker = in_turn()
    chunk = update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "x" * 20_000})
    assert speaker.hear(chunk) == (Say("text", "x" * 20_000),)


def test_an_interrupt_cancels_open_asks_before_the_turn() -> None:
    speaker = in_turn()
    ask = asked(speaker, permission())
    assert speaker.interrupt() == (
        Withdraw(ask.key),
        Send(result(7, {"outcome": {"outcome": "cancelled"}})),
        Send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": SESSION}}),
    )


def test_at_the_end_the_running_turn_is_cancelled() -> None:
    assert [m.get("method") for m in sent(in_turn().close())] == ["session/cancel"]
    assert in_session().close() == ()


def test_what_is_no_message_breaks_it() -> None:
    assert in_turn().garbled("it said hm") == (Broken("it said hm"),)


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"id": True, "result": {}},
        {"id": 99, "result": {}},
        {"id": [], "result": {}},
        {"method": 5},
        {"method": []},
        {"method": "session/update"},
        {"method": "session/update", "params": {"update": 5}},
        {"method": "session/update", "params": {"update": {"sessionUpdate": "tool_call", "toolCallId": {}}}},
        {"method": "session/update", "params": {"update": {"sessionUpdate": "agent_message_chunk", "content": 1}}},
        {"method": "session/request_permission", "params": {}},
        {"method": "$/cancel_request"},
    ],
)
def test_odd_messages_change_nothing(message: Any) -> None:
    speaker = in_turn()
    assert list(speaker.hear(message)) == []
    assert speaker.hear(result(3, {"stopReason": "end_turn"})) == (TurnEnded("done"),)
