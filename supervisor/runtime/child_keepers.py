"""Watching the keepers of our agents' children: one that is killed is replaced at once, not at the next scan.

Owns the watches; starts nothing itself. On Linux a keeper launched below us is our child anyway (we are a subreaper);
this also covers those launched elsewhere with `--parent`.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from supervisor.core.entry import is_live
from supervisor.core.identity import Gone, ProcessKey, same_process
from supervisor.core.liveness import Now, comparable
from supervisor.core.timing import HEARTBEAT_REFRESH_MS, MS
from supervisor.runtime.logs import warn
from supervisor.runtime.parts import Parts, Watches


class ChildKeepers:
    """`look_soon` when a bell said that something is new."""

    def __init__(self, parts: Parts, watches: Watches) -> None:
        self._parts = parts
        self._watches = watches
        self._keys: dict[int, ProcessKey] = {}
        self._polled: set[ProcessKey] = set()
        self._looked: int | None = None
        self.look_soon = False

    def is_watched(self, fd: int) -> bool:
        """Whether this descriptor stands for a child's keeper."""
        return fd in self._keys

    def was_killed(self, fd: int) -> bool:
        """A watched keeper is gone: whether it was killed (a clean end leaves no heartbeat)."""
        key = self._keys.pop(fd)
        self._watches.forget(fd)
        self._parts.exit_watch.forget(key)
        return key.pid in self._parts.beats.owners()

    def polled_deaths(self) -> bool:
        """Whether a keeper that cannot be watched was killed; for systems without exit watches."""
        dead = {key for key in self._polled if self._is_gone(key)}
        self._polled -= dead
        return bool({k.pid for k in dead} & self._parts.beats.owners().keys()) if dead else False

    def _is_gone(self, key: ProcessKey) -> bool:
        seen = self._parts.processes.probe(key.pid)
        return isinstance(seen, Gone) or (isinstance(seen, ProcessKey) and not same_process(key, seen))

    def look(self, now: Now, sessions: Callable[[], Set[str]], me: str) -> bool:
        """Find the keepers of children: when rung (at most once a refresh), and at the slow poll.

        True when one is found dead already.
        """
        if self._looked is None:
            self._looked = now.monotonic_ns
        waited = now.monotonic_ns - self._looked
        if not (self.look_soon and waited >= HEARTBEAT_REFRESH_MS * MS) and waited < (
            self._parts.limits.watcher_poll_ms * MS
        ):
            return False
        self._looked = now.monotonic_ns
        self.look_soon = False
        try:
            entries = self._parts.store.list()
        except OSError as error:
            warn("records could not be read, they are read again", why=str(error))
            return False
        known = set(self._keys.values()) | self._polled
        dead = False
        ours = sessions()
        for entry in entries:
            if not is_live(entry) or entry.parent is None or entry.parent.session_id not in ours:
                continue
            ref = entry.keeper.process
            if entry.keeper.keeper_id == me or ref.key in known or not comparable(ref.machine, now.machine):
                continue
            known.add(ref.key)
            fd = self._parts.exit_watch.watch(ref.key)
            if fd is not None:
                self._keys[fd] = ref.key
                self._watches.watch(fd)
            elif self._is_gone(ref.key):
                dead = True
            else:
                self._polled.add(ref.key)
        return dead
