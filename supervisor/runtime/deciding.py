"""A person's side: which asks wait, who looks at them, and answering so that the first answer stands.

Owns nothing; the keeper of the asked session notices by the files.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from supervisor.core.answering import by_agent, by_person, verdict_on
from supervisor.core.ask_age import age_ms
from supervisor.core.ask_wire import (
    Malformed,
    Request,
    about_ask,
    encode_response,
    hops_of,
    parse_request,
    parse_response,
    uses_of,
)
from supervisor.core.entry import Entry, KeeperRef
from supervisor.core.errors import BadInput, NotFound
from supervisor.core.liveness import Now
from supervisor.core.rules import Approval, Verdict
from supervisor.core.serving import ServingBeat, encode_beat
from supervisor.core.text import one_line
from supervisor.runtime.answering import ring_asker
from supervisor.runtime.ask_facts import AskFacts, AskParts, here_of
from supervisor.runtime.parts import Parts
from supervisor.runtime.serving_marks import serving_beat

Remember = Literal["child", "session"]


class Pending(Struct, frozen=True):
    """An ask that waits in a session's inbox; `looked_by` names who has it on the screen."""

    session_id: str
    request: Request
    age_ms: int
    looked_by: ServingBeat | None
    asker_dead: bool

    @property
    def nonce(self) -> str:
        """Tells this ask from a later one, for callers that act on what they saw."""
        nonce = self.request.ours.get("nonce")
        return nonce if isinstance(nonce, str) else str(self.request.created_at)


class Outcome(Struct, frozen=True):
    """What became of an answer: `applied`, or why it changes nothing."""

    what: Literal["applied", "already_answered", "gone", "other_ask", "denied_by_rule"]
    detail: str = ""


class Desk:
    """Reads and answers asks of one state root."""

    def __init__(self, parts: Parts, asks: AskParts) -> None:
        self._parts = parts
        self._asks = asks
        self._facts = AskFacts(parts, asks)

    def pending(self, sessions: Sequence[str] | None = None) -> list[Pending]:
        """Every ask that waits, oldest first; one that was passed on is listed only where it waits now."""
        return self._pending(lambda _ask_id: True, sessions)

    def _pending(self, wanted: Callable[[str], bool], sessions: Sequence[str] | None = None) -> list[Pending]:
        now, files = self._parts.now(), self._asks.files
        found: dict[str, Pending] = {}
        for session_id in files.sessions() if sessions is None else sessions:
            claimed = files.claims(session_id)
            for ask_id in filter(wanted, files.requests(session_id)):
                item = self._read(session_id, ask_id, now, claimed=ask_id in claimed)
                other = found.get(ask_id)
                if item is not None and (other is None or len(hops_of(item.request)) > len(hops_of(other.request))):
                    found[ask_id] = item
        return sorted(found.values(), key=lambda p: (-p.age_ms, p.request.created_at, p.request.id))

    def find(self, wanted: str) -> Pending:
        """The pending ask that an id or a unique prefix names.

        Raises:
            NotFound: none (it was answered, withdrawn or has expired), or several.
        """
        found = self._pending(lambda ask_id: ask_id == wanted) or self._pending(lambda a: a.startswith(wanted))
        if len(found) == 1:
            return found[0]
        if not found:
            why = "it may have been answered, withdrawn, or have expired"
            raise NotFound(f"no ask {one_line(wanted, 60)!r} waits: {why}", hint="See: supervisor asks")
        ids = ", ".join(p.request.id for p in found[:10])
        raise NotFound(f"{one_line(wanted, 60)!r} is ambiguous: {ids}", several=True)

    def answer(
        self,
        pending: Pending,
        *,
        approved: bool,
        reason: str | None = None,
        remember: Remember | None = None,
        nonce: str | None = None,
        who: str,
        agent: bool = False,
    ) -> Outcome:
        """Answer, unless somebody else was first, it is gone, or it is not the ask that was meant.

        `who` is a person, or, with `agent`, the name of an agent whose authority was checked.

        Raises:
            BadInput: neither a denial nor an ask that is not exact can be remembered. OSError: it could not be written.
        """
        if remember:
            _check_memorable(pending.request, approved=approved)
        if nonce is not None and nonce != pending.nonce:
            return Outcome("other_ask", "the nonce is another ask's")
        session_id, request = pending.session_id, pending.request
        if not self._asks.files.has_request(session_id, request.id):
            return self._too_late(session_id, request.id)
        barred = self._barred(session_id, request) if approved else None
        if barred is not None:
            return Outcome("denied_by_rule", f"a rule of session {barred.session_id} denies it, and that is final")
        now = self._parts.now()
        response = by_person(
            approved=approved, reason=reason, remember=remember, session=session_id, who=who, now=now.wall_ms
        )
        if agent:
            response = by_agent(approved=approved, reason=reason, session=session_id, name=who, now=now.wall_ms)
        if not self._asks.files.publish_response(session_id, request.id, encode_response(response)):
            return self._too_late(session_id, request.id)
        self._asks.files.remove_request(session_id, request.id)
        self._asks.files.remove_claim(session_id, request.id)
        ring_asker(self._parts, request)
        self._ring_keeper(session_id)
        fields = {
            **about_ask(request, session_id),
            "approved": approved,
            "by": {"kind": "authorizer" if agent else "user", "who": who},
        }
        self._asks.review.append("answered", {**fields, "reason": reason, "remember": remember}, at=now.wall_ms)
        if remember:  # last: an answer that applies must not be undone by a disk that cannot remember it
            self._remember(session_id, request, remember, now)
        return Outcome("applied")

    def claim(self, pending: Pending, keeper: KeeperRef, now: Now, *, since: int) -> None:
        """Say that somebody looks at it since then (epoch ms): its timeout waits. Renewed while it is on the screen."""
        beat = serving_beat(pending.request.id, keeper, now)._replace(since=since)
        with contextlib.suppress(OSError):
            self._asks.files.claim(pending.session_id, pending.request.id, encode_beat(beat))

    def log_claim(self, pending: Pending, keeper: KeeperRef, now: Now) -> None:
        """Once, when somebody begins to look."""
        by = {"kind": "user", "who": person(), "pid": keeper.process.key.pid}
        about = about_ask(pending.request, pending.session_id)
        self._asks.review.append("claimed", {**about, "by": by}, at=now.wall_ms)

    def unclaim(self, pending: Pending) -> None:
        """Nobody looks any more."""
        self._asks.files.remove_claim(pending.session_id, pending.request.id)

    def _barred(self, session_id: str, request: Request) -> Verdict | None:
        """A deny on record, which nobody's answer may widen; the keeper has perhaps not seen the ask yet."""
        verdict = verdict_on(request, self._facts.lineage_of(session_id, self._asks.settings().rules))
        return verdict if verdict.action == "deny" else None

    def waits(self, pending: Pending) -> bool:
        """Whether it still waits for an answer."""
        return self._asks.files.has_request(pending.session_id, pending.request.id)

    def _read(self, session_id: str, ask_id: str, now: Now, *, claimed: bool) -> Pending | None:
        data = self._asks.files.read_request(session_id, ask_id)
        request = parse_request(data, stem=ask_id) if data else None
        if request is None or isinstance(request, Malformed):
            return None
        return Pending(
            session_id,
            request,
            age_ms(request, here_of(now)),
            self._facts.claim(session_id, ask_id, now) if claimed else None,
            self._facts.requester_dead(request, now),
        )

    def _too_late(self, session_id: str, ask_id: str) -> Outcome:
        data = self._asks.files.read_response(session_id, ask_id)
        response = parse_response(data) if data else None
        if response is None or isinstance(response, Malformed):
            return Outcome("gone", "it was withdrawn, answered, or has expired")
        if (response.decided_by or {}).get("kind") == "unavailable":
            return Outcome("already_answered", "it was refused because nobody had decided")
        who = response.ours.get("by") or (response.decided_by or {}).get("kind") or "somebody else"
        return Outcome("already_answered", f"{who} has {'allowed' if response.approved else 'denied'} it")

    def _remember(self, session_id: str, request: Request, remember: Remember, now: Now) -> None:
        child = request.requester if remember == "child" else None
        for use in uses_of(request) or ():
            self._asks.approvals.add(
                Approval(granted_by=session_id, tool=request.surface or "", value=use, child=child, at=now.wall_ms)
            )

    def _ring_keeper(self, session_id: str) -> None:
        beat = self._facts.beat_of(session_id)
        if beat is not None and beat.keeper_id:
            self._parts.bells.ring(beat.keeper_id)


def _check_memorable(request: Request, *, approved: bool) -> None:
    if not approved:
        raise BadInput("only an approval can be remembered", hint="Write a rule to deny: settings asks.rules")
    if uses_of(request) is None:
        raise BadInput(
            "this ask does not exactly say what it is for, it cannot be remembered", hint="Allow it this once"
        )


def lineage(entries: Sequence[Entry], request: Request) -> list[str]:
    """The asker's name and its ancestors', root first, for people."""
    from supervisor.core.tree import ancestors

    asker = next((e for e in entries if e.session_id == request.requester), None)
    if asker is None:
        return [request.agent_name]
    return [e.name for e in reversed(ancestors(asker, entries))] + [asker.name]


def person() -> str:
    """Who answers, for the log: the user's name on this machine."""
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"
