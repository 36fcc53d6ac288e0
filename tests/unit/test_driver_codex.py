"""The protocol of `codex app-server`: captured conversations, and what must never become a yes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.ask_reasons import NO_TARGET
from supervisor.core.asks import Decision, abandoned
from supervisor.drivers.codex import Codex
from supervisor.drivers.codex_asks import unwrapped
from supervisor.drivers.effects import Ask, Broken, Effects, Job, Proven, Ready, Say, Send, TurnEnded, Withdraw
from supervisor.runtime.tool_use import PermissionAsk, Unclear
from tests.unit.driving import ALLOWED, DENIED

DATA = Path(__file__).parent.parent / "data" / "drivers"
TURN = [json.loads(line) for line in (DATA / "codex-app-server-turn-accept.jsonl").read_text().splitlines()]
REQUEST = json.loads((DATA / "codex-app-server-requestApproval.json").read_text())
JOB = Job(("codex", "app-server"), "<CWD>")
THREAD, OTHER = "<UUID_2>", "<UUID_9>"
ODD = [
    Decision("true", "approved"),  # type: ignore[arg-type]
    Decision(1, "approved"),  # type: ignore[arg-type]
    abandoned(NO_TARGET),
    DENIED,
]


def heard(codex: Codex, *messages: Any) -> list[Any]:
    return [effect for message in messages for effect in codex.hear(message)]


def sent(effects: Effects) -> list[Any]:
    return [effect.message for effect in effects if isinstance(effect, Send)]


def opened(job: Job = JOB) -> Codex:
    codex = Codex(job)
    codex.open()
    heard(codex, {"id": 1, "result": {}}, {"id": 2, "result": {"thread": {"id": THREAD, "path": "/p"}}})
    return codex


def in_turn() -> Codex:
    codex = opened()
    codex.prompt("go")
    heard(codex, {"id": 3, "result": {"turn": {"id": "t"}}})
    return codex


def request(**params: Any) -> dict[str, Any]:
    return {**REQUEST, "params": {**REQUEST["params"], **params}}


def completed(status: str, *, thread: str = THREAD, turn: str = "t", **more: Any) -> dict[str, Any]:
    return {"method": "turn/completed", "params": {"threadId": thread, "turn": {"id": turn, "status": status, **more}}}


def item(method: str, *, thread: str = THREAD, **fields: Any) -> dict[str, Any]:
    return {"method": method, "params": {"threadId": thread, "item": fields}}


# -- a captured turn


def test_a_captured_turn_is_carried_on_to_its_end() -> None:
    codex = Codex(JOB)
    said = sent(codex.open())
    effects: list[Any] = []
    for line in TURN:
        if line["dir"] == "in":
            continue
        new = heard(codex, line["o"])
        effects += new
        for effect in new:
            if isinstance(effect, Ready):
                said += sent(codex.prompt(TURN[7]["o"]["params"]["input"][0]["text"]))
            if isinstance(effect, Ask):
                said += sent(codex.answer(effect.key, ALLOWED))
        said += sent(new)

    captured = [line["o"] for line in TURN if line["dir"] == "in"]
    assert [(m.get("id"), m.get("method"), m.get("result")) for m in said] == [
        (m.get("id"), m.get("method"), m.get("result")) for m in captured
    ]
    wanted = captured[2]["params"] | {"approvalsReviewer": "user"}
    config = {"sandbox_mode": wanted.pop("sandbox")}
    assert said[2]["params"] == wanted | {"config": config}
    assert said[3]["params"] == captured[3]["params"]
    (ask,) = (e.wanted for e in effects if isinstance(e, Ask))
    assert (ask.tool, ask.value, ask.cwd) == ("bash", "touch MARK", "<CWD>")
    assert effects[-1] == TurnEnded("done")
    assert Say("tool", "bash: touch MARK") in effects
    assert "TOOLRESULT<<" in next(e.text for e in effects if isinstance(e, Say) and e.kind == "text")


def test_the_session_is_that_of_the_thread_and_only_then_it_is_ready() -> None:
    codex = Codex(JOB)
    codex.open()

    assert heard(codex, {"id": 1, "result": {}})[:1] == [Send({"method": "initialized"})]
    assert heard(codex, {"id": 2, "result": {"thread": {"id": THREAD, "path": "/p"}}}) == [
        Proven(THREAD, "/p"),
        Ready(),
    ]


def test_model_and_paths_go_by_the_protocol() -> None:
    codex = Codex(JOB._replace(model="m", paths=("/a", "/b")))
    codex.open()

    (start,) = sent(heard(codex, {"id": 1, "result": {}}))[1:]
    assert start["params"]["model"] == "m"
    roots = {"writable_roots": ["/a", "/b"]}
    assert start["params"]["config"] == {"sandbox_mode": "workspace-write", "sandbox_workspace_write": roots}


@pytest.mark.parametrize("resume", [None, THREAD])
def test_the_sandbox_goes_as_a_setting_for_its_parameter_would_trust_the_folder(resume: str | None) -> None:
    codex = Codex(JOB._replace(resume=resume))
    codex.open()

    (opened,) = sent(heard(codex, {"id": 1, "result": {}}))[1:]
    assert opened["params"]["config"] == {"sandbox_mode": "workspace-write"}
    assert "sandbox" not in opened["params"]


# -- resuming


def resumed(reply: Any) -> list[Any]:
    codex = Codex(JOB._replace(resume=THREAD))
    codex.open()
    (start,) = sent(heard(codex, {"id": 1, "result": {}}))[1:]
    assert (start["method"], start["params"]["threadId"]) == ("thread/resume", THREAD)
    return heard(codex, reply)


def test_a_resume_counts_when_the_same_session_answers() -> None:
    assert resumed({"id": 2, "result": {"thread": {"id": THREAD}}}) == [Proven(THREAD), Ready()]


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ({"id": 2, "result": {"thread": {"id": OTHER}}}, f"session {OTHER} instead of {THREAD}"),
        ({"id": 2, "result": {"thread": {}}}, "not named its session"),
        ({"id": 2, "result": {}}, "not named its session"),
        ({"id": 2, "result": None}, "refused to resume"),
        ({"id": 2, "error": {"code": -32600, "message": "no rollout found for thread id x"}}, "no rollout found"),
        ({"id": 2, "error": {"code": -32600, "message": "thread x already has an active writer"}}, "one writer at a"),
    ],
)
def test_any_other_answer_to_a_resume_ends_it_before_a_turn(reply: Any, why: str) -> None:
    (broken,) = resumed(reply)

    assert isinstance(broken, Broken)
    assert why in broken.why


# -- asks


@pytest.mark.parametrize("decision", ODD)
def test_only_an_approval_is_accepted(decision: Decision) -> None:
    codex = in_turn()
    (ask,) = heard(codex, REQUEST)
    steer, reply = sent(codex.answer(ask.key, decision))

    assert reply == json.loads((DATA / "codex-app-server.reply-decline.json").read_text())
    assert steer["method"] == "turn/steer"


def test_an_approval_is_for_this_once() -> None:
    codex = in_turn()
    (ask,) = heard(codex, REQUEST)

    assert sent(codex.answer(ask.key, ALLOWED)) == [
        json.loads((DATA / "codex-app-server.reply-accept.json").read_text())
    ]
    assert codex.answer(ask.key, ALLOWED) == (), "and answered once"


def test_the_reason_of_a_denial_follows_as_a_message_into_the_turn_that_asked() -> None:
    codex = in_turn()
    (ask,) = heard(codex, request(threadId=OTHER, turnId="sub"))
    steer, _ = sent(codex.answer(ask.key, DENIED))

    assert (steer["params"]["threadId"], steer["params"]["expectedTurnId"]) == (OTHER, "sub")
    assert steer["params"]["input"][0]["text"] == "Permission for touch MARK was not given: denied by the user: no"


def test_a_denial_whose_turn_is_over_needs_no_message() -> None:
    codex = in_turn()
    (ask,) = heard(codex, REQUEST)
    steer, _ = sent(codex.answer(ask.key, DENIED))

    assert heard(codex, {"id": steer["id"], "error": {"code": -32600, "message": "no active turn"}}) == []


@pytest.mark.parametrize(
    "params",
    [
        {"command": None},
        {"command": 7},
        {"command": ""},
        {"command": "/bin/bash -lc 'a\u0007b'"},
        {"command": "x" * 200_000},
        {"cwd": None},
        {"kind": "writeStdin"},
        {"kind": "humanCommand"},
        {"kind": None},
        {"networkApprovalContext": {"host": "example.org", "protocol": "https"}},
    ],
)
def test_what_is_not_a_whole_command_is_unclear(params: dict[str, Any]) -> None:
    (ask,) = heard(in_turn(), request(**params))

    assert isinstance(ask.wanted, Unclear)


@pytest.mark.parametrize(
    "method",
    [
        "item/permissions/requestApproval",
        "item/tool/requestUserInput",
        "item/tool/call",
        "mcpServer/elicitation/request",
        "execCommandApproval",
        "applyPatchApproval",
        "something/new",
    ],
)
def test_requests_of_other_kinds_get_an_error(method: str) -> None:
    (reply,) = sent(heard(in_turn(), {"method": method, "id": "x", "params": {"command": ["touch", "MARK"]}}))

    assert reply["id"] == "x"
    assert "error" in reply and "result" not in reply


def test_an_ask_that_was_settled_elsewhere_is_withdrawn() -> None:
    codex = in_turn()
    (ask,) = heard(codex, REQUEST)
    resolved = {"method": "serverRequest/resolved", "params": {"threadId": THREAD, "requestId": 0}}

    assert heard(codex, resolved, resolved) == [Withdraw(ask.key)]
    assert codex.answer(ask.key, ALLOWED) == ()


@pytest.mark.parametrize(
    ("command", "value"),
    [
        ("/bin/bash -lc 'touch MARK'", "touch MARK"),
        ("/tmp/bash -lc 'touch MARK'", "/tmp/bash -lc 'touch MARK'"),
        ("bash -c 'a && b'", "bash -c 'a && b'"),
        ("/usr/bin/zsh -lc \"echo 'x y'\"", "echo 'x y'"),
        ("/bin/bash -lc 'a' b", "/bin/bash -lc 'a' b"),
        ("/bin/bash -lc 'a'; rm x", "/bin/bash -lc 'a'; rm x"),
        ("env bash -lc a", "env bash -lc a"),
        ("/bin/bash -lc 'a", "/bin/bash -lc 'a"),
        ("/bin/bash -lc ''", "/bin/bash -lc ''"),
        ("python -c 'a'", "python -c 'a'"),
    ],
)
def test_a_command_is_asked_as_its_shell_is_given_it(command: str, value: str) -> None:
    assert unwrapped(command) == value


# -- changes of files

EDIT = {
    "method": "item/fileChange/requestApproval",
    "id": 5,
    "params": {"threadId": THREAD, "turnId": "t", "itemId": "i"},
}


def asked_to_change(changes: Any, **params: Any) -> PermissionAsk | Unclear:
    codex = in_turn()
    heard(codex, item("item/started", type="fileChange", id="i", status="inProgress", changes=changes))
    (ask,) = heard(codex, {**EDIT, "params": {**EDIT["params"], **params}})  # type: ignore[dict-item]
    assert isinstance(ask, Ask)
    return ask.wanted


def test_one_changed_file_is_an_edit_of_it() -> None:
    wanted = asked_to_change([{"path": "/w/../w/a", "kind": {"type": "update"}, "diff": "+x"}])

    assert isinstance(wanted, PermissionAsk)
    assert (wanted.tool, wanted.value) == ("edit", "/w/a")


@pytest.mark.parametrize(
    ("changes", "params"),
    [
        ([{"path": "/w/a"}, {"path": "/etc/passwd"}], {}),
        ([{"path": "/w/a", "kind": {"type": "update", "move_path": "/etc/passwd"}}], {}),
        ([{"path": "/w/a"}], {"grantRoot": "/"}),
    ],
)
def test_more_than_one_file_is_no_edit_of_one(changes: Any, params: dict[str, Any]) -> None:
    wanted = asked_to_change(changes, **params)

    assert isinstance(wanted, PermissionAsk)
    assert wanted.tool == "apply_patch"
    assert "/etc/passwd" in wanted.value or '"grantRoot":"/"' in wanted.value


@pytest.mark.parametrize("changes", [None, [], [{}], [{"path": "/a"}, {"path": None}], "x"])
def test_changes_that_are_not_named_are_unclear(changes: Any) -> None:
    assert isinstance(asked_to_change(changes), Unclear)


# -- turns


def test_a_failed_turn_says_why() -> None:
    assert heard(in_turn(), completed("failed", error={"message": "no money"})) == [TurnEnded("failed", "no money")]


def test_a_turn_that_cannot_begin_has_failed() -> None:
    codex = opened()
    codex.prompt("go")

    assert heard(codex, {"id": 3, "error": {"message": "no"}}) == [TurnEnded("failed", "no")]


def test_an_interrupt_ends_the_turn_and_what_it_left_running() -> None:
    codex = in_turn()

    (interrupt,) = sent(codex.interrupt())
    assert (interrupt["method"], interrupt["params"]) == ("turn/interrupt", {"threadId": THREAD, "turnId": "t"})
    clean, ended = heard(codex, completed("interrupted"))
    assert (clean.message["method"], ended) == ("thread/backgroundTerminals/clean", TurnEnded("interrupted"))


def test_an_interrupt_before_the_turn_has_its_id_is_sent_when_it_has() -> None:
    codex = opened()
    codex.prompt("go")

    assert codex.interrupt() == ()
    (interrupt,) = sent(heard(codex, {"id": 3, "result": {"turn": {"id": "t"}}}))
    assert interrupt["method"] == "turn/interrupt"


def test_a_turn_is_over_when_those_of_its_sub_sessions_are() -> None:
    codex = in_turn()
    spawned = item(
        "item/completed", type="collabAgentToolCall", tool="spawnAgent", status="completed", receiverThreadIds=[OTHER]
    )
    heard(codex, spawned)
    assert heard(codex, completed("completed")) == []

    began = {"method": "turn/started", "params": {"threadId": OTHER, "turn": {"id": "sub"}}}
    assert heard(codex, began, completed("completed", thread=OTHER, turn="sub")) == [TurnEnded("done")]


def test_another_turns_end_is_not_ours() -> None:
    assert heard(in_turn(), completed("completed", turn="old")) == []


# -- what cannot be understood


@pytest.mark.parametrize("message", [{}, {"id": 99, "result": {}}, {"id": True, "result": {}}, {"id": [1]}])
def test_what_was_not_asked_breaks_the_conversation(message: Any) -> None:
    (broken,) = heard(in_turn(), message)

    assert isinstance(broken, Broken)


@pytest.mark.parametrize(
    "message",
    [
        {"method": "item/started"},
        {"method": "item/started", "params": []},
        {"method": "item/completed", "params": {"item": {"type": "commandExecution", "exitCode": "x"}}},
        {"method": "turn/completed", "params": {"threadId": THREAD, "turn": "t"}},
        {"method": "error", "params": {"error": None}},
        {"method": "unheard/of", "params": {"x": 1}},
    ],
)
def test_odd_notifications_end_nothing(message: Any) -> None:
    assert [e for e in heard(in_turn(), message) if not isinstance(e, Say)] == []
