"""What a serving session does with an ask: each case, and that nobody's silence is ever a user's denial."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.core.answering import (
    Answer,
    AskPerson,
    Drop,
    Escalate,
    Mode,
    Next,
    Presence,
    by_person,
    open_question,
    receive,
    serves,
    unavailable,
    verdict_on,
)
from supervisor.core.ask_reasons import Reason
from supervisor.core.ask_wire import MAX_HOPS, Malformed, Request, Response, encode_response, parse_response
from supervisor.core.rules import Approval, Authority, Rule, Verdict

NOBODY = Presence()
PERSON = Presence(person=True)
PARENT = Presence(parent=True)
BOTH = Presence(person=True, parent=True)
MODES: tuple[Mode, ...] = ("attended", "rules", "hold")
OPEN = Verdict(action="ask")
ALLOWED = Verdict(action="allow", session_id="root", rule=Rule(action="allow", tool="bash", value="ls*"))
DENIED = Verdict(action="deny", session_id="root", rule=Rule(action="deny", tool="bash", value="ls*", reason="no ls"))
REMEMBERED = Verdict(
    action="allow", session_id="me", approval=Approval(granted_by="me", tool="bash", value="ls", child="child")
)


def ask(**changes: Any) -> Request:
    return Request(id="perm-1", created_at=0, requester="child", target="me")._replace(**changes)


def got(request: Request | Malformed, **changes: Any) -> Next:
    given: dict[str, Any] = {
        "session": "me",
        "mode": "attended",
        "presence": PERSON,
        "verdict": OPEN,
        "requester_dead": False,
        "age_ms": 10,
        "timeout_ms": 600_000,
        "now": 77,
    }
    return receive(request, **{**given, **changes})


def answer(found: Next) -> Response:
    assert isinstance(found, Answer)
    assert (found.response.responded_at, found.response.responder) == (77, "me")
    assert found.response == parse_response(encode_response(found.response)), "pi and we can read it"
    return found.response


def refused_by_nobody(found: Next, *, code: str, event: str) -> None:
    response = answer(found)
    assert isinstance(found, Answer) and found.event == event
    assert (False, "denied_with_reason", code) == (response.approved, response.state, response.ours["code"])
    assert response.decided_by == {"kind": "unavailable", "reason": response.reason}


# -- who serves


@pytest.mark.parametrize(
    ("mode", "presence", "expected"),
    [
        ("attended", NOBODY, False),
        ("attended", PERSON, True),
        ("attended", PARENT, True),
        ("attended", BOTH, True),
        *[(mode, presence, True) for mode in ("rules", "hold") for presence in (NOBODY, PERSON, PARENT, BOTH)],
    ],
)
def test_serves_only_who_can_decide(mode: Mode, presence: Presence, expected: bool) -> None:
    assert serves(mode, presence) is expected


# -- an open question


@pytest.mark.parametrize(
    ("mode", "presence", "expected"),
    [
        *[(mode, presence, Escalate(("me",))) for mode in MODES for presence in (PARENT, BOTH)],
        *[(mode, PERSON, AskPerson()) for mode in MODES],
        ("hold", NOBODY, AskPerson()),
    ],
)
def test_an_open_question_goes_to_the_parent_else_to_a_person(mode: Mode, presence: Presence, expected: Next) -> None:
    assert expected == open_question(ask(), session="me", mode=mode, presence=presence, now=77)
    assert expected == got(ask(), mode=mode, presence=presence)


@pytest.mark.parametrize("mode", ["attended", "rules"])
def test_an_open_question_that_nobody_can_decide(mode: Mode) -> None:
    refused_by_nobody(
        open_question(ask(), session="me", mode=mode, presence=NOBODY, now=77), code="no_rule", event="undecidable"
    )


def test_the_hops_are_listed_in_order() -> None:
    assert Escalate(("a", "b", "me")) == got(ask(ours={"hops": ["a", "b"]}), presence=PARENT)


# -- received


@pytest.mark.parametrize(
    ("request_", "changes", "code", "event"),
    [
        (Malformed("it is no JSON", "perm-1"), {}, "malformed", "malformed"),
        (ask(target="you"), {}, "misaddressed", "misaddressed"),
        (ask(target=""), {}, "misaddressed", "misaddressed"),
        (ask(target="ME"), {}, "misaddressed", "misaddressed"),
        (ask(ours={"hops": ["me"]}), {}, "cycle", "cycle"),
        (ask(ours={"hops": ["a", "me", "b"]}), {}, "cycle", "cycle"),
        (ask(ours={"hops": [f"s{n}" for n in range(MAX_HOPS)]}), {}, "cycle", "cycle"),
        (ask(ours={"hops": "me"}), {}, "cycle", "cycle"),
        (ask(ours={"hops": [1]}), {}, "cycle", "cycle"),
        (ask(), {"age_ms": 600_001}, "expired", "expired"),
    ],
)
@pytest.mark.parametrize("verdict", [OPEN, ALLOWED], ids=["open", "allowed"])
def test_what_cannot_be_taken_is_answered_as_decided_by_nobody(
    request_: Request | Malformed, changes: dict[str, Any], code: str, event: str, verdict: Verdict
) -> None:
    refused_by_nobody(got(request_, verdict=verdict, **changes), code=code, event=event)


@pytest.mark.parametrize("verdict", [OPEN, ALLOWED, DENIED], ids=lambda v: v.action)
@pytest.mark.parametrize("age_ms", [10, 10**9])
def test_nobody_waits_for_it_any_more(verdict: Verdict, age_ms: int) -> None:
    assert isinstance(got(ask(), requester_dead=True, verdict=verdict, age_ms=age_ms), Drop)


@pytest.mark.parametrize("age_ms", [-(10**12), -1, 0, 600_000])
def test_not_expired(age_ms: int) -> None:
    assert AskPerson() == got(ask(), age_ms=age_ms)


@pytest.mark.parametrize("presence", [NOBODY, PERSON, PARENT, BOTH])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("verdict", "approved", "event", "by"),
    [
        (ALLOWED, True, "auto_approved", {"kind": "rule", "surface": "bash", "pattern": "ls*", "origin": "root"}),
        (DENIED, False, "auto_denied", {"kind": "rule", "surface": "bash", "pattern": "ls*", "origin": "root"}),
        (REMEMBERED, True, "auto_approved", {"kind": "session_approval", "surface": "bash", "pattern": "ls"}),
    ],
)
def test_recorded_authority_decides_whoever_is_there(
    verdict: Verdict, approved: bool, event: str, by: dict[str, Any], mode: Mode, presence: Presence
) -> None:
    found = got(ask(), verdict=verdict, mode=mode, presence=presence)
    response = answer(found)
    assert isinstance(found, Answer)
    assert (event, approved, by, "decided") == (
        found.event,
        response.approved,
        response.decided_by,
        response.ours["code"],
    )


def test_a_rule_gives_its_reason_or_itself() -> None:
    bare = Verdict(action="deny", session_id="root", rule=Rule(action="deny", tool="bash", value="ls*"))
    assert answer(got(ask(), verdict=DENIED)).reason == "no ls"
    assert answer(got(ask(), verdict=bare)).reason == "a rule denies bash ls*"
    assert answer(got(ask(), verdict=ALLOWED)).reason is None


# -- answers


@pytest.mark.parametrize(
    ("approved", "reason", "remember", "state"),
    [
        (True, None, None, "approved"),
        (True, None, "session", "approved"),
        (True, None, "child", "approved_for_session"),
        (True, "fine", None, "approved"),
        (False, None, None, "denied"),
        (False, "", None, "denied"),
        (False, "not now", None, "denied_with_reason"),
        (False, None, "child", "denied"),
        (False, "not now", "child", "denied_with_reason"),
    ],
)
def test_a_persons_answer(approved: bool, reason: str | None, remember: str | None, state: str) -> None:
    made = by_person(approved=approved, reason=reason, remember=remember, session="me", who="inbox-1", now=77)
    assert (approved, state, {"kind": "user", "via": "select"}) == (made.approved, made.state, made.decided_by)
    assert ("decided", "inbox-1", remember) == (made.ours["code"], made.ours["by"], made.ours.get("remember"))
    assert made == parse_response(encode_response(made))


def test_unavailable_is_never_a_user() -> None:
    made = unavailable(Reason("some_code", "some words"), "me", 77)
    assert (made.approved, made.reason, made.ours["code"]) == (False, "some words", "some_code")
    assert made.decided_by == {"kind": "unavailable", "reason": "some words"}


# What rules judge


def asking(value: str | None = "ls", *means: object, surface: str | None = "bash", **intent: object) -> Request:
    return Request(
        "perm-1", 1, "c", "p", surface=surface, value=value, access_intent={"matchValues": list(means), **intent}
    )


LS_ONLY = [Authority(session_id="p", rules=(Rule(action="allow", value="ls*"), Rule(action="deny", value="rm*")))]
ANYTHING = [Authority(session_id="p", rules=(Rule(action="allow"),))]


@pytest.mark.parametrize(
    ("request_", "action"),
    [
        (asking("ls"), "allow"),
        (asking("ls", "ls", "ls -l"), "allow"),
        (asking("ls", "ls", "make"), "ask"),
        (asking("ls", "ls", "rm -rf x"), "deny"),
        (asking("rm -rf x", "ls"), "deny"),
    ],
)
def test_every_form_of_what_is_asked_for_is_judged(request_: Request, action: str) -> None:
    assert verdict_on(request_, LS_ONLY).action == action


@pytest.mark.parametrize(
    "request_",
    [
        asking(None),
        asking(surface=None),
        asking("ls", 7),
        asking("ls", *map(str, range(65))),
        asking("ls", surface="bash")._replace(access_intent={"matchValues": "ls"}),
        asking("ls")._replace(access_intent={"surface": "write"}),
    ],
)
def test_what_does_not_exactly_say_what_it_is_for_is_never_allowed_by_a_rule(request_: Request) -> None:
    assert verdict_on(request_, ANYTHING).action == "ask"
    assert verdict_on(request_, [Authority(session_id="p", rules=(Rule(action="deny"),))]).action == "deny"


def test_a_request_without_an_intent_is_judged_by_its_value() -> None:
    assert verdict_on(asking("ls")._replace(access_intent=None), LS_ONLY).action == "allow"
