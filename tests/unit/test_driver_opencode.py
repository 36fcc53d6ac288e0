"""opencode's server as the driver speaks to it: requests out, replies and captured events in."""

import json
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.asks import Decision
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
from supervisor.drivers.opencode import Connected, Lost, OpencodeSpeaker, Reply, Request
from supervisor.runtime.tool_use import PermissionAsk, Unclear

DATA = Path(__file__).parents[1] / "data" / "opencode"
CWD = "/work/here"
SESSION = "ses_0123abc"
CHILD = "ses_child"
JOB = Job(("opencode", "serve"), CWD)
ALLOWED = Decision(True, "approved", decided_by={"kind": "user"})
DENIED = Decision(False, "denied", "not today", decided_by={"kind": "user"})
LIST = Send(Request("permissions", "GET", "/permission"))
STATUS = Send(Request("status", "GET", "/session/status"))
ASK = "per_1"


def event(kind: str, **about: Any) -> dict[str, Any]:
    return {"id": "evt_1", "type": kind, "properties": about}


def captured(name: str, *, session: str = SESSION) -> dict[str, Any]:
    text = (DATA / f"opencode-sse-permission.{name}.json").read_text()
    for mark, value in {"<PER_1>": ASK, "<SES_1>": session, "<CWD>": CWD}.items():
        text = text.replace(mark, value)
    found: dict[str, Any] = json.loads(text)
    return found


def status(kind: str, session: str = SESSION) -> dict[str, Any]:
    return event("session.status", sessionID=session, status={"type": kind})


def idle(session: str = SESSION) -> dict[str, Any]:
    return event("session.idle", sessionID=session)


def sent(effects: Effects) -> list[Request]:
    return [effect.message for effect in effects if isinstance(effect, Send)]


def in_session(job: Job = JOB) -> OpencodeSpeaker:
    speaker = OpencodeSpeaker(job)
    assert speaker.open() == ()
    speaker.hear(Connected())
    assert speaker.hear(Reply("create", 200, {"id": SESSION, "directory": CWD})) == (Proven(SESSION), Ready())
    return speaker


def in_turn(*, accepted: bool = True, busy: bool = True) -> OpencodeSpeaker:
    speaker = in_session()
    speaker.prompt("do it")
    if accepted:
        speaker.hear(Reply("prompt", 204))
    if busy:
        speaker.hear(status("busy"))
    return speaker


def asked(speaker: OpencodeSpeaker, message: Any) -> Ask:
    (ask,) = [effect for effect in speaker.hear(message) if isinstance(effect, Ask)]
    return ask


# ---------------------------------------------------------------- the session


def test_at_the_first_connect_a_session_is_made_and_open_asks_are_looked_for() -> None:
    speaker = OpencodeSpeaker(JOB)
    assert speaker.hear(Connected()) == (Send(Request("create", "POST", "/session", {})), LIST)


def test_at_a_later_connect_no_other_session_is_made() -> None:
    assert in_session().hear(Connected()) == (LIST,)
    assert in_turn().hear(Connected()) == (LIST, STATUS)


def test_a_session_is_gone_on_with_when_it_is_there_and_was_begun_here() -> None:
    speaker = OpencodeSpeaker(JOB._replace(resume=SESSION))
    assert speaker.hear(Connected()) == (Send(Request("look", "GET", f"/session/{SESSION}")), LIST)
    found = Reply("look", 200, {"id": SESSION, "directory": CWD})
    assert speaker.hear(found) == (Proven(SESSION), Ready())


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Reply("look", 404, {"name": "NotFoundError"}), "has no session"),
        (Reply("look", 200, {"id": SESSION, "directory": "/elsewhere"}), "was begun in /elsewhere"),
        (Reply("look", 200, {"id": SESSION}), "was begun in None"),
        (Reply("look", 200, {"id": "ses_other", "directory": CWD}), "has found session ses_other"),
        (Reply("look", 500), "status 500"),
        (Reply("look", 0, None, "ConnectionRefusedError: no"), "ConnectionRefusedError"),
        (Reply("look", 200, None), "gives no session"),
    ],
)
def test_a_session_that_is_not_exactly_there_is_no_session(found: Reply, words: str) -> None:
    speaker = OpencodeSpeaker(JOB._replace(resume=SESSION))
    speaker.hear(Connected())
    (broken,) = speaker.hear(found)
    assert isinstance(broken, Broken)
    assert words in broken.why


@pytest.mark.parametrize("session", ["../../x", "a/b", "a b", "ses_x?y", "é"])
def test_an_id_that_is_none_reaches_no_address(session: str) -> None:
    effects = OpencodeSpeaker(JOB._replace(resume=session)).hear(Connected())
    assert isinstance(effects[0], Broken)


@pytest.mark.parametrize("body", [None, [], {}, {"id": 5}, {"id": "a/b"}, {"id": ""}])
def test_a_server_that_names_no_usable_session_is_ended(body: Any) -> None:
    speaker = OpencodeSpeaker(JOB)
    speaker.hear(Connected())
    (broken,) = speaker.hear(Reply("create", 200, body))
    assert isinstance(broken, Broken)


def test_events_that_cannot_be_had_any_more_end_it() -> None:
    assert in_turn().hear(Lost("refused")) == (Broken("the connection to opencode was lost: refused"),)


# ---------------------------------------------------------------- asks


@pytest.mark.parametrize(
    ("name", "tool", "value"),
    [
        ("asked-bash", "bash", "touch MARK"),
        ("asked-edit", "edit", f"{CWD}/f.txt"),
        ("asked-external_directory", "external_directory", "/etc/*"),
    ],
)
def test_what_was_captured_is_understood(name: str, tool: str, value: str) -> None:
    wanted = asked(in_turn(), captured(name)).wanted
    assert isinstance(wanted, PermissionAsk), wanted
    assert (wanted.tool, wanted.value, wanted.cwd) == (tool, value, CWD)


def test_an_ask_of_a_subagent_is_asked_under_its_own_session() -> None:
    wanted = asked(in_turn(), captured("asked-childsession", session=CHILD)).wanted
    assert isinstance(wanted, PermissionAsk)
    assert wanted.session == CHILD


def test_the_replies_are_those_that_were_captured() -> None:
    once = json.loads((DATA / "opencode-reply-once.json").read_text())
    reject = json.loads((DATA / "opencode-reply-reject-message.json").read_text())
    speaker = in_turn()
    ask = asked(speaker, captured("asked-bash"))
    assert sent(speaker.answer(ask.key, ALLOWED)) == [
        Request(f"answer {ASK}", "POST", f"/permission/{ASK}/reply", once)
    ]
    speaker = in_turn()
    ask = asked(speaker, captured("asked-bash"))
    (request,) = sent(speaker.answer(ask.key, DENIED))
    assert request.body == {**reject, "message": "denied by the user: not today"}


@pytest.mark.parametrize("approved", [1, "once", "always", None])
def test_only_true_is_an_approval_and_nothing_is_allowed_for_ever(approved: Any) -> None:
    speaker = in_turn()
    ask = asked(speaker, captured("asked-bash"))
    (request,) = sent(speaker.answer(ask.key, Decision(approved, "approved", for_session=True)))
    assert request.body["reply"] == "reject"
    speaker = in_turn()
    ask = asked(speaker, captured("asked-bash"))
    (request,) = sent(speaker.answer(ask.key, Decision(True, "approved", for_session=True)))
    assert request.body == {"reply": "once"}


def test_an_ask_whose_event_was_lost_is_found_in_the_list_and_asked_once() -> None:
    speaker = in_turn()
    listed = Reply("permissions", 200, [captured("asked-bash")["properties"]])
    (ask,) = speaker.hear(listed)
    assert isinstance(ask, Ask)
    assert speaker.hear(listed) == ()
    assert speaker.hear(captured("asked-bash")) == ()
    speaker.answer(ask.key, ALLOWED)
    assert speaker.hear(listed) == (), "a list from before the answer"
    assert speaker.answer(ask.key, ALLOWED) == ()


@pytest.mark.parametrize("body", [None, {}, [5, None], "x"])
def test_a_list_that_cannot_be_read_ends_it_for_it_may_hold_an_ask(body: Any) -> None:
    (end,) = in_turn().hear(Reply("permissions", 200, body))
    assert end == Broken("opencode's list of permission requests cannot be read")


@pytest.mark.parametrize("came", [Reply("permissions", 500), Reply("permissions", 0, None, "timed out")])
def test_a_list_that_does_not_come_is_waited_for(came: Reply) -> None:
    assert in_turn().hear(came) == ()


def test_asks_are_looked_for_at_each_heartbeat_of_the_server() -> None:
    assert in_session().hear(event("server.heartbeat")) == [LIST]
    assert in_turn().hear(event("server.heartbeat")) == [LIST, STATUS]


def replied(reply: Any) -> dict[str, Any]:
    found = captured("replied")
    found["properties"]["reply"] = reply
    return found


def test_an_ask_that_the_server_rejects_itself_is_withdrawn() -> None:
    """Rejecting one ask of a session makes it reject the others."""
    speaker = in_turn()
    ask = asked(speaker, captured("asked-bash"))
    assert speaker.hear(replied("reject")) == (Withdraw(ask.key),)
    assert speaker.answer(ask.key, ALLOWED) == ()
    assert speaker.hear(replied("reject")) == ()


@pytest.mark.parametrize("reply", ["once", "always", None, 5])
def test_a_yes_that_is_not_ours_ends_the_agent(reply: Any) -> None:
    """Its tools have the server's password in their environment."""
    speaker = in_turn()
    ask = asked(speaker, captured("asked-bash"))
    withdraw, broken = speaker.hear(replied(reply))
    assert withdraw == Withdraw(ask.key)
    assert isinstance(broken, Broken)


def test_a_yes_of_ours_comes_back_and_is_nothing_new() -> None:
    speaker = in_turn()
    ask = asked(speaker, captured("asked-bash"))
    speaker.answer(ask.key, ALLOWED)
    assert speaker.hear(captured("replied")) == ()


@pytest.mark.parametrize("code", [200, 404])
def test_an_answer_that_was_taken_or_came_too_late_is_nothing_to_speak_of(code: int) -> None:
    assert in_turn().hear(Reply(f"answer {ASK}", code, True)) == ()


@pytest.mark.parametrize("came", [Reply(f"answer {ASK}", 400), Reply(f"answer {ASK}", 0, None, "TimeoutError: x")])
def test_an_answer_that_was_not_taken_ends_it(came: Reply) -> None:
    (broken,) = in_turn().hear(came)
    assert isinstance(broken, Broken)


@pytest.mark.parametrize("key", [None, 5, "", "../x", "a b", "x" * 300])
def test_an_ask_that_cannot_be_answered_ends_it(key: Any) -> None:
    (broken,) = in_turn().hear(event("permission.asked", id=key, permission="bash"))
    assert isinstance(broken, Broken)


@pytest.mark.parametrize(
    "about",
    [
        {},
        {"permission": 5},
        {"permission": "x y"},
        {"permission": "bash"},
        {"permission": "bash", "patterns": ["touch *"]},
        {"permission": "bash", "metadata": {"command": " "}},
        {"permission": "bash", "metadata": {"command": "a\x1bb"}},
        {"permission": "edit", "metadata": {"filepath": 5}},
        {"permission": "webfetch", "metadata": []},
    ],
)
def test_what_cannot_be_judged_whole_is_unclear(about: dict[str, Any]) -> None:
    assert isinstance(asked(in_turn(), event("permission.asked", id=ASK, **about)).wanted, Unclear)


def test_another_permission_is_judged_by_all_that_is_told_of_it() -> None:
    about = {"permission": "task", "patterns": ["general"], "metadata": {"description": "d"}}
    wanted = asked(in_turn(), event("permission.asked", id=ASK, **about)).wanted
    assert isinstance(wanted, PermissionAsk)
    assert (wanted.tool, json.loads(wanted.value)) == ("task", {"description": "d", "patterns": ["general"]})


def test_a_question_is_declined_for_nobody_is_there_to_be_asked() -> None:
    effects = in_turn().hear(event("question.asked", id="que_1", sessionID=SESSION))
    assert sent(effects) == [Request("question", "POST", "/question/que_1/reject", {})]
    assert in_turn().hear(event("question.asked", id="../x")) == ()


# ---------------------------------------------------------------- turns


def test_a_prompt_is_sent_as_it_is() -> None:
    text = "- \"x\" 'y'\n$(z)"
    (request,) = sent(in_session().prompt(text))
    assert request == Request(
        "prompt", "POST", f"/session/{SESSION}/prompt_async", {"parts": [{"type": "text", "text": text}]}
    )


def test_the_model_goes_with_the_prompt() -> None:
    (request,) = sent(in_session(JOB._replace(model="fake/a/b")).prompt("x"))
    assert request.body["model"] == {"providerID": "fake", "modelID": "a/b"}


@pytest.mark.parametrize("model", ["fake", "/fake", "fake/"])
def test_what_names_no_model_ends_it_at_once(model: str) -> None:
    (broken,) = OpencodeSpeaker(JOB._replace(model=model)).open()
    assert isinstance(broken, Broken)


def test_a_turn_ends_when_its_own_session_is_idle() -> None:
    speaker = in_turn()
    assert speaker.hear(idle(CHILD)) == ()
    assert speaker.hear(idle()) == (TurnEnded("done"),)
    assert speaker.hear(idle()) == (), "it is told twice after an error"


def test_an_idle_of_the_turn_before_does_not_end_a_new_one() -> None:
    speaker = in_turn(busy=False)
    assert speaker.hear(idle()) == ()
    speaker.hear(status("busy"))
    assert speaker.hear(idle()) == (TurnEnded("done"),)


def test_a_turn_whose_end_was_lost_is_over_after_two_looks() -> None:
    speaker = in_turn(busy=False)
    look = Reply("status", 200, {})
    assert speaker.hear(look) == ()
    assert speaker.hear(look) == (TurnEnded("done"),)


def test_a_look_that_finds_it_busy_begins_anew() -> None:
    speaker = in_turn(busy=False)
    speaker.hear(Reply("status", 200, {}))
    speaker.hear(Reply("status", 200, {SESSION: {"type": "busy"}}))
    assert speaker.hear(Reply("status", 200, {})) == ()


def test_a_look_before_the_prompt_was_taken_says_nothing() -> None:
    speaker = in_turn(accepted=False, busy=False)
    for _ in range(3):
        assert speaker.hear(Reply("status", 200, {})) == ()


def test_a_turn_with_an_error_has_failed() -> None:
    speaker = in_turn()
    failed = {"name": "APIError", "data": {"message": "fake error", "statusCode": 400}}
    speaker.hear(event("session.error", sessionID=SESSION, error=failed))
    assert speaker.hear(idle()) == (TurnEnded("failed", "fake error"),)


@pytest.mark.parametrize("error", [None, 5, {}, {"name": "X"}, {"data": {"message": None}}])
def test_an_odd_error_is_an_error_too(error: Any) -> None:
    speaker = in_turn()
    speaker.hear(event("session.error", sessionID=SESSION, error=error))
    (ended,) = speaker.hear(idle())
    assert isinstance(ended, TurnEnded)
    assert ended.how == "failed"


def test_an_error_of_a_subagent_is_not_the_turns() -> None:
    speaker = in_turn()
    speaker.hear(event("session.error", sessionID=CHILD, error={"name": "X"}))
    assert speaker.hear(idle()) == (TurnEnded("done"),)


def test_a_prompt_that_is_not_taken_fails_its_turn() -> None:
    speaker = in_turn(accepted=False, busy=False)
    (ended,) = speaker.hear(Reply("prompt", 400, {"data": {"message": "bad"}}))
    assert ended == TurnEnded("failed", "opencode did not take the prompt: status 400: bad")


def test_an_ask_that_the_end_of_a_turn_leaves_is_rejected() -> None:
    speaker = in_turn()
    ask = asked(speaker, captured("asked-bash", session=CHILD))
    withdraw, rejection, ended = speaker.hear(idle())
    assert (withdraw, ended) == (Withdraw(ask.key), TurnEnded("done"))
    assert isinstance(rejection, Send)
    assert rejection.message.body["reply"] == "reject"


def test_an_interrupt_withdraws_the_asks_and_rejects_them_when_the_turn_is_over() -> None:
    """The server keeps them in its list, and may be asked by them for ever."""
    speaker = in_turn()
    ask = asked(speaker, captured("asked-bash"))
    assert speaker.interrupt() == (Withdraw(ask.key), Send(Request("abort", "POST", f"/session/{SESSION}/abort", {})))
    answer, listing = speaker.hear(Reply("abort", 200, True))
    assert listing == LIST
    assert isinstance(answer, Send)
    assert answer.message.path == f"/permission/{ASK}/reply"
    assert answer.message.body["reply"] == "reject"
    aborted = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
    speaker.hear(event("session.error", sessionID=SESSION, error=aborted))
    assert speaker.hear(idle()) == (TurnEnded("interrupted"),)


def test_an_ask_that_nobody_has_heard_of_is_rejected_after_an_interrupt() -> None:
    speaker = in_turn()
    speaker.interrupt()
    (answer,) = sent(speaker.hear(Reply("permissions", 200, [captured("asked-bash")["properties"]])))
    assert answer.body["reply"] == "reject"


def test_an_interrupt_that_is_not_taken_ends_it() -> None:
    speaker = in_turn()
    speaker.interrupt()
    (broken,) = speaker.hear(Reply("abort", 500))
    assert isinstance(broken, Broken)


# ---------------------------------------------------------------- words


def part(session: str = SESSION, **about: Any) -> dict[str, Any]:
    return event("message.part.updated", sessionID=session, part={"id": "prt_1", **about})


def test_words_are_said_once_when_they_are_whole() -> None:
    speaker = in_turn()
    assert speaker.hear(part(type="text", text="the prompt itself")) == ()
    assert speaker.hear(part(type="text", text="ha", time={"start": 1})) == ()
    whole = part(type="text", text="hallo", time={"start": 1, "end": 2})
    assert speaker.hear(whole) == (Say("text", "hallo"),)
    assert speaker.hear(whole) == ()
    assert speaker.hear(part(CHILD, id="prt_2", type="text", text="x", time={"end": 2})) == ()


def test_a_tool_is_said_with_what_became_of_it() -> None:
    speaker = in_turn()
    running = {"status": "running", "input": {"command": "ls\n-l"}}
    assert speaker.hear(part(type="tool", tool="bash", state=running)) == (Say("tool", "bash ls -l"),)
    assert speaker.hear(part(type="tool", tool="bash", state=running)) == ()
    done = {"status": "completed", "output": "a file"}
    assert speaker.hear(part(type="tool", tool="bash", state=done)) == (Say("result", "a file"),)
    failed = part(CHILD, id="prt_2", type="tool", tool="bash", state={"status": "error", "error": "no"})
    assert speaker.hear(failed) == (Say("result", "failed: no"),)


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"type": 5, "properties": {}},
        {"type": "session.idle"},
        {"type": "session.idle", "properties": []},
        {"type": "session.status", "properties": {"sessionID": SESSION, "status": 5}},
        {"type": "message.part.updated", "properties": {"part": 5}},
        {"type": "message.part.updated", "properties": {"part": {"id": "x", "type": "tool", "state": 5}}},
        {"type": "permission.replied", "properties": {"requestID": []}},
        None,
        5,
    ],
)
def test_odd_events_change_nothing(message: Any) -> None:
    speaker = in_turn()
    assert speaker.hear(message) == ()
    assert speaker.hear(idle()) == (TurnEnded("done"),)
