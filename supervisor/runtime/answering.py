"""The serving side, inside the keeper: what becomes of each ask. Never blocks; one ask waits for no other.

What is passed on is followed by `escalating`. Persons answer by themselves (`runtime.deciding`); the first answer
stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from supervisor.core.answering import (
    Answer,
    AskPerson,
    Drop,
    Escalate,
    Mode,
    Presence,
    open_question,
    receive,
    unavailable,
    verdict_on,
)
from supervisor.core.ask_age import age_ms, stamped
from supervisor.core.ask_reasons import Reason, expired, inbox_full
from supervisor.core.ask_wire import (
    Malformed,
    Request,
    Response,
    about_ask,
    encode_response,
    hops_of,
    parse_request,
    valid_id,
)
from supervisor.core.entry import Entry, KeeperRef, is_live
from supervisor.core.liveness import Now
from supervisor.core.rules import Verdict
from supervisor.core.timing import MS, TICK_MS
from supervisor.runtime.ask_facts import AskFacts, AskParts, AskSettings, here_of
from supervisor.runtime.escalating import Escalations
from supervisor.runtime.logs import warn
from supervisor.runtime.parts import Parts
from supervisor.runtime.serving_marks import ServingMarks

if TYPE_CHECKING:
    from supervisor.runtime.announcing import Announcer


MAX_WAITING = 20_000
"""More asks than this wait for nobody: a child that floods its parent's inbox is told so."""


class Unfetched(Struct):
    """An ask that has its answer since then (monotonic ns); its asker has not fetched it."""

    request: Request
    since: int


class Session(Struct):
    """What is known of one session between turns."""

    entry: Entry
    presence: Presence = Presence()
    has_inbox: bool = False
    adopted: bool = False
    swept: bool = False
    stamp: int = -1
    waiting: dict[str, Request] = {}
    answered: dict[str, Unfetched] = {}

    @property
    def id(self) -> str:
        """The session's id."""
        return self.entry.session_id


class Answering:
    """`beat` renews the marks and looks after waiting asks; `turn` takes new ones."""

    def __init__(
        self,
        parts: Parts,
        asks: AskParts,
        keeper: KeeperRef,
        *,
        on_terminal: bool,
        announcer: Announcer | None = None,
    ) -> None:
        self._parts = parts
        self._asks = asks
        self._keeper = keeper
        self._on_terminal = on_terminal
        self._facts = AskFacts(parts, asks)
        self._marks = ServingMarks(asks, keeper, self._facts)
        self._above = Escalations(parts, asks, keeper, self._facts)
        self._sessions: dict[str, Session] = {}
        self._settings = AskSettings()
        self._announcer = announcer

    def beat(self, now: Now, entries: Iterable[Entry]) -> None:
        """Before any other work: who serves, renewed marks, and the asks that wait longer than one look."""
        self._settings = self._asks.settings()
        persons = self._facts.attended(now)
        quiet = not persons and not self._on_terminal and self._settings.mode == "attended"
        # a master that nobody attends cannot serve: with a hundred of them this line is what a beat costs
        wanted = [e for e in entries if not quiet or e.parent is not None or e.plan.asks_mode is not None]
        live = {e.session_id: e for e in wanted if is_live(e)}
        self._facts.forget_parents()
        for gone in set(self._sessions) - set(live):
            self._marks.stop(gone, now)
            self._above.forget(gone)
            del self._sessions[gone]
        for session_id, entry in live.items():
            session = self._sessions.setdefault(session_id, Session(entry))
            session.adopted = session.adopted or _parent_of(session.entry) != _parent_of(entry)
            session.entry = entry
            session.has_inbox = self._facts.has_inbox(entry, persons)
            had_program = session.presence.program
            session.presence = self._facts.presence(entry, persons, now, on_terminal=self._on_terminal)
            if had_program and not session.presence.program:  # what it had before it is taken anew
                session.waiting.clear()
                session.stamp = -1
            if self._marks.serve(session_id, self._mode(entry), session.presence, now):
                if not session.swept and (parent := _parent_of(entry)) is not None:
                    self._above.sweep(session_id, parent, now)
                session.swept = True
                self._follow_adoption(session, now)
                self._look_after(session, now)

    def orphaned(self, entry: Entry) -> None:
        """One of this keeper's agents has lost its parent: whoever is told of asks is told of that."""
        if self._announcer is not None:
            self._announcer.orphaned(entry)

    def close(self) -> None:
        """A clean end: no session serves any more."""
        now = self._parts.now()
        for session_id in self._sessions:
            self._marks.stop(session_id, now)
        self._sessions.clear()
        if self._announcer is not None:
            self._announcer.close()

    def turn(self, now: Now) -> int | None:
        """Take what is new; the time (monotonic ns) to come back at while an escalation waits."""
        waits = False
        for session in self._sessions.values():
            if not self._marks.is_serving(session.id):
                continue
            stamp = self._asks.files.inbox_stamp(session.id)
            if stamp != session.stamp:
                # a folder's time is coarse: what came just now may be followed by an ask that does not show
                session.stamp = stamp if now.wall_ms * MS - stamp > TICK_MS * MS else -1
                self._take_new(session, now)
            for request, what in self._above.outcomes(session.id, _parent_of(session.entry), now):
                self._from_above(session, request, what, now)
            waits = waits or bool(self._above.ids(session.id))
        if self._announcer is not None:
            self._announcer.turn(now, waiting=sum(len(s.waiting) for s in self._sessions.values()))
        return now.monotonic_ns + TICK_MS * MS if waits else None

    def _mode(self, entry: Entry) -> Mode:
        return entry.plan.asks_mode or self._settings.mode

    # -- taking

    def _take_new(self, session: Session, now: Now) -> None:
        files, known = self._asks.files, session.waiting.keys() | self._above.ids(session.id)
        for gone in files.gone(session.id, known):
            self._settled(session, gone, now)
        for ask_id in files.requests(session.id, but=known):
            data = files.read_request(session.id, ask_id)
            if data is not None:
                self._take(session, ask_id, parse_request(data, stem=ask_id), now)

    def _take(self, session: Session, ask_id: str, request: Request | Malformed, now: Now) -> None:
        good = stamped(request, here_of(now)) if isinstance(request, Request) else None
        how = receive(
            good or request,
            session=session.id,
            mode=self._mode(session.entry),
            presence=session.presence,
            verdict=self._verdict(session, good) if good else Verdict(action="ask"),
            requester_dead=good is not None and self._facts.requester_dead(good, now),
            age_ms=age_ms(good, here_of(now)) if good else 0,
            timeout_ms=self._settings.timeout_ms,
            now=now.wall_ms,
        )
        if isinstance(how, Answer):
            self._answer(session, ask_id, good, how.response, how.event, now)
        elif isinstance(how, Drop):
            self._asks.files.remove_request(session.id, ask_id)
            if good is not None:
                self._remove_bell(good)
            self._log("dropped", {"ask": ask_id, "session": session.id, "why": how.why}, now)
        elif good is not None:
            self._open(session, good, how, now)

    def _open(self, session: Session, request: Request, how: Escalate | AskPerson, now: Now) -> None:
        if isinstance(how, Escalate):
            return self._escalate(session, request, how.hops, now)
        if len(session.waiting) >= MAX_WAITING:
            response = unavailable(inbox_full(session.id, MAX_WAITING), session.id, now.wall_ms)
            return self._answer(session, request.id, request, response, "inbox_full", now)
        session.waiting[request.id] = request
        self._log("prompted", about_ask(request, session.id), now)
        if self._announcer is not None and not session.has_inbox and not session.presence.program:
            self._announcer.add(request, session.entry)
        return None

    def _verdict(self, session: Session, request: Request) -> Verdict:
        """What is on record about it, now."""
        lineage = self._facts.lineage(session.entry, self._settings.rules)
        return verdict_on(request, lineage)

    # -- passing on

    def _escalate(self, session: Session, request: Request, hops: tuple[str, ...], now: Now) -> None:
        parent = _parent_of(session.entry)
        assert parent is not None  # presence.parent says so
        timeout_ms = self._settings.timeout_ms
        problem = self._above.pass_on(session.id, parent, request, hops, timeout_ms=timeout_ms, now=now)
        if problem is not None:
            self._undecided(session, request, problem, now)

    def _from_above(self, session: Session, request: Request, what: Response | Reason | None, now: Now) -> None:
        """The parent's answer, why there is none, or (None) another parent to ask."""
        if isinstance(what, Response):
            return self._answer(session, request.id, request, what, "answered_above", now)
        if isinstance(what, Reason):
            return self._undecided(session, request, what, now)
        return self._escalate(session, request, (*hops_of(request), session.id), now)

    def _undecided(self, session: Session, request: Request, reason: Reason, now: Now) -> None:
        """The parent could not: a person here, if there is one, else the truth."""
        here = Presence(person=session.presence.person)
        how = open_question(request, session=session.id, mode=self._mode(session.entry), presence=here, now=now.wall_ms)
        if isinstance(how, AskPerson):
            return self._open(session, request, how, now)
        response = unavailable(reason, session.id, now.wall_ms)
        return self._answer(session, request.id, request, response, "unavailable", now)

    def _follow_adoption(self, session: Session, now: Now) -> None:
        """What waits for a person here goes to the new parent, once that serves; not what somebody looks at."""
        if not (session.adopted and session.presence.parent):
            return
        session.adopted = False
        for ask_id, request in tuple(session.waiting.items()):
            if self._facts.claim(session.id, ask_id, now) is None:
                del session.waiting[ask_id]
                self._escalate(session, request, (*hops_of(request), session.id), now)

    # -- looking after

    def _look_after(self, session: Session, now: Now) -> None:
        """Waiting asks whose asker died or that nobody looked at in time; answers that nobody fetches."""
        files = self._asks.files
        for ask_id, request in tuple(session.waiting.items()):
            if self._facts.requester_dead(request, now):
                files.remove_request(session.id, ask_id)
                self._remove_bell(request)
                self._settled(session, ask_id, now)
            elif self._too_old(request, now) and self._facts.claim(session.id, ask_id, now) is None:
                del session.waiting[ask_id]
                response = unavailable(expired(session.id), session.id, now.wall_ms)
                self._answer(session, ask_id, request, response, "expired", now)
        for ask_id, left in tuple(session.answered.items()):
            if not files.has_response(session.id, ask_id):
                del session.answered[ask_id]
            elif self._facts.requester_dead(left.request, now):
                files.remove_response(session.id, ask_id)
                self._remove_bell(left.request)
            elif self._too_long(now.monotonic_ns - left.since):
                files.remove_response(session.id, ask_id)

    def _remove_bell(self, request: Request) -> None:
        """What a killed asker could not remove itself; never another's bell."""
        if request.ours.get("bell") == f"ask-{request.id}":
            self._parts.bells.remove(f"ask-{request.id}")

    def _too_old(self, request: Request, now: Now) -> bool:
        return self._too_long(age_ms(request, here_of(now)) * MS)

    def _too_long(self, ns: int) -> bool:
        return ns > self._settings.timeout_ms * MS

    def _settled(self, session: Session, ask_id: str, now: Now) -> None:
        """Its asker has its answer, or has gone: nothing of it stays."""
        request = session.waiting.pop(ask_id, None)
        if request is not None:
            session.answered[ask_id] = Unfetched(request, now.monotonic_ns)
        self._above.take_back(session.id, ask_id)
        self._asks.files.remove_claim(session.id, ask_id)
        how = "answered" if self._asks.files.has_response(session.id, ask_id) else "fetched or withdrawn"
        self._log("settled", {"ask": ask_id, "session": session.id, "how": how}, now)

    def _answer(
        self, session: Session, ask_id: str, request: Request | None, response: Response, event: str, now: Now
    ) -> None:
        """Publish (the first answer stands), ring the asker, remove the request."""
        stands = True
        if valid_id(ask_id):
            try:
                stands = self._asks.files.publish_response(session.id, ask_id, encode_response(response))
            except OSError as error:
                session.stamp = -1
                return warn("an answer could not be written, the ask is looked at again", ask=ask_id, why=str(error))
            if request is not None:
                session.answered[ask_id] = Unfetched(request, now.monotonic_ns)
                ring_asker(self._parts, request)
        self._asks.files.remove_request(session.id, ask_id)
        about = about_ask(request, session.id) if request else {"ask": ask_id, "session": session.id}
        outcome = {"approved": response.approved, "by": response.decided_by, "reason": response.reason}
        if not stands:
            return self._log("too_late", {**about, **outcome}, now)
        return self._log(event, {**about, **outcome}, now)

    def _log(self, event: str, fields: Mapping[str, object], now: Now) -> None:
        self._asks.review.append(event, fields, at=now.wall_ms)


def _parent_of(entry: Entry) -> str | None:
    return entry.parent.session_id if entry.parent else None


def ring_asker(parts: Parts, request: Request) -> None:
    """Wake whoever waits for the answer, if it has said how."""
    bell = request.ours.get("bell")
    if isinstance(bell, str) and valid_id(bell):
        parts.bells.ring(bell)
