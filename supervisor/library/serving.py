"""The serving side of a program with an authority of its own: rules on record first, then `decide`, then above.

Owns the asks that `decide` has before it. `decide` runs in a thread for each ask; what it says is taken in by the
thread that beats, which never runs a line of it. The first answer stands, whoever else serves the session.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from supervisor.adapters.inbox_files import DECIDES
from supervisor.core.answering import (
    Answer,
    AskPerson,
    Drop,
    Escalate,
    Presence,
    by_agent,
    by_record,
    open_question,
    unavailable,
)
from supervisor.core.ask_reasons import Reason, own_session
from supervisor.core.ask_wire import Request, Response, hops_of
from supervisor.core.entry import Entry, KeeperRef
from supervisor.core.liveness import Now
from supervisor.core.profile import AskMode
from supervisor.runtime.answering import Answering, Session
from supervisor.runtime.ask_facts import AskParts
from supervisor.runtime.parts import Parts
from supervisor.runtime.serving_marks import serving_beat

GATE_ERROR = Reason("gate_error", "gate error")


class Ask(NamedTuple):
    """What `decide` is given: who asks for what. `hops` are the sessions that have passed it on."""

    id: str
    tool: str
    value: str
    agent: str
    requester: str
    session: str
    cwd: str | None = None
    input: Any = None
    hops: tuple[str, ...] = ()


Verdict = bool | tuple[bool, str] | None
Decide = Callable[[Ask], Verdict]
Settled = tuple[bool, str | None] | Reason | None
"""Allowed or denied with a reason, a failure of `decide`, or no opinion."""


class Deciding(Answering):
    """`Answering` with programs that decide. `elsewhere`: sessions that have a keeper too, and their modes."""

    def __init__(self, parts: Parts, asks: AskParts, keeper: KeeperRef, *, wake: Callable[[], None]) -> None:
        super().__init__(parts, asks, keeper, on_terminal=False)
        self.decides: dict[str, Decide] = {}
        self.elsewhere: Mapping[str, AskMode | None] = {}
        self._wake = wake
        self._outcomes: deque[tuple[str, Request, Settled]] = deque()
        self._asked: set[tuple[str, str]] = set()
        self._passed: set[tuple[str, str]] = set()

    def serves(self, session_id: str) -> bool:
        """Whether a session's mark is up."""
        return self._marks.is_serving(session_id)

    def served_elsewhere(self, session_id: str, now: Now) -> bool:
        """Whether its heartbeat says that it is served, by whomever."""
        return self._facts.serving(session_id, now).answer == "serving"

    def beat(self, now: Now, entries: Iterable[Entry]) -> None:
        """Its keeper leaves to a program what the program says that it decides."""
        for session_id in self.elsewhere:
            if session_id in self.decides:
                with contextlib.suppress(OSError):  # then both have it before them, and the first answer stands
                    said = serving_beat(f"{DECIDES}{session_id}", self._keeper, now)
                    self._asks.inboxes.attend(self._keeper.keeper_id, said)
            else:
                self._asks.inboxes.leave(self._keeper.keeper_id)
        super().beat(now, entries)

    def close(self) -> None:
        """A clean end."""
        self._asks.inboxes.leave(self._keeper.keeper_id)
        super().close()

    def take_outcomes(self, now: Now) -> None:
        """Answer what `decide` has decided; one that was answered, withdrawn or has expired meanwhile is dropped."""
        while self._outcomes:
            session_id, request, settled = self._outcomes.popleft()
            session = self._sessions.get(session_id)
            if session is None or session.waiting.get(request.id) is not request:
                continue
            if not self._asks.files.has_request(session.id, request.id):
                continue  # a person was first, or it was withdrawn: the next look settles it
            del session.waiting[request.id]
            if settled is None:
                self._pass_on(session, request, now)
            elif isinstance(settled, Reason):
                response = unavailable(settled, session.id, now.wall_ms)
                by = {"kind": "gate_error", "reason": settled.text}
                self._answer(session, request.id, request, response._replace(decided_by=by), "gate_error", now)
            elif (barred := self._verdict(session, request)).action == "deny":
                response = by_record(barred, session.id, now.wall_ms)  # a rule that was written meanwhile
                self._answer(session, request.id, request, response, "auto_denied", now)
            else:
                allowed, reason = settled
                name = session.entry.name
                response = by_agent(approved=allowed, reason=reason, session=session.id, name=name, now=now.wall_ms)
                self._answer(session, request.id, request, response, "decided", now)

    def _open(self, session: Session, request: Request, how: Escalate | AskPerson, now: Now) -> None:
        decide = self.decides.get(session.id)
        if decide is None:
            return super()._open(session, request, how, now)
        if request.requester == session.id or (session.id, request.id) in self._asked:  # nobody allows his own ask
            return self._pass_on(session, request, now)
        self._asked.add((session.id, request.id))
        session.waiting[request.id] = request
        self._log("deciding", {"ask": request.id, "session": session.id, "requester": request.requester}, now)
        run = threading.Thread(
            target=self._run, args=(decide, session.id, request), name=f"decide {request.id}", daemon=True
        )
        try:
            run.start()
        except RuntimeError:  # no more threads: said so, not waited for
            self._outcomes.append((session.id, request, GATE_ERROR))
            self._wake()
        return None

    def _run(self, decide: Decide, session_id: str, request: Request) -> None:
        settled: Settled = GATE_ERROR
        try:
            settled = settle(decide(_shown(request, session_id)))
        except Exception:  # noqa: BLE001  whatever a program's own code raises is a denial, never an allow
            settled = GATE_ERROR
        finally:  # also for a thread that ends by SystemExit
            self._outcomes.append((session_id, request, settled))
            self._wake()

    def _pass_on(self, session: Session, request: Request, now: Now) -> None:
        """No opinion: the parent that serves (once), else a person, else the truth."""
        here = session.presence
        passed = (session.id, request.id) in self._passed
        presence = Presence(person=here.person, parent=here.parent and not passed)
        mode = self.elsewhere.get(session.id) or self._settings.mode
        how = open_question(request, session=session.id, mode=mode, presence=presence, now=now.wall_ms)
        if isinstance(how, Answer | Drop):
            mine = request.requester == session.id
            reason = own_session(session.id) if mine else no_opinion(session.id)
            response = unavailable(reason, session.id, now.wall_ms)
            return self._answer(session, request.id, request, response, "unavailable", now)
        if isinstance(how, Escalate):
            self._passed.add((session.id, request.id))
        return super()._open(session, request, how, now)

    def _settled(self, session: Session, ask_id: str, now: Now) -> None:
        self._asked.discard((session.id, ask_id))
        self._passed.discard((session.id, ask_id))
        super()._settled(session, ask_id, now)

    def _answer(
        self, session: Session, ask_id: str, request: Request | None, response: Response, event: str, now: Now
    ) -> None:
        self._asked.discard((session.id, ask_id))
        self._passed.discard((session.id, ask_id))
        super()._answer(session, ask_id, request, response, event, now)


def settle(verdict: object) -> Settled:
    """What `decide` has said. Only `True` itself allows; anything that is no verdict is a failure of the gate."""
    if verdict is None:
        return None
    if isinstance(verdict, bool):
        return verdict, None
    if isinstance(verdict, tuple) and len(verdict) == 2:
        allowed, reason = verdict
        if isinstance(allowed, bool) and (reason is None or isinstance(reason, str)):
            return allowed, reason or None
    return GATE_ERROR


def no_opinion(session_id: str) -> Reason:
    """The program decides nothing about it, and nobody else is there."""
    return Reason(
        "no_opinion",
        f"session '{session_id}' has no opinion on this permission request and nobody else is there to decide it; "
        "nobody has decided",
    )


def _shown(request: Request, session_id: str) -> Ask:
    cwd = (request.access_intent or {}).get("requesterCwd")
    return Ask(
        id=request.id,
        tool=request.surface or "",
        value=request.value if request.value is not None else request.message,
        agent=request.agent_name,
        requester=request.requester,
        session=session_id,
        cwd=cwd if isinstance(cwd, str) else None,
        input=request.ours.get("input"),
        hops=hops_of(request),
    )
