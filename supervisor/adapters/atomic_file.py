"""The only writer of state files: temp file, rename, fsync; flock on sidecars; bounded reads. Owns no content."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
from collections.abc import Iterator

from supervisor.adapters.clock import SystemClock, pause
from supervisor.core.timing import LOCK_WAIT_MS, MS

MAX_RECORD_BYTES = 1024 * 1024
_counter = itertools.count(int.from_bytes(os.urandom(4), "big"))  # a killed writer of our pid may have left its own


class Busy(OSError):
    """The lock's holder did not let go in time (it may be stopped)."""


def read_bounded(path: str, limit: int = MAX_RECORD_BYTES) -> bytes | None:
    """The file's bytes, None when it does not exist.

    Raises:
        OSError: unreadable, or larger than `limit` (EFBIG).
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        data = os.read(fd, limit + 1)
        while (more := os.read(fd, limit + 1 - len(data))) if len(data) <= limit else b"":
            data += more
    finally:
        os.close(fd)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit} bytes", path)
    return data


def write_atomic(path: str, data: bytes, *, durable: bool = False) -> None:
    """Replace `path` by `data`, 0600, complete or not at all; `durable`: also after a power failure.

    Raises:
        OSError: nothing was changed and no temp file is left.
    """
    folder, name = os.path.split(path)
    temp = temp_name(folder, name)
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temp, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temp)
        raise
    if durable:
        sync_folder(folder)


def make_private(path: str) -> None:
    """A folder with what is missing above it, all 0700 (`os.makedirs` gives its mode to the last one only).

    Raises:
        OSError: it cannot be made, or something else is there.
    """
    try:
        os.mkdir(path, 0o700)
    except FileNotFoundError:
        make_private(os.path.dirname(path))
        make_private(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def temp_name(folder: str, name: str) -> str:
    """A temp file's path beside `name`: hidden, and naming its writer, so that those of dead writers can be swept."""
    return os.path.join(folder, f".{name}.{os.getpid()}.{next(_counter)}.tmp")


def writer_of_temp(name: str) -> int | None:
    """The pid in a temp file's name, None for other files."""
    parts = name.rsplit(".", 3)
    if len(parts) != 4 or not name.startswith(".") or parts[3] != "tmp" or not parts[1].isdigit():
        return None
    return int(parts[1])


def sync_folder(folder: str) -> None:
    """Make renames within `folder` durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_file(path: str) -> None:
    """Make a file's content durable; a file that is gone needs none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def lock(path: str, *, wait_ms: int = LOCK_WAIT_MS) -> int:
    """Take the exclusive flock of `path` (made when missing, never unlinked or replaced); closing the result frees it.

    The kernel frees it on death; a forked child shares it until both have closed it.

    Raises:
        Busy: not within `wait_ms`.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _acquire(fd, path, wait_ms)
    except BaseException:
        os.close(fd)
        raise
    return fd


@contextlib.contextmanager
def locked(path: str, *, wait_ms: int = LOCK_WAIT_MS) -> Iterator[None]:
    """`lock` for the length of a block."""
    fd = lock(path, wait_ms=wait_ms)
    try:
        yield
    finally:
        os.close(fd)


def _acquire(fd: int, path: str, wait_ms: int) -> None:
    clock = SystemClock()
    deadline = clock.monotonic_ns() + wait_ms * MS
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if clock.monotonic_ns() >= deadline:
                raise Busy(errno.EAGAIN, "locked by another process", path) from None
            pause(0.0005)
