"""The watch of a keeper over the parents of its workers: learned in milliseconds, looked at again by the slow poll.

Owns the watches of foreign parents; those kept by this very keeper are looked at in memory. What is decided about a
worker is `core.parent_loss`'s, what is done about it `runtime.orphanhood`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from msgspec import Struct

from supervisor.core.entry import Adopted, Entry, ParentRef, Running, as_parent, is_live
from supervisor.core.identity import Gone, ProcessKey, same_process
from supervisor.core.ids import encode
from supervisor.core.liveness import Now, Sighting, comparable, watched
from supervisor.core.parent_loss import Held, Lost, Parent, judge_parent, stale_after_ms
from supervisor.core.timing import HEARTBEAT_REFRESH_MS, HEARTBEAT_STALE_MS, MS, TICK_MS
from supervisor.runtime.kept_agent import KeptAgent
from supervisor.runtime.logs import warn
from supervisor.runtime.orphanhood import Orphanhood
from supervisor.runtime.parts import Parts, Watches
from supervisor.runtime.scan import judge_all

_FIRST_RETRY_MS = 2
"""A dead parent's keeper records the end within milliseconds; each further look waits twice as long, up to a tick."""


class _Watched(Struct):
    """One foreign parent session, and what is known of it."""

    found: Parent
    due: int = 0
    key: ProcessKey | None = None
    fd: int | None = None
    keeper_id: str | None = None
    sighting: Sighting | None = None
    dead_since: int | None = None
    retry_ms: int = _FIRST_RETRY_MS
    call_at: int | None = None

    @property
    def silent_ms(self) -> float:
        """How long its keeper has not been seen beating."""
        return self.sighting.silent_ms if self.sighting else 0.0


class ParentWatch:
    """`turn` is one pass, after the agents' own; `beat` once a second; `heard` for a readable descriptor."""

    def __init__(
        self, parts: Parts, watches: Watches, *, call_scan: Callable[[], None], tell: Callable[[Entry], None]
    ) -> None:
        self._parts = parts
        self._watches = watches
        self._call_scan = call_scan
        self._tell = tell
        self._parents: dict[str, _Watched] = {}
        self._orphans: dict[str, Orphanhood] = {}
        limits = parts.limits
        self._bound_ms = stale_after_ms(heartbeat_ms=limits.heartbeat_ms, watcher_poll_ms=limits.watcher_poll_ms)

    def heard(self, fd: int) -> bool:
        """A watched parent has ended: it is looked at in this turn. False when the descriptor is none of ours."""
        for parent in self._parents.values():
            if parent.fd == fd:
                self._forget(parent)
                parent.due = 0
                return True
        return False

    def beat(self, now: Now) -> None:
        """Whether the parents' keepers beat, and those live that cannot be watched."""
        for parent in self._parents.values():
            if parent.keeper_id is not None:
                seen = self._parts.beats.read(parent.keeper_id)
                parent.sighting = watched(parent.sighting, beat=seen.beat if seen else 0, now_ns=now.monotonic_ns)
                if parent.silent_ms >= HEARTBEAT_STALE_MS:
                    parent.due = 0
            if parent.fd is None and parent.key is not None and self._is_gone(parent.key):
                parent.due = 0

    def turn(self, now: Now, agents: Sequence[KeptAgent]) -> int | None:
        """Every worker learns what has become of its parent; the monotonic time (ns) to come back at."""
        ours = {a.entry.session_id: a for a in agents if not a.record.lost}
        times: list[int] = []
        wanted: set[str] = set()
        for agent in agents:
            ref = agent.entry.parent
            if ref is None or not agent.minds_parent:
                continue
            sibling = ours.get(ref.session_id)
            if sibling is not None:
                found = self._of_sibling(ref, sibling.entry, now)
            else:
                wanted.add(ref.session_id)
                found = self._of_foreign(ref, now, adopted=isinstance(agent.entry.state, Adopted))
            due = self._step(agent, found, now)
            if due is not None:
                times.append(due)
        self._drop(wanted, {a.entry.key for a in agents})
        times.extend(p.due for p in self._parents.values())
        return min(times, default=None)

    def _step(self, agent: KeptAgent, parent: Parent, now: Now) -> int | None:
        orphanhood = self._orphans.get(agent.entry.key)
        if orphanhood is None:
            if (
                isinstance(parent, Held)
                and parent.lives == agent.entry.parent
                and isinstance(agent.entry.state, Running)
            ):
                return None  # nearly always
            orphanhood = self._orphans[agent.entry.key] = Orphanhood(self._parts, self._tell)
        if isinstance(parent, Lost):
            agent.last_look(now)
        before = agent.entry
        due = orphanhood.step(agent.record, parent, now)
        if agent.entry is not before:
            agent.at_rest = False
            return now.monotonic_ns
        return due

    def _of_sibling(self, ref: ParentRef, entry: Entry, now: Now) -> Parent:
        """A parent of this keeper: nobody knows better how it is."""
        if is_live(entry):
            return Held(as_parent(entry) if entry.generation.process else None)
        return judge_parent(
            ref, entry, judged=None, seen=None, silent_ms=0, dead_ms=0, bound_ms=self._bound_ms, now=now
        )

    def _of_foreign(self, ref: ParentRef, now: Now, *, adopted: bool) -> Parent:
        parent = self._parents.get(ref.session_id)
        if parent is None:
            parent = self._parents[ref.session_id] = _Watched(Held())
        # who adopts may be the very session that was lost before: it has been resumed meanwhile
        if now.monotonic_ns >= parent.due or (adopted and isinstance(parent.found, Lost)):
            try:
                self._look(parent, ref, now)
            except OSError as error:
                warn("a parent's record could not be read, it is read again", session=ref.session_id, why=str(error))
                parent.due = now.monotonic_ns + HEARTBEAT_REFRESH_MS * MS
        return parent.found

    def _look(self, parent: _Watched, ref: ParentRef, now: Now) -> None:
        """Judge it afresh by what is on record of its session, and see to the next look."""
        entry = self._recorded(ref.session_id)
        judged = None
        if entry is not None:
            if entry.keeper.keeper_id != parent.keeper_id:
                parent.keeper_id, parent.sighting = entry.keeper.keeper_id, None
            beats = {entry.keeper.keeper_id: self._parts.beats.read(entry.keeper.keeper_id)}
            judged = judge_all(self._parts, [entry], beats)[entry.entry_id]
        named = ref.process.key.pid if ref.process and entry is None else None
        dead_ms = 0 if parent.dead_since is None else (now.monotonic_ns - parent.dead_since) / MS
        found = parent.found = judge_parent(
            ref,
            entry,
            judged=judged,
            seen=self._parts.processes.probe(named) if named is not None else None,
            silent_ms=parent.silent_ms,
            dead_ms=dead_ms,
            bound_ms=self._bound_ms,
            now=now,
        )
        # one that is not on record is known by the process alone that the worker's own record names
        lives = (ref if entry is None else found.lives) if isinstance(found, Held) else None
        self._watch(parent, lives, now)
        parent.due = now.monotonic_ns + self._wait_ms(parent, found, now) * MS

    def _wait_ms(self, parent: _Watched, found: Parent, now: Now) -> int:
        settles = isinstance(found, Held) and found.settles
        if not settles:
            parent.dead_since, parent.retry_ms = None, _FIRST_RETRY_MS
        elif parent.dead_since is None:
            parent.dead_since = now.monotonic_ns
        if isinstance(found, Held) and found.scan:
            return self._have_scanned(parent, now)
        parent.call_at = None
        if settles:
            wait, parent.retry_ms = parent.retry_ms, min(parent.retry_ms * 2, TICK_MS)
            return wait
        return self._parts.limits.watcher_poll_ms

    def _have_scanned(self, parent: _Watched, now: Now) -> int:
        """It wants a keeper: a scan is called when nobody else has given it one for a tick, and at the slow poll."""
        if parent.call_at is None:
            parent.call_at = now.monotonic_ns + TICK_MS * MS
        elif now.monotonic_ns >= parent.call_at:
            self._call_scan()
            parent.call_at = now.monotonic_ns + self._parts.limits.watcher_poll_ms * MS
        return TICK_MS if parent.call_at - now.monotonic_ns <= TICK_MS * MS else HEARTBEAT_REFRESH_MS

    def _recorded(self, session: str) -> Entry | None:
        found = [e for role in ("worker", "master") if (e := self._parts.store.read(f"{role}-{encode(session)}"))]
        return max(found, key=lambda e: (is_live(e), e.started_at), default=None)

    def _watch(self, parent: _Watched, lives: ParentRef | None, now: Now) -> None:
        process = lives.process if lives else None
        key = process.key if process and comparable(process.machine, now.machine) else None
        if key == parent.key:
            return
        self._forget(parent)
        parent.key = key
        if key is not None:
            parent.fd = self._parts.exit_watch.watch(key)
            if parent.fd is not None:
                self._watches.watch(parent.fd)

    def _forget(self, parent: _Watched) -> None:
        if parent.fd is not None:
            self._watches.forget(parent.fd)
        if parent.key is not None:
            self._parts.exit_watch.forget(parent.key)
        parent.fd = parent.key = None

    def _is_gone(self, key: ProcessKey) -> bool:
        seen = self._parts.processes.probe(key.pid)
        return isinstance(seen, Gone) or (isinstance(seen, ProcessKey) and not same_process(key, seen))

    def _drop(self, sessions: Set[str], keys: Set[str]) -> None:
        for session in self._parents.keys() - sessions:
            self._forget(self._parents.pop(session))
        for key in self._orphans.keys() - keys:
            del self._orphans[key]
