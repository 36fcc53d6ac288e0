"""The process matrix in memory, with compare-and-swap as the files have it. Owns its records; safe in threads."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from supervisor.core.entry import Entry
from supervisor.core.ports import Conflict
from supervisor.core.transitions import wanted_down


class _Disk:
    """What several stores share: records with the number of their last write, and whether writing works."""

    def __init__(self) -> None:
        self.records: dict[str, tuple[Entry, int]] = {}
        self.lock = threading.Lock()
        self.writes = 0
        self.broken: OSError | None = None
        self.removed = False


class MemoryStore:
    """`EntryStore`. `another` is the same matrix as another process sees it: with its own idea of what has changed."""

    def __init__(self) -> None:
        self._disk = _Disk()
        self._seen: dict[str, int] = {}
        self.unsynced: set[str] = set()

    def another(self) -> MemoryStore:
        """A second store over the same records."""
        other = MemoryStore()
        other._disk = self._disk
        return other

    def break_writes(self, error: OSError) -> None:
        """From now on every write, removal and sync fails, for every store over these records."""
        self._disk.broken = error

    def mend(self) -> None:
        """Writes work again."""
        self._disk.broken = None
        self._disk.removed = False

    def remove(self, error: OSError) -> None:
        """The records are removed, and what they were in: every write fails."""
        self._disk.records.clear()
        self._disk.removed = True
        self._disk.broken = error

    @property
    def broken(self) -> OSError | None:
        """Why writes fail, if they do."""
        return self._disk.broken

    @property
    def writes(self) -> int:
        """How many writes have landed."""
        return self._disk.writes

    def list(self) -> Sequence[Entry]:
        """Every entry."""
        with self._disk.lock:
            return [entry for entry, _ in self._disk.records.values()]

    def read(self, key: str) -> Entry | None:
        """One entry as it is now."""
        with self._disk.lock:
            found = self._disk.records.get(key)
            if found is None:
                return None
            self._seen[key] = found[1]
            return found[0]

    def create(self, entry: Entry) -> Conflict | None:
        """Register; refused when a record of this role and session exists."""
        with self._disk.lock:
            found = self._disk.records.get(entry.key)
            if found is not None:
                return Conflict(found[0])
            self._write(entry.key, entry)
            return None

    def replace_if_unchanged(self, expected: Entry, after: Entry) -> Entry | Conflict:
        """Land only if revision and generation are the expected ones; returns the entry as written."""
        with self._disk.lock:
            current = self._current(expected.key)
            if current is None or not _unchanged(current, expected):
                return Conflict(current)
            written = replace(after, revision=expected.revision + 1)
            self._write(expected.key, written)
            return written

    def want_down(self, expected: Entry, *, grace_ms: int | None) -> Entry | Conflict:
        """The same entry, wanted down."""
        return self.replace_if_unchanged(expected, wanted_down(expected, grace_ms=grace_ms))

    def touch(self, expected: Entry, heartbeat_at: int) -> Entry | None:
        """Renew `heartbeatAt` without a new revision; None when it is not the expected record any more."""
        self._refuse_when_broken()
        with self._disk.lock:
            current = self._current(expected.key)
            if current is None or not _unchanged(current, expected):
                return None
            touched = replace(expected, heartbeat_at=heartbeat_at)
            self._disk.records[expected.key] = (touched, self._disk.records[expected.key][1])
            self._disk.writes += 1
            return touched

    def remove_if_unchanged(self, expected: Entry) -> bool:
        """Remove the record if it is still the expected one."""
        with self._disk.lock:
            current = self._current(expected.key)
            if current is None or not _unchanged(current, expected):
                return False
            self._refuse_when_broken()
            del self._disk.records[expected.key]
            self._seen.pop(expected.key, None)
            return True

    def stamp(self) -> int:
        """Counts the writes; old enough to be told from the next one."""
        return self.writes

    def changed(self, entries: Iterable[Entry]) -> Sequence[str]:
        """The keys whose records are not the ones last read or written by this store."""
        with self._disk.lock:
            numbers = {key: number for key, (_, number) in self._disk.records.items()}
        return [e.key for e in entries if numbers.get(e.key) != self._seen.get(e.key)]

    def removed(self) -> bool:
        """Whether the test has removed all of it."""
        return self._disk.removed

    def sync(self) -> None:
        """Make every write since the last call durable."""
        self._refuse_when_broken()
        self.unsynced.clear()

    def _current(self, key: str) -> Entry | None:
        found = self._disk.records.get(key)
        return found[0] if found else None

    def _write(self, key: str, entry: Entry) -> None:
        self._refuse_when_broken()
        self._disk.writes += 1
        self._disk.records[key] = (entry, self._disk.writes)
        self._seen[key] = self._disk.writes
        self.unsynced.add(key)

    def _refuse_when_broken(self) -> None:
        if self._disk.broken is not None:
            raise self._disk.broken


def _unchanged(current: Entry, expected: Entry) -> bool:
    return (current.revision, current.entry_id, current.generation.nonce) == (
        expected.revision,
        expected.entry_id,
        expected.generation.nonce,
    )
