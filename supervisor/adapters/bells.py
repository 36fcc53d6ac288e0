"""Bells: a FIFO per listener. Ringing means "look again" and carries nothing. Owns `<home>/run/bells`."""

from __future__ import annotations

import contextlib
import errno
import os

from supervisor.core.ids import encode


class BellFiles:
    """`Bells` over a folder of FIFOs."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def path(self, keeper_id: str) -> str:
        """The FIFO of one listener."""
        return os.path.join(self._folder, encode(keeper_id))

    def ring(self, keeper_id: str) -> bool:
        """One byte, never blocking; False when nobody listens there (ENXIO, or no bell)."""
        try:
            fd = os.open(self.path(keeper_id), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EACCES):
                return False
            raise
        try:
            with contextlib.suppress(BlockingIOError):  # full: it has been told often enough
                os.write(fd, b"!")
        finally:
            os.close(fd)
        return True

    def listen(self, keeper_id: str) -> int:
        """A descriptor that becomes readable when rung; `drain` it. Opened for both ends, so it never reads EOF.

        Raises:
            OSError: the bell cannot be made.
        """
        path = self.path(keeper_id)
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)

    def mark_stop(self, entry_id: str) -> None:
        """Wish an agent down by an empty file: it needs a directory entry, not a block.

        Raises:
            OSError: not even that.
        """
        os.close(os.open(self._stop_path(entry_id), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))

    def stop_marked(self, entry_id: str) -> bool:
        """Whether somebody wishes it down this way."""
        return os.path.lexists(self._stop_path(entry_id))

    def unmark_stop(self, entry_id: str) -> None:
        """It is down."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._stop_path(entry_id))

    def _stop_path(self, entry_id: str) -> str:
        return os.path.join(self._folder, f"{encode(entry_id)}.stop")

    def remove(self, keeper_id: str) -> None:
        """Nobody listens any more."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path(keeper_id))


def drain(fd: int) -> None:
    """Empty a non-blocking descriptor."""
    with contextlib.suppress(BlockingIOError):
        while os.read(fd, 4096):
            pass
