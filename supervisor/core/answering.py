"""What a serving session does with one ask: pure decisions over a request, its authority and who is there.

`receive` judges a request once; what then waits (for a parent's answer, for a person) is followed by the runtime.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from supervisor.core.ask_reasons import Reason, cycle, expired, malformed, misaddressed, undecidable
from supervisor.core.ask_wire import MAX_HOPS, Malformed, Request, Response, hops_of, uses_of
from supervisor.core.profile import AskMode
from supervisor.core.rules import Authority, Verdict, decide

Mode = AskMode


class Presence(Struct, frozen=True, kw_only=True):
    """Who could decide for a session now: a person (an inbox or its terminal), a parent that serves, its own program.

    `program`: one of another process (`join(decide=…)`), which has the ask before it and passes on what it leaves open.
    """

    person: bool = False
    parent: bool = False
    program: bool = False


def serves(mode: Mode, presence: Presence) -> bool:
    """A session serves only while somebody can decide; a detached root that nobody looks at does not pretend to."""
    return mode in ("rules", "hold") or presence.person or presence.parent or presence.program


class Answer(Struct, frozen=True):
    """Publish this response, and remove the request."""

    response: Response
    event: str


class Drop(Struct, frozen=True):
    """Nobody waits for it any more: remove it without an answer."""

    why: str


class Escalate(Struct, frozen=True):
    """Pass it on to the parent, with this session among its hops."""

    hops: tuple[str, ...]


class AskPerson(Struct, frozen=True):
    """Leave it in the inbox for a person, or for the program that decides."""


Next = Answer | Drop | Escalate | AskPerson


def receive(
    request: Request | Malformed,
    *,
    session: str,
    mode: Mode,
    presence: Presence,
    verdict: Verdict,
    requester_dead: bool,
    age_ms: int,
    timeout_ms: int,
    now: int,
) -> Next:
    """What to do with a request that has just been found (`verdict` is the recorded authority's, `now` epoch ms)."""
    if isinstance(request, Malformed):
        return Answer(unavailable(malformed(request.why), session, now), "malformed")
    if request.target != session:
        return Answer(unavailable(misaddressed(request.target, session), session, now), "misaddressed")
    hops = hops_of(request)
    if session in hops or len(hops) >= MAX_HOPS:
        return Answer(unavailable(cycle(session), session, now), "cycle")
    if requester_dead:
        return Drop("its requester is gone")
    if age_ms > timeout_ms:
        return Answer(unavailable(expired(session), session, now), "expired")
    if verdict.action != "ask":
        return Answer(by_record(verdict, session, now), "auto_approved" if verdict.action == "allow" else "auto_denied")
    return open_question(request, session=session, mode=mode, presence=presence, now=now)


def verdict_on(request: Request, lineage: Sequence[Authority], *, requester: str | None = None) -> Verdict:
    """What is on record about an ask, as if `requester` asked it: a deny of any form of it, an allow of all of them.

    What does not exactly say what it is for is never allowed without somebody who looks at it.
    """
    who, tool = requester or request.requester, request.surface or ""
    uses = uses_of(request)
    found = [decide(tool, use, requester=who, lineage=lineage) for use in uses or (request.value or "",)]
    denied = next((v for v in found if v.action == "deny"), None)
    asked = next((v for v in found if v.action == "ask"), Verdict(action="ask") if uses is None else None)
    return denied or asked or found[0]


def open_question(request: Request, *, session: str, mode: Mode, presence: Presence, now: int) -> Next:
    """No recorded authority decides: the parent that serves, else a person, else nobody. A program goes first."""
    if presence.program:
        return AskPerson()
    if presence.parent:
        return Escalate((*hops_of(request), session))
    if presence.person or mode == "hold":
        return AskPerson()
    return Answer(unavailable(undecidable(session), session, now), "undecidable")


def unavailable(reason: Reason, session: str, now: int) -> Response:
    """Nobody has decided: a denial with its own code, never a user's."""
    return Response(
        approved=False,
        state="denied_with_reason",
        responder=session,
        reason=reason.text,
        responded_at=now,
        decided_by={"kind": "unavailable", "reason": reason.text},
        ours={"code": reason.code},
    )


def by_person(
    *, approved: bool, reason: str | None, remember: str | None, session: str, who: str, now: int
) -> Response:
    """A person's answer. `remember` = `child`: the child itself keeps it (pi's `approved_for_session`)."""
    state = "denied_with_reason" if reason and not approved else "denied"
    if approved:
        state = "approved_for_session" if remember == "child" else "approved"
    return Response(
        approved=approved,
        state=state,
        responder=session,
        reason=reason,
        responded_at=now,
        decided_by={"kind": "user", "via": "select"},
        ours={"code": "decided", "by": who, **({"remember": remember} if remember else {})},
    )


def by_agent(*, approved: bool, reason: str | None, session: str, name: str, now: int) -> Response:
    """The answer of an agent, or of a program, that decides for its descendants: never worded as the user's."""
    reason = None if approved else reason
    return Response(
        approved=approved,
        state="approved" if approved else "denied_with_reason" if reason else "denied",
        responder=session,
        reason=reason,
        responded_at=now,
        decided_by={
            "kind": "authorizer",
            "name": name,
            "verdict": "allow" if approved else "deny",
            "reason": reason,
        },
        ours={"code": "decided", "by": name},
    )


def by_record(verdict: Verdict, session: str, now: int) -> Response:
    """What a rule or a remembered approval decides."""
    allow = verdict.action == "allow"
    by: dict[str, Any]
    reason = None
    if verdict.approval is not None:
        by = {"kind": "session_approval", "surface": verdict.approval.tool, "pattern": verdict.approval.value}
    else:
        rule = verdict.rule
        assert rule is not None  # a verdict that is no `ask` has one or the other
        by = {"kind": "rule", "surface": rule.tool, "pattern": rule.value, "origin": verdict.session_id}
        reason = None if allow else rule.reason or f"a rule denies {rule.tool} {rule.value}"
    return Response(
        approved=allow,
        state="approved" if allow else "denied_with_reason",
        responder=session,
        reason=reason,
        responded_at=now,
        decided_by=by,
        ours={"code": "decided", "by": "approval" if verdict.approval else "rule"},
    )
