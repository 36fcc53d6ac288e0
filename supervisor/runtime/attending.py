"""One open inbox among others: says that somebody attends, looks at what waits, claims and answers it.

Owns its presence mark and its claims; `leave` removes both. Asks and answers are the desk's.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from supervisor.adapters.inbox_files import ALL_SESSIONS
from supervisor.core.ask_wire import Request, hops_of, parse_request, valid_id
from supervisor.core.asks import SERVING_GRACE_MS
from supervisor.core.entry import Entry, KeeperRef, is_live
from supervisor.core.errors import BadInput
from supervisor.core.inbox import Answer, Answered, Ask
from supervisor.core.liveness import Now
from supervisor.core.text import one_line
from supervisor.core.timing import HEARTBEAT_REFRESH_MS, HEARTBEAT_STALE_MS, MS
from supervisor.runtime.ask_ends import why_gone
from supervisor.runtime.ask_facts import AskFacts, AskParts
from supervisor.runtime.deciding import Desk, Pending, person
from supervisor.runtime.parts import Parts
from supervisor.runtime.serving_marks import serving_beat

ABANDONED_MS = HEARTBEAT_STALE_MS + SERVING_GRACE_MS
"""Its session unserved so long, an asker has given up; what still lies there, it could not take back."""


class Scope(Struct, frozen=True):
    """What is attended: everything, one agent by its entry (its session may be switched inside its CLI), or a tree."""

    kind: Literal["all", "agent", "tree"] = "all"
    id: str = ALL_SESSIONS
    title: str = "all sessions"
    session: str = ""

    def sessions(self, entries: Sequence[Entry]) -> list[str] | None:
        """The sessions whose inboxes are looked at; None for all."""
        if self.kind == "all":
            return None
        if self.kind == "tree":
            return [e.session_id for e in entries if e.tree == self.id]
        return [next((e.session_id for e in entries if e.entry_id == self.id), self.session)]

    def mark(self, entries: Sequence[Entry]) -> str:
        """What the presence mark names."""
        sessions = self.sessions(entries) if self.kind == "agent" else None
        return sessions[0] if sessions else self.id


class Known(Struct):
    """An ask that was seen: as what, and how old it was then (a stepped wall clock ages nothing)."""

    request: Request
    ask: Ask
    age_ms: int
    since_ns: int


class Attending:
    """This inbox among the others: its mark, what waits for it, and its claims."""

    def __init__(self, parts: Parts, asks: AskParts, scope: Scope) -> None:
        me = parts.ref(os.getpid())
        assert me is not None  # we are alive
        self.me = KeeperRef(f"{me.key.pid}-{os.urandom(4).hex()}", me)
        self.entries: Sequence[Entry] = ()
        self.waiting: dict[int, Pending] = {}
        self.trouble = ""
        self._parts, self._asks, self._scope = parts, asks, scope
        self._desk, self._facts = Desk(parts, asks), AskFacts(parts, asks)
        self._known: dict[str, Known] = {}
        self._serial = 0
        self._claimed: dict[int, tuple[Pending, int]] = {}
        self._strangers: set[str] = set()
        self._stamp: object = None
        self._renew_at = self._look_at = self._rest_until = 0

    # -- presence

    def open(self) -> None:
        """The first mark, and every keeper is told; marks of dead inboxes are swept.

        Raises:
            OSError: the mark could not be written: children would be refused while somebody looks.
        """
        now = self._parts.now()
        for other in self._asks.inboxes.marks():
            if self._facts.judge(other, now).state == "dead_pid" and valid_id(other.keeper_id):
                self._asks.inboxes.leave(str(other.keeper_id))
        self.entries = self._parts.store.list()
        self._attend(now)
        self._ring_keepers()

    def renew(self, now: Now) -> None:
        """Once a second: who is there, and that we still are."""
        if now.monotonic_ns < self._renew_at:
            return
        self.entries = self._parts.store.list()
        try:
            self._attend(now)
            self.trouble = ""
        except OSError as error:
            self.trouble = f"agents do not see this inbox, its mark cannot be written: {error.strerror}"

    def is_over(self) -> bool:
        """Whether this is a tree's inbox, of which nobody lives any more, and nothing waits in it."""
        ours = [e for e in self.entries if e.tree == self._scope.id]
        return self._scope.kind == "tree" and bool(ours) and not self.waiting and not any(map(is_live, ours))

    def leave(self) -> None:
        """Nobody attends or looks here any more. May be repeated."""
        for key in tuple(self._claimed):
            self.unclaim(key)
        self._asks.inboxes.leave(self.me.keeper_id)
        self._ring_keepers()

    def _attend(self, now: Now) -> None:
        self._renew_at = now.monotonic_ns + HEARTBEAT_REFRESH_MS * MS
        run = os.path.join(self._parts.home, "run")
        if not os.path.isdir(run):  # a root that was moved away must not come back as an empty one
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), run)
        self._asks.inboxes.attend(self.me.keeper_id, serving_beat(self._scope.mark(self.entries), self.me, now))

    def _ring_keepers(self) -> None:
        for keeper_id in {e.keeper.keeper_id for e in self.entries if is_live(e)}:
            with contextlib.suppress(OSError):
                self._parts.bells.ring(keeper_id)

    # -- looking

    def look(self, now: Now, shown: int | None = None) -> Mapping[int, Pending] | None:
        """Look again when a folder, the beat or the shown ask says so: what has gone since, None when nothing changed.

        A look rests twice as long as it took: ten thousand asks leave time for keys.
        """
        sessions = self._scope.sessions(self.entries)
        files = self._asks.files
        stamp = [(s, files.inbox_stamp(s)) for s in (files.sessions() if sessions is None else sessions)]
        lost = shown is not None and self._is_lost(shown, now)
        due = stamp != self._stamp or now.monotonic_ns >= self._look_at
        if not lost and (not due or now.monotonic_ns < self._rest_until):
            return None
        self._stamp = stamp
        found = self._find(sessions, now)
        took = self._parts.clock.monotonic_ns() - now.monotonic_ns
        self._rest_until = now.monotonic_ns + 3 * took
        self._look_at = max(now.monotonic_ns + HEARTBEAT_REFRESH_MS * MS, self._rest_until)
        before, self.waiting = self.waiting, found
        gone = {key: item for key, item in before.items() if key not in found}
        return gone if gone or found.keys() != before.keys() else None

    def asks(self) -> tuple[Ask, ...]:
        """What waits, as the machine knows it."""
        return tuple(self._known[p.request.id].ask for p in self.waiting.values())

    def item(self, key: int, now: Now) -> Pending | None:
        """One ask with its age now."""
        item = self.waiting.get(key)
        return item and replace(item, age_ms=self._age_ms(self._known[item.request.id], now))

    def other(self, item: Pending | None) -> str:
        """Who else has it on the screen."""
        looked = item.looked_by if item else None
        return f"in another inbox (pid {looked.pid})" if looked and looked.keeper_id != self.me.keeper_id else ""

    def _find(self, sessions: Sequence[str] | None, now: Now) -> dict[int, Pending]:
        pending = self._desk.pending(sessions)
        if {p.request.requester for p in pending} - {e.session_id for e in self.entries} - self._strangers:
            self.entries = self._parts.store.list()  # an agent that has just been launched
        self._strangers = {p.request.requester for p in pending} - {e.session_id for e in self.entries}
        known = {p.request.id: self._recognised(p, now) for p in pending}
        self._known = known
        timeout = self._asks.settings().timeout_ms
        left = {s for s in {p.session_id for p in pending} if self._facts.serving(s, now).answer == "not_serving"}

        def is_alive(item: Pending) -> bool:
            """Litter is never put to a person: a dead asker's, one too old, or what a session that ended left."""
            age_ms = self._age_ms(known[item.request.id], now)
            given_up = age_ms > ABANDONED_MS if item.session_id in left else age_ms > timeout and not item.looked_by
            return not given_up and not item.asker_dead

        return {known[p.request.id].ask.key: p for p in pending if is_alive(p)}

    def _recognised(self, item: Pending, now: Now) -> Known:
        """The ask as it was known, unless anything that a person decides on is another: then it is another ask."""
        known = self._known.get(item.request.id)
        if known is not None and _same(known.request, item.request):
            return known
        self._serial += 1
        request = item.request
        label = f"{request.agent_name} {request.surface or ''} {request.value or request.message}"
        return Known(request, Ask(self._serial, one_line(label, 100)), item.age_ms, now.monotonic_ns)

    def _age_ms(self, known: Known, now: Now) -> int:
        return known.age_ms + (now.monotonic_ns - known.since_ns) // MS

    def _is_lost(self, key: int, now: Now) -> bool:
        item = self.waiting.get(key)
        return item is not None and (not self._desk.waits(item) or self._facts.requester_dead(item.request, now))

    def why_gone(self, items: Collection[Pending]) -> dict[str, str]:
        """What became of asks that wait no more, by id."""
        return why_gone(items, self._asks.files, self._asks.review)

    # -- acting

    def claim(self, key: int, now: Now) -> None:
        """Say that it is looked at, wherever it waits on its way here; another inbox's claim serves as well."""
        item = self.waiting.get(key)
        if item is None:
            return
        _, since = self._claimed.get(key, (item, 0))
        if not since:
            self._desk.log_claim(item, self.me, now)
        self._claimed[key] = (item, since or now.wall_ms)
        for place in self._places(item):
            other = self._facts.claim(place.session_id, item.request.id, now)
            ours = other is None or other.keeper_id == self.me.keeper_id
            if ours and self._desk.waits(place):
                self._desk.claim(place, self.me, now, since=since or now.wall_ms)

    def unclaim(self, key: int) -> None:
        """Take our claims back."""
        item, _ = self._claimed.pop(key, (None, 0))
        now = self._parts.now()
        for place in self._places(item) if item else ():
            claim = self._facts.claim(place.session_id, place.request.id, now)
            if claim is not None and claim.keeper_id == self.me.keeper_id:
                self._desk.unclaim(place)

    def answer(self, wanted: Answer) -> Answered:
        """Answer the ask that was on the screen, and nothing that has taken its place since."""
        item = self.waiting.get(wanted.key)
        if item is None:
            return self._answered(wanted, "gone", "it waits no more")
        session_id, ask_id = item.session_id, item.request.id
        data = self._asks.files.read_request(session_id, ask_id)
        found = parse_request(data, stem=ask_id) if data else None
        if found is not None and not (isinstance(found, Request) and _same(found, item.request)):
            return self._answered(wanted, "other_ask", "another ask has taken its place")
        try:
            outcome = self._desk.answer(
                item, approved=wanted.approved, reason=wanted.reason, remember=wanted.remember, who=person()
            )
        except BadInput as problem:
            return self._answered(wanted, "failed", problem.message)
        except OSError as error:
            why = error.strerror or str(error)
            if self._desk.waits(item):
                return self._answered(wanted, "failed", f"the answer could not be written ({why})")
            return self._answered(wanted, "applied", f"but it could not be remembered ({why})")
        what = "failed" if outcome.what == "denied_by_rule" else outcome.what
        return self._answered(wanted, what, outcome.detail)

    def _answered(
        self, wanted: Answer, what: Literal["applied", "already_answered", "gone", "other_ask", "failed"], detail: str
    ) -> Answered:
        return Answered(wanted.key, what, self._parts.clock.monotonic_ns(), detail)

    def _places(self, item: Pending) -> list[Pending]:
        """Where the ask lies: where it waits, and at the sessions that passed it on (the child looks at the first)."""
        ours = {e.session_id for e in self.entries}
        hops = [h for h in hops_of(item.request) if h in ours and h != item.session_id]
        return [item, *(replace(item, session_id=h) for h in hops)]


def _same(one: Request, other: Request) -> bool:
    """Whether a person decides on the same. Where it waits and whom to ring may differ."""
    return _decided_on(one) == _decided_on(other)


def _decided_on(request: Request) -> Request:
    ours = {k: v for k, v in request.ours.items() if k not in ("hops", "bell", "asked")}
    return request._replace(target="", ours=ours)
