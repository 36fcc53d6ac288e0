"""Transcripts: plain files that agents append to themselves. Owns `<home>/transcripts`; caps, tails, never parses."""

from __future__ import annotations

import contextlib
import os

from supervisor.core.ids import encode

MARK = b"\n[supervisor: the older part of this transcript was dropped at its cap]\n"
_CHUNK = 64 * 1024
_TAIL = 1024 * 1024  # the line with which a CLI sums up holds its whole answer
_KEEP = 16 * 1024 * 1024  # what is kept goes through memory


class TranscriptFiles:
    """The transcripts of one state root, as the keeper cares for them."""

    def __init__(self, folder: str, prompts: str) -> None:
        self._folder = folder
        self._prompts = prompts

    def path(self, entry_id: str) -> str:
        """The transcript of one entry."""
        return os.path.join(self._folder, f"{encode(entry_id)}.log")

    def create(self, path: str) -> None:
        """An empty transcript, 0600; an existing one is kept."""
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))

    def size(self, path: str) -> int | None:
        """Bytes, None when the file was removed or rotated away."""
        try:
            return os.stat(path, follow_symlinks=False).st_size
        except OSError:
            return None

    def head(self, path: str, start: int = 0) -> bytes:
        """The first bytes from `start` on; empty when there is no file."""
        return _at(path, start, _CHUNK)

    def tail(self, path: str) -> bytes:
        """The last bytes; empty when there is no file."""
        return _at(path, max((self.size(path) or 0) - _TAIL, 0), _TAIL)

    def cap(self, path: str, limit: int) -> bool:
        """`cap` of this module."""
        return cap(path, limit)

    def append(self, path: str, line: str) -> None:
        """A line of ours, on a line of its own."""
        append(path, f"\n[supervisor: {line}]\n".encode())

    def remove(self, entry_id: str) -> None:
        """Its entry is removed, so are the transcript and the prompt."""
        for path in (self.path(entry_id), os.path.join(self._prompts, encode(entry_id))):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def free_bytes(self) -> int:
        """What the file system still takes."""
        seen = os.statvfs(self._folder)
        return seen.f_bavail * seen.f_frsize


def cap(path: str, limit: int) -> bool:
    """Keep the newer half (at most 16 MiB) of a file over `limit` bytes, in place: writers append to the same inode.

    What is written between copy and truncation is lost; the mark says so. False when there was nothing to do.
    """
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        size = os.fstat(fd).st_size
        if size <= limit:
            return False
        keep = min(limit // 2, _KEEP)
        tail = os.pread(fd, keep, size - keep)
        cut = tail.find(b"\n")
        os.ftruncate(fd, 0)
    finally:
        os.close(fd)
    append(path, MARK + (tail[cut + 1 :] if 0 <= cut < len(tail) - 1 else tail))
    return True


def append(path: str, data: bytes) -> None:
    """Append a note of ours."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)


def tail_lines(path: str, lines: int, *, limit: int = 4 * 1024 * 1024) -> tuple[bytes, int]:
    """The last `lines` lines (within the last `limit` bytes), and the offset behind them."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return b"", 0
    try:
        end = os.fstat(fd).st_size
        data, start = b"", end
        while start > 0 and len(data) < limit and data.count(b"\n") <= lines:
            step = min(_CHUNK, start)
            start -= step
            data = os.pread(fd, step, start) + data
    finally:
        os.close(fd)
    body = data.split(b"\n")
    keep = lines + 1 if data.endswith(b"\n") else lines
    return b"\n".join(body[-keep:]) if lines else b"", end


def read_from(path: str, offset: int, limit: int = _CHUNK) -> tuple[bytes, int]:
    """What was appended since `offset`, and the next offset. A shorter file (capped) is read from its start."""
    try:
        size = os.stat(path).st_size
    except FileNotFoundError:
        return b"", offset
    if size < offset:
        offset = 0
    data = _at(path, offset, limit)
    return data, offset + len(data)


def _at(path: str, offset: int, limit: int) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return b""
    try:
        return os.pread(fd, limit, offset)
    finally:
        os.close(fd)
