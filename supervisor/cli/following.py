"""Following one transcript: reads on from where it was, also across the cap's truncation; woken by watchdog or a poll.

Owns no file. The record says when it is over.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from supervisor.adapters.clock import pause
from supervisor.adapters.transcripts import read_from
from supervisor.core.timing import HEARTBEAT_REFRESH_MS, MS, TICK_MS

if TYPE_CHECKING:
    from supervisor.core.entry import Entry
    from supervisor.runtime.compose import Context

_CHUNK = 64 * 1024
_SETTLE_LOOKS, _SETTLE_S = 50, 0.02  # a second: between truncation and the kept half are milliseconds on a good disk
_NEEDLE = 512  # bytes before our place: as good as unique in real output, and cheap to compare at each read


class Reader:
    """Reads a file from `offset` on. The bytes before it are remembered: they tell whether the file was cut since."""

    def __init__(self, path: str, offset: int) -> None:
        self._path = path
        start = max(offset - _NEEDLE, 0)
        self._before, self._offset = read_from(path, start, offset - start) if offset else (b"", 0)

    def read(self) -> bytes:
        """What was appended; empty when there is nothing (yet)."""
        before = self._before
        data, end = read_from(self._path, self._offset - len(before), len(before) + _CHUNK)
        if not data.startswith(before):
            place = self._settled()
            if place is None:  # ours is among what was dropped: go on with what is there, its mark says so
                before = b""
            data, end = read_from(self._path, (place or 0) - len(before), len(before) + _CHUNK)
        self._offset, self._before = end, data[-_NEEDLE:]
        return data[len(before) :]

    def _settled(self) -> int | None:
        """Our place, looked for while the keeper writes the kept half back."""
        for _ in range(_SETTLE_LOOKS):
            place = self._find()
            if place is not None:
                return place
            pause(_SETTLE_S)
        return None

    def _find(self) -> int | None:
        """The place behind the remembered bytes in the file as it is now."""
        at, rest = 0, b""
        while True:
            data, following = read_from(self._path, at, _CHUNK)
            if not data or following <= at:
                return None
            window = rest + data
            hit = window.find(self._before)
            if hit >= 0:
                return at - len(rest) + hit + len(self._before)
            rest = window[-_NEEDLE:]
            at = following


def size_of(path: str) -> int:
    """Bytes; none when there is no file."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


class Ending:
    """Whether an agent has ended: by its record, or provably dead with nobody left to record it."""

    def __init__(self, context: Context, entry: Entry) -> None:
        self._context = context
        current = context.store.read(entry.key)
        self._entry = current or entry
        self._removed = current is None
        self._look_at = 0

    def seen(self) -> bool:
        """Look again: a stat each time, the processes once a second."""
        from supervisor.core.entry import is_live

        current: Entry | None = self._entry
        if self._context.store.changed([self._entry]):
            current = self._context.store.read(self._entry.key)
        if self._removed or current is None or current.entry_id != self._entry.entry_id:
            return True
        self._entry = current
        return not is_live(current) or self._lost()

    def _lost(self) -> bool:
        from supervisor.core.liveness import Verdict
        from supervisor.runtime.scan import judge_all

        now = self._context.clock.monotonic_ns()
        if now < self._look_at:
            return False
        self._look_at = now + HEARTBEAT_REFRESH_MS * MS
        parts = self._context.parts
        judged = judge_all(parts, [self._entry], {})[self._entry.entry_id]
        return judged.keeper_gone and judged.verdict is Verdict.DEAD_PID


def follow(context: Context, entry: Entry, path: str, offset: int) -> Iterator[bytes]:
    """Chunks as they come, an empty one at each look that gave none; ends when the agent has, and all is read."""
    reader, ending = Reader(path, offset), Ending(context, entry)
    woken = threading.Event()
    with _watching(path, woken):
        while True:
            over = ending.seen()  # before the read: what it wrote until its end is then in the file
            while data := reader.read():
                yield data
            if over:
                return
            yield b""
            woken.wait(TICK_MS / 1000)
            woken.clear()


@contextlib.contextmanager
def _watching(path: str, woken: threading.Event) -> Iterator[None]:
    """Wake at changes of the file. Without a watch (a user has few inotify instances) the poll is all there is."""
    import logging

    from watchdog.events import FileSystemEvent, FileSystemEventHandler
    from watchdog.observers import Observer

    class Wake(FileSystemEventHandler):
        def on_any_event(self, event: FileSystemEvent) -> None:
            """Reading causes events too; they must not wake the reader."""
            if os.path.basename(os.fsdecode(event.src_path)) == name and event.event_type in ("modified", "created"):
                woken.set()

    logging.getLogger("watchdog").setLevel(logging.CRITICAL)  # it complains on stderr of its own race when stopped
    folder, name = os.path.split(path)
    observer = Observer()
    try:
        observer.schedule(Wake(), folder)
        observer.start()
    except OSError:
        yield
        return
    try:
        yield
    finally:
        observer.stop()
        observer.join()
