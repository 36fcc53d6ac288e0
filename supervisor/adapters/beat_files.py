"""Heartbeats in place: one small file per keeper, rewritten by one pwrite. Owns `<home>/run/heartbeats`.

Never fsynced, never inside an entry. Numbers have a fixed width, so a reader always sees well-formed JSON.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

import msgspec

from supervisor.adapters.atomic_file import read_bounded
from supervisor.core.ids import encode
from supervisor.core.liveness import Beat

_decoder = msgspec.json.Decoder(Beat)
_MAX = 4096


class BeatFiles:
    """`Heartbeats` over a folder. A writer holds one descriptor."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._fds: dict[str, int] = {}

    def path(self, keeper_id: str) -> str:
        """The heartbeat file of one keeper."""
        return os.path.join(self._folder, f"{encode(keeper_id)}.json")

    def beat(self, beat: Beat) -> None:
        """Write in place; a file that was removed under us is made anew.

        Raises:
            OSError: the folder is gone or full.
        """
        fd = self._fds.get(beat.keeper_id)
        if fd is not None and os.fstat(fd).st_nlink == 0:
            os.close(self._fds.pop(beat.keeper_id))
            fd = None
        if fd is None:
            fd = os.open(self.path(beat.keeper_id), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            self._fds[beat.keeper_id] = fd
        os.pwrite(fd, _encode(beat), 0)

    def misplaced(self, keeper_id: str) -> bool:
        """Whether the file that is written is not the one that readers find: a folder above was moved or made anew."""
        fd = self._fds.get(keeper_id)
        return fd is not None and not is_same_file(fd, self.path(keeper_id))

    def read(self, keeper_id: str) -> Beat | None:
        """The last beat; None when absent or malformed (that is no evidence of life)."""
        return self._read(self.path(keeper_id))

    def _read(self, path: str) -> Beat | None:
        try:
            data = read_bounded(path, _MAX)
            return _decoder.decode(data) if data else None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def remove(self, keeper_id: str) -> None:
        """A clean end leaves no heartbeat."""
        fd = self._fds.pop(keeper_id, None)
        if fd is not None:
            os.close(fd)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path(keeper_id))

    def owners(self) -> Mapping[int, int]:
        """The keepers with a heartbeat file, alive or killed: pid → start ticks."""
        try:
            names = [f.name for f in os.scandir(self._folder) if f.name.endswith(".json")]
        except FileNotFoundError:
            return {}
        beats = (self._read(os.path.join(self._folder, n)) for n in names)
        return {b.pid: b.start_ticks for b in beats if b is not None}


def is_same_file(fd: int, path: str) -> bool:
    """Whether a path still leads to what was opened: not removed, nor the folders above it moved away."""
    try:
        there = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    here = os.fstat(fd)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _encode(beat: Beat) -> bytes:
    return (
        f'{{"keeperId":"{beat.keeper_id}","pid":{beat.pid:>10},"startTicks":{beat.start_ticks:>20},'
        f'"bootId":"{beat.boot_id}","hostId":"{beat.host_id}","beat":{beat.beat:>12},'
        f'"updatedAt":{beat.updated_at:>16},"monotonicNs":{beat.monotonic_ns:>20}}}\n'
    ).encode()
