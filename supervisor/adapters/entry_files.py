"""The process matrix as files: one per entry, compare-and-swap under a sidecar flock. Owns `<home>/process-matrix`.

A write is atomic and visible at once (it survives the death of its writer); `sync` makes all writes since the last
one durable against power failure, so that a hundred starts cost one group of fsyncs. It decides nothing.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from supervisor.adapters.atomic_file import locked, read_bounded, sync_file, sync_folder, write_atomic
from supervisor.adapters.codec import Unreadable, decode_entry, encode_entry
from supervisor.core.entry import Entry
from supervisor.core.ports import Conflict

LOCKS = 16  # a bounded set of lock files: they are never unlinked, so there must not be one per session


class EntryFiles:
    """`EntryStore` over a folder. `corrupt` lists what was set aside or could not be read, as (file, reason)."""

    def __init__(self, folder: str, locks: str) -> None:
        self._folder = folder
        self._locks = locks
        self._unsynced: set[str] = set()
        self._stamps: dict[str, tuple[int, int]] = {}
        self.corrupt: list[tuple[str, str]] = []

    def path(self, key: str) -> str:
        """The file of one entry."""
        return os.path.join(self._folder, f"{key}.json")

    def list(self) -> Sequence[Entry]:
        """Every readable entry; a corrupt one is set aside once and harms no other."""
        try:
            names = [f.name for f in os.scandir(self._folder) if f.name.endswith(".json") and f.name[0] != "."]
        except FileNotFoundError:
            return ()
        found = (self._load(os.path.join(self._folder, n)) for n in names)
        return [e for e in found if e is not None]

    def read(self, key: str) -> Entry | None:
        """One entry as it is now."""
        path = self.path(key)
        stamp = _stamp(path)
        entry = self._load(path)
        if stamp:
            self._stamps[key] = stamp
        return entry

    def create(self, entry: Entry) -> Conflict | None:
        """Register; refused when a record of this role and session exists."""
        with self._lock(entry.key):
            current = self._load(self.path(entry.key))
            if current is not None or os.path.lexists(self.path(entry.key)):  # also one that only later versions read
                return Conflict(current)
            self._write(entry.key, encode_entry(entry))
        return None

    def replace_if_unchanged(self, expected: Entry, after: Entry) -> Entry | Conflict:
        """Land only if revision and generation on disk are the expected ones; returns the entry as written."""
        key = expected.key
        with self._lock(key):
            raw = self._bytes(self.path(key))
            current = self._decoded(self.path(key), raw)
            if raw is None or current is None or not _unchanged(current, expected):
                return Conflict(current)
            written = replace(after, revision=expected.revision + 1)
            self._write(key, encode_entry(written, over=raw))
        return written

    def remove_if_unchanged(self, expected: Entry) -> bool:
        """Remove the record if it is still the expected one."""
        path = self.path(expected.key)
        with self._lock(expected.key):
            current = self._load(path)
            if current is None or not _unchanged(current, expected):
                return False
            os.unlink(path)
        self._stamps.pop(expected.key, None)
        return True

    def changed(self, entries: Iterable[Entry]) -> Sequence[str]:
        """The keys whose files are not the ones last read or written by this store."""
        return [e.key for e in entries if _stamp(self.path(e.key)) != self._stamps.get(e.key)]

    def sync(self) -> None:
        """Make every write since the last call durable.

        Raises:
            OSError: those not synced stay marked.
        """
        if not self._unsynced:
            return
        for key in tuple(self._unsynced):
            sync_file(self.path(key))
        sync_folder(self._folder)
        self._unsynced.clear()

    def _write(self, key: str, data: bytes) -> None:
        path = self.path(key)
        write_atomic(path, data)
        self._unsynced.add(key)
        stamp = _stamp(path)
        if stamp:
            self._stamps[key] = stamp

    @contextlib.contextmanager
    def _lock(self, key: str) -> Iterator[None]:
        with locked(os.path.join(self._locks, f"{zlib.crc32(key.encode()) % LOCKS:02x}")):
            yield

    def _load(self, path: str) -> Entry | None:
        return self._decoded(path, self._bytes(path))

    def _bytes(self, path: str) -> bytes | None:
        try:
            return read_bounded(path)
        except OSError as error:
            self.corrupt.append((path, error.strerror or str(error)))
            return None

    def _decoded(self, path: str, data: bytes | None) -> Entry | None:
        if data is None:
            return None
        try:
            return decode_entry(data)
        except Unreadable as error:
            if not error.newer:
                self._set_aside(path, data)
            self.corrupt.append((path, error.reason))
            return None

    def _set_aside(self, path: str, data: bytes) -> None:
        """Unless it was replaced by a good record meanwhile."""
        with contextlib.suppress(OSError):
            if self._bytes(path) == data:
                os.rename(path, f"{path}.corrupt")


def _unchanged(current: Entry, expected: Entry) -> bool:
    return (current.revision, current.entry_id, current.generation.nonce) == (
        expected.revision,
        expected.entry_id,
        expected.generation.nonce,
    )


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        seen = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return seen.st_ino, seen.st_mtime_ns
