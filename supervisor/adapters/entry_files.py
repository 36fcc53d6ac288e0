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
from supervisor.adapters.stop_wishes import SUFFIX, StopWish, applied, drop_wish, is_for, read_wish, write_wish
from supervisor.core import transitions
from supervisor.core.entry import Entry
from supervisor.core.ports import Conflict

_HEARTBEAT = b'\n "heartbeatAt": '
LOCKS = 16  # a bounded set of lock files: they are never unlinked, so there must not be one per session


class EntryFiles:
    """`EntryStore` over a folder. `corrupt` lists what was set aside or could not be read, as (file, reason)."""

    def __init__(self, folder: str, locks: str) -> None:
        self._folder = folder
        self._locks = locks
        self._fd: int | None = None
        self._unsynced: set[str] = set()
        self._stamps: dict[str, tuple[int, int]] = {}
        self._written: dict[str, tuple[int, tuple[int, str, str]]] = {}
        self.corrupt: list[tuple[str, str]] = []

    def path(self, key: str) -> str:
        """The file of one entry."""
        return os.path.join(self._folder, f"{key}.json")

    def list(self) -> Sequence[Entry]:
        """Every readable entry; a corrupt one is set aside once and harms no other."""
        try:
            names = [f.name for f in os.scandir(self._folder) if f.name[0] != "."]
        except FileNotFoundError:
            return ()
        wished = {n.removesuffix(SUFFIX) for n in names if n.endswith(SUFFIX)}
        records = (n for n in names if n.endswith(".json"))
        found = (self._load(os.path.join(self._folder, n), wished=n[:-5] in wished) for n in records)
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
            drop_wish(self.path(entry.key))  # of a record that was set aside
            data = encode_entry(entry)
            self._write(entry.key, data)
            self._written[entry.key] = hash(data), _identity(entry)
        return None

    def replace_if_unchanged(self, expected: Entry, after: Entry) -> Entry | Conflict:
        """Land only if revision and generation on disk are the expected ones; returns the entry as written."""
        with self._lock(expected.key):
            return self._replace(expected, after)

    def want_down(self, expected: Entry, *, grace_ms: int | None) -> Entry | Conflict:
        """`replace_if_unchanged` by the same entry wanted down, for a tenth of the cost: a wish beside the record."""
        down = transitions.wanted_down(expected, grace_ms=grace_ms)
        path = self.path(expected.key)
        with self._lock(expected.key):
            current = self._load(path, wished=False)
            if current is None or not _unchanged(current, expected):  # perhaps by an earlier wish
                return self._replace(expected, down)
            write_wish(path, current, grace_ms)
            self._stamp(expected.key)
        return replace(down, revision=expected.revision + 1)

    def touch(self, expected: Entry, heartbeat_at: int) -> Entry | None:
        """Renew `heartbeatAt` in place: 13 digits for 13 digits, a tenth of the cost of a new file.

        Only in a file that this store wrote itself and that is unchanged since; no new revision, never fsynced.
        """
        path = self.path(expected.key)
        digits = str(heartbeat_at).encode()
        with self._lock(expected.key):
            raw = self._bytes(path)
            if raw is None or not self._is_own(raw, expected, read_wish(path)):
                return None
            start = raw.find(_HEARTBEAT) + len(_HEARTBEAT)
            end = raw.find(b",", start)
            if start < len(_HEARTBEAT) or end - start != len(digits):
                return None
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                os.pwrite(fd, digits, start)
            finally:
                os.close(fd)
            self._stamp(expected.key)
        _, held = self._written[expected.key]
        self._written[expected.key] = hash(raw[:start] + digits + raw[end:]), held
        return replace(expected, heartbeat_at=heartbeat_at)

    def remove_if_unchanged(self, expected: Entry) -> bool:
        """Remove the record if it is still the expected one."""
        path = self.path(expected.key)
        with self._lock(expected.key):
            current = self._load(path)
            if current is None or not _unchanged(current, expected):
                return False
            os.unlink(path)
            drop_wish(path)
        self._stamps.pop(expected.key, None)
        self._written.pop(expected.key, None)
        return True

    def changed(self, entries: Iterable[Entry]) -> Sequence[str]:
        """The keys whose files are not the ones last read or written by this store."""
        return [e.key for e in entries if _stamp(self.path(e.key)) != self._stamps.get(e.key)]

    def stamp(self) -> int:
        """When any record was last written, by anybody (epoch ns; they change by rename); 0 when it cannot be told."""
        try:
            return os.stat(self._folder).st_mtime_ns
        except OSError:
            return 0

    def removed(self) -> bool:
        """Whether the folder written into was removed, and none is at its place: one moved away has still a link."""
        if self._fd is None or os.fstat(self._fd).st_nlink:
            return False
        return not os.path.lexists(self._folder)

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

    def _replace(self, expected: Entry, after: Entry) -> Entry | Conflict:
        """The lock is held."""
        key = expected.key
        path = self.path(key)
        raw = self._bytes(path)
        wish = read_wish(path)
        own = raw is not None and self._is_own(raw, expected, wish)
        current = expected if own else self._decoded(path, raw)
        if current is not None and not own:
            current = applied(current, wish)
        if raw is None or current is None or not _unchanged(current, expected):
            return Conflict(current)
        written = replace(after, revision=expected.revision + 1)
        plain = encode_entry(written)
        data = plain if own else encode_entry(written, over=raw)
        self._write(key, data)
        if wish is not None:
            drop_wish(path)
        if data == plain:  # nothing in it that this version does not know
            self._written[key] = hash(data), _identity(written)
        else:
            self._written.pop(key, None)
        return written

    def _is_own(self, raw: bytes, expected: Entry, wish: StopWish | None) -> bool:
        """Whether the file is what this store wrote last, so that `expected` is what is in it (with the wish)."""
        known, held = self._written.get(expected.key, (None, None))
        if held is None or known != hash(raw):
            return False
        if wish is not None and is_for(wish, *held):
            held = held[0] + 1, *held[1:]
        return held == _identity(expected)

    def _write(self, key: str, data: bytes) -> None:
        write_atomic(self.path(key), data)
        self._hold()
        self._unsynced.add(key)
        self._stamp(key)

    def _hold(self) -> None:
        """Keep hold of the folder, to see its removal; of the one made anew after that."""
        if self._fd is not None and not os.fstat(self._fd).st_nlink:
            os.close(self._fd)
            self._fd = None
        if self._fd is None:
            with contextlib.suppress(OSError):
                self._fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def _stamp(self, key: str) -> None:
        """This is how we know the record."""
        stamp = _stamp(self.path(key))
        if stamp:
            self._stamps[key] = stamp

    @contextlib.contextmanager
    def _lock(self, key: str) -> Iterator[None]:
        with locked(os.path.join(self._locks, f"{zlib.crc32(key.encode()) % LOCKS:02x}")):
            yield

    def _load(self, path: str, *, wished: bool = True) -> Entry | None:
        wish = read_wish(path) if wished else None  # first: a record that has taken it in meanwhile is a later one
        entry = self._decoded(path, self._bytes(path))
        return entry and applied(entry, wish)

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


def _identity(entry: Entry) -> tuple[int, str, str]:
    return entry.revision, entry.entry_id, entry.generation.nonce


def _unchanged(current: Entry, expected: Entry) -> bool:
    return _identity(current) == _identity(expected)


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        seen = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return seen.st_ino, seen.st_mtime_ns
