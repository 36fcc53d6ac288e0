"""The asks of pi children, inside their own keeper: from pi's folder to whom they are to ask, and the answer back.

Owns what it has passed on. Never removes a folder there, and stands back where a real pi serves. Never blocks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from msgspec import Struct

from supervisor.adapters.ask_files import AskFiles
from supervisor.core.answering import unavailable
from supervisor.core.ask_age import age_ms, asked
from supervisor.core.ask_reasons import TOO_LARGE, WITHDRAWN, Reason, expired, malformed, misaddressed
from supervisor.core.ask_wire import (
    MAX_BYTES,
    Malformed,
    Request,
    Response,
    encode_request,
    encode_response,
    parse_request,
    parse_response,
    valid_id,
)
from supervisor.core.asks import Answered, AskEvent, Done, Judged, LookedAt, Waiting, begin, step
from supervisor.core.entry import Entry, KeeperRef, WindingDown
from supervisor.core.errors import BadInput
from supervisor.core.ids import session_id
from supervisor.core.liveness import Now
from supervisor.core.pi import ASKED_VARIABLE, as_ours, as_pis
from supervisor.core.serving import Target
from supervisor.core.timing import MS, TICK_MS
from supervisor.runtime.ask_facts import AskFacts, AskParts, here_of
from supervisor.runtime.logs import warn
from supervisor.runtime.parts import Parts
from supervisor.runtime.pi_marks import Child, PiMarks, asks_by_files


class Relayed(Struct):
    """An ask of pi's that waits at one of our sessions."""

    request: Request
    state: Waiting


class PiChild(Child):
    """One of our pi agents, and what of its asks is under way."""

    relayed: dict[str, Relayed] = {}
    answered: set[str] = set()

    @property
    def is_ending(self) -> bool:
        """Whether it has been told to end."""
        state = self.entry.state
        return self.entry.want == "down" or (isinstance(state, WindingDown) and state.reason != "parent_lost")

    def is_asker(self, request: Request) -> bool:
        """Whether the agent itself asks, under any id that its session has had."""
        entry, context = self.entry, self.entry.agent.resume_context
        ids = {entry.session_id, entry.generation.session, context.provider_session_id if context else None}
        return request.requester in ids


class PiChildren:
    """`beat` renews the marks in pi's folders, `turn` takes what is new there and follows what was passed on."""

    def __init__(self, parts: Parts, asks: AskParts, keeper: KeeperRef) -> None:
        self._parts = parts
        self._asks = asks
        self._keeper = keeper
        self._facts = AskFacts(parts, asks)
        self._folders: dict[str, AskFiles] = {}
        self._children: dict[str, PiChild] = {}
        self._marks = PiMarks(parts, keeper, self._facts)

    # -- who, and the marks

    def beat(self, now: Now, entries: Iterable[Entry]) -> None:
        """Once a second, before any other work."""
        live = {e.entry_id: e for e in entries if asks_by_files(e)}
        for gone in set(self._children) - set(live):
            self._end(self._children.pop(gone))
        for entry_id, entry in live.items():
            child = self._children.get(entry_id)
            if child is None or child.entry.generation.nonce != entry.generation.nonce:
                if child is not None:
                    self._end(child)
                child = self._children[entry_id] = self._adopt(entry)
            child.entry = entry
            child.stamp = -1  # a folder's time is coarse, and a lost look costs a second, no more
            child.stands_back = self._marks.served_by_pi(child, now)
            self._forget_fetched(child)
        self._marks.renew(self._children.values(), now)

    def close(self) -> None:
        """A clean end: nothing of ours stays in pi's folders."""
        for child in self._children.values():
            self._end(child)
        self._children.clear()
        self._marks.renew((), self._parts.now())

    def _adopt(self, entry: Entry) -> PiChild:
        folder = entry.plan.asks_folder or ""
        files = self._folders.setdefault(folder, AskFiles(folder))
        process = entry.generation.process
        # what it was started with counts, not what is on record by now: a child that was adopted asks as before
        given = self._parts.processes.environment(process.key.pid).get(ASKED_VARIABLE) if process else None
        try:
            under = session_id(given or "")
        except BadInput:
            under = entry.parent.session_id if entry.parent else entry.agent.agent_id
        return PiChild(entry, files, under)

    # -- from pi's folder to our session

    def turn(self, now: Now) -> int | None:
        """Take what is new; the time (monotonic ns) to look again at, None without pi children."""
        for child in self._children.values():
            if child.stands_back:
                continue
            stamp = child.files.inbox_stamp(child.asked)
            if stamp != child.stamp:
                child.stamp = stamp
                self._take_new(child, now)
            for relayed in tuple(child.relayed.values()):
                self._follow(child, relayed, now)
        return now.monotonic_ns + TICK_MS * MS if self._children else None

    def _take_new(self, child: PiChild, now: Now) -> None:
        present = child.files.requests(child.asked)
        for gone in set(child.relayed) - set(present):
            self._withdraw(child.relayed.pop(gone))
        for ask_id in present:
            if ask_id in child.relayed or ask_id in child.answered:
                continue
            data = child.files.read_request(child.asked, ask_id)
            if data is not None:
                self._take(child, ask_id, parse_request(data, stem=ask_id), now)

    def _take(self, child: PiChild, ask_id: str, request: Request | Malformed, now: Now) -> None:
        if isinstance(request, Malformed):
            return self._refuse(child, ask_id, malformed(request.why), now)
        if not self._is_mine(child, request):
            return None
        if request.target != child.asked:
            return self._refuse(child, ask_id, misaddressed(request.target, child.asked), now)
        timeout_ms = self._asks.settings().timeout_ms
        # our own agent lives, and removes what it waits for no more: no clock need be believed
        if not child.is_asker(request) and age_ms(request, here_of(now)) > timeout_ms:
            return self._refuse(child, ask_id, expired(child.asked), now)
        return self._pass_on(child, request, timeout_ms, now)

    def _is_mine(self, child: PiChild, request: Request) -> bool:
        """Ours, or a stranger's (a subagent of pi's own) unless another serves; never that of another pi of ours."""
        if child.is_asker(request):
            return True
        other = self._facts.entry_of(request.requester)
        if other is not None and asks_by_files(other):
            return False
        return not self._marks.of_another(child, self._parts.now())

    def _pass_on(self, child: PiChild, request: Request, timeout_ms: int, now: Now) -> None:
        entry, target = child.entry, child.target
        mine = child.is_asker(request)
        made = as_ours(
            request,
            target=target,
            requester=entry.session_id if mine else request.requester,
            name=entry.name if mine else "unknown",
            cwd=entry.plan.cwd,
            ours={
                "bell": self._keeper.keeper_id,
                **({"process": _process(entry)} if mine else {}),
                "nonce": os.urandom(8).hex(),
                "hops": [],
                "asked": asked(here_of(now)),
                **({"taskRef": entry.task_ref} if entry.task_ref else {}),
            },
        )
        data = encode_request(made)
        if len(data) > MAX_BYTES:
            return self._refuse(child, request.id, TOO_LARGE, now)
        if self._is_taken(target, made):
            return self._refuse(child, request.id, malformed("its id is another ask's"), now)
        try:
            if not self._asks.files.has_response(target, request.id):
                self._asks.files.write_request(target, request.id, data)
        except OSError as error:
            why = f"the permission request could not be passed on: {error.strerror}"
            return self._refuse(child, request.id, Reason("write_failed", why), now)
        waiting = begin(Target(target, "entry"), timeout_ms=timeout_ms, now=now.monotonic_ns)
        child.relayed[request.id] = Relayed(request, waiting)
        self._log("relayed", child, request.id, {"to": target, "tool": request.surface}, now)
        beat = self._facts.beat_of(target)
        if beat is not None and beat.keeper_id:
            self._parts.bells.ring(beat.keeper_id)
        return None

    def _is_taken(self, target: str, request: Request) -> bool:
        """An id that another asker uses there: his question must not change under the eyes of whoever answers it."""
        data = self._asks.files.read_request(target, request.id)
        there = parse_request(data, stem=request.id) if data else None
        return isinstance(there, Request) and there.requester != request.requester

    # -- and the answer back

    def _follow(self, child: PiChild, relayed: Relayed, now: Now) -> None:
        request, target = relayed.request, relayed.state.target.session_id
        if child.is_ending:  # a pi that waits for an answer hears no TERM
            self._withdraw(child.relayed.pop(request.id))
            return self._refuse(child, request.id, WITHDRAWN, now)
        if target != child.target:  # it has a new parent: the ask goes there
            self._withdraw(child.relayed.pop(request.id))
            child.stamp = -1
            return None
        data = self._asks.files.read_response(target, request.id)
        event: AskEvent = (
            Answered(parse_response(data)) if data is not None else Judged(self._facts.serving(target, now))
        )
        state, _ = step(relayed.state, event, now=now.monotonic_ns)
        if isinstance(state, Waiting):
            looked = self._facts.claim(target, request.id, now) is not None
            state, _ = step(state, LookedAt(looked), now=now.monotonic_ns)
        if isinstance(state, Waiting):
            relayed.state = state
            return None
        assert isinstance(state, Done)
        responder = state.decision.responder or target
        response = as_pis(state.decision, request=request, responder=responder, now=now.wall_ms)
        if self._answer(child, request.id, response, now):
            del child.relayed[request.id]
            self._asks.files.remove_request(target, request.id)
            self._asks.files.remove_response(target, request.id)
        return None

    def _refuse(self, child: PiChild, ask_id: str, reason: Reason, now: Now) -> None:
        self._answer(child, ask_id, unavailable(reason, child.asked, now.wall_ms), now)

    def _answer(self, child: PiChild, ask_id: str, response: Response, now: Now) -> bool:
        """Into pi's folder; the first answer stands. False: the disk takes none, it is tried again at the next look."""
        if valid_id(ask_id):
            try:
                child.files.publish_response(child.asked, ask_id, encode_response(response))
            except OSError as error:
                warn("an answer could not be written into pi's folder, it is tried again", ask=ask_id, why=str(error))
                return False
            child.answered.add(ask_id)
        child.files.remove_request(child.asked, ask_id)
        fields = {"approved": response.approved, "by": response.decided_by, "reason": response.reason}
        self._log("relayed_back", child, ask_id, fields, now)
        return True

    # -- tidying

    def _withdraw(self, relayed: Relayed) -> None:
        """Its asker waits no more: so does nobody else."""
        target, ask_id = relayed.state.target.session_id, relayed.request.id
        self._asks.files.remove_request(target, ask_id)
        self._asks.files.remove_response(target, ask_id)

    def _forget_fetched(self, child: PiChild) -> None:
        child.answered = {a for a in child.answered if child.files.has_response(child.asked, a)}

    def _end(self, child: PiChild) -> None:
        """The agent is gone: its requests, and the answers that it has not fetched."""
        for relayed in child.relayed.values():
            self._withdraw(relayed)
        for ask_id in child.answered:
            child.files.remove_response(child.asked, ask_id)
        for ask_id in child.files.requests(child.asked):
            data = child.files.read_request(child.asked, ask_id)
            request = parse_request(data, stem=ask_id) if data else None
            if isinstance(request, Request) and child.is_asker(request):
                child.files.remove_request(child.asked, ask_id)

    def _log(self, event: str, child: PiChild, ask_id: str, fields: Mapping[str, object], now: Now) -> None:
        about = {"ask": ask_id, "session": child.asked, "requester": child.entry.session_id}
        self._asks.review.append(event, {**about, **fields}, at=now.wall_ms)


def _process(entry: Entry) -> dict[str, object]:
    process = entry.generation.process
    assert process is not None  # `asks_by_files`
    return {
        "hostId": process.machine.host_id,
        "bootId": process.machine.boot_id,
        "pidNamespace": process.machine.pid_namespace,
        "pid": process.key.pid,
        "startTicks": process.key.start_ticks,
    }
