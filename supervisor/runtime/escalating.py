"""Asks that a keeper's sessions have passed on to their parents, and what comes of each. Decides nothing about them.

Owns the requests that it has put into the parents' inboxes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec import Struct

from supervisor.core.ask_reasons import CORRUPT_RESPONSE, Reason
from supervisor.core.ask_wire import (
    Malformed,
    Request,
    Response,
    about_ask,
    encode_request,
    hops_of,
    parse_request,
    parse_response,
)
from supervisor.core.asks import Done, Judged, LookedAt, Waiting, begin, step
from supervisor.core.entry import KeeperRef
from supervisor.core.liveness import Now
from supervisor.core.serving import Judgement, Target
from supervisor.runtime.ask_facts import AskFacts, AskParts
from supervisor.runtime.parts import Parts


class Escalated(Struct):
    """An ask as it came here, and its wait for the parent's answer."""

    request: Request
    state: Waiting


class Above(Struct, frozen=True):
    """What is seen at a parent at one time: whether it serves, and the ids that are answered or looked at there."""

    serving: Judgement
    answered: Collection[str]
    claimed: Collection[str]


class Escalations:
    """By session, then by ask id."""

    def __init__(self, parts: Parts, asks: AskParts, keeper: KeeperRef, facts: AskFacts) -> None:
        self._parts, self._asks, self._keeper, self._facts = parts, asks, keeper, facts
        self._passed: dict[str, dict[str, Escalated]] = {}

    def ids(self, session_id: str) -> Collection[str]:
        """What a session has passed on and has no answer to."""
        return self._passed.get(session_id, {}).keys()

    def pass_on(
        self, session_id: str, parent: str, request: Request, hops: tuple[str, ...], *, timeout_ms: int, now: Now
    ) -> Reason | None:
        """Put it into the parent's inbox, with us to ring; None, or why that could not be."""
        ours = {**request.ours, "hops": list(hops), "bell": self._keeper.keeper_id}
        forwarded = encode_request(request._replace(target=parent, ours=ours))
        try:
            self._asks.files.write_request(parent, request.id, forwarded)
        except OSError as error:
            return Reason("write_failed", f"the permission request could not be passed on: {error.strerror}")
        waiting = begin(Target(parent, "entry"), timeout_ms=timeout_ms, now=now.monotonic_ns)
        self._passed.setdefault(session_id, {})[request.id] = Escalated(request, waiting)
        self._log("escalated", {**about_ask(request, session_id), "to": parent}, now)
        beat = self._facts.beat_of(parent)
        if beat is not None and beat.keeper_id:
            self._parts.bells.ring(beat.keeper_id)
        return None

    def outcomes(
        self, session_id: str, parent: str | None, now: Now
    ) -> Iterator[tuple[Request, Response | Reason | None]]:
        """One look above for all: each that is over, with the answer or why there is none.

        None: the session has another `parent` now, it has to be passed on to that one.
        """
        files, passed = self._asks.files, self._passed.get(session_id, {})
        targets = {e.state.target.session_id for e in passed.values()}
        above = {t: Above(self._facts.serving(t, now), files.answered(t), files.claims(t)) for t in targets}
        for ask_id, escalated in tuple(passed.items()):
            at = escalated.state.target.session_id
            what = self._look(ask_id, escalated, above[at], now)
            moved = parent is not None and parent != at and not isinstance(what, Response | Reason)
            if moved:
                what = None
                self._log("moved", {**about_ask(escalated.request, session_id), "from": at, "to": parent}, now)
            if isinstance(what, Done):
                about = {**about_ask(escalated.request, session_id), "to": at, "code": what.decision.code}
                self._log("given_up", {**about, **self._facts.evidence(what.seen)}, now)
                what = Reason(what.decision.code, what.decision.reason or "")
            if what is not None or moved:
                self.take_back(session_id, ask_id)
                if isinstance(what, Response) or what == CORRUPT_RESPONSE:
                    files.remove_response(at, ask_id)
                yield escalated.request, what

    def _look(self, ask_id: str, escalated: Escalated, above: Above, now: Now) -> Response | Reason | Done | None:
        """What has become of one; None: it waits."""
        at = escalated.state.target.session_id
        data = self._asks.files.read_response(at, ask_id) if ask_id in above.answered else None
        if data is not None:
            response = parse_response(data)
            return CORRUPT_RESPONSE if isinstance(response, Malformed) else response
        state, _ = step(escalated.state, Judged(above.serving), now=now.monotonic_ns)
        if isinstance(state, Waiting):
            looked = ask_id in above.claimed and self._facts.claim(at, ask_id, now) is not None
            state, _ = step(state, LookedAt(looked), now=now.monotonic_ns)
        if isinstance(state, Done):
            return state
        escalated.state = state
        return None

    def take_back(self, session_id: str, ask_id: str) -> None:
        """It is answered here, or nobody needs it any more."""
        escalated = self._passed.get(session_id, {}).pop(ask_id, None)
        if escalated is not None:
            self._asks.files.remove_request(escalated.state.target.session_id, ask_id)

    def forget(self, session_id: str) -> None:
        """The session serves no more."""
        for ask_id in tuple(self.ids(session_id)):
            self.take_back(session_id, ask_id)
        self._passed.pop(session_id, None)

    def sweep(self, session_id: str, parent: str, now: Now) -> None:
        """At a session's first mark: what a killed keeper of it has passed on. Whatever is still open is taken anew."""
        files = self._asks.files
        others = {m.keeper_id for m in self._asks.inboxes.marks() if self._facts.judge(m, now).answer == "serving"}
        for ask_id in files.requests(parent, but=self.ids(session_id)):
            data = files.read_request(parent, ask_id)
            request = parse_request(data, stem=ask_id) if data else None
            if not isinstance(request, Request) or hops_of(request)[-1:] != (session_id,):
                continue
            if request.ours.get("bell") not in others:  # else a program that decides beside us has passed it on
                files.remove_request(parent, ask_id)

    def _log(self, event: str, fields: dict[str, object], now: Now) -> None:
        self._asks.review.append(event, fields, at=now.wall_ms)
