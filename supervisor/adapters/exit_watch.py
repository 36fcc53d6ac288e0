"""Learning of the death of a process that is not our child: pidfd (Linux), kqueue (macOS), or by polling.

Owns the descriptors it hands out. Correctness never depends on it: the keeper looks again at every tick.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import sys

from supervisor.adapters.procfs import status_of_zombie
from supervisor.adapters.spawn import exit_of_status
from supervisor.core.identity import ProcessKey, same_process
from supervisor.core.ports import Exit, ProcessTable

# linux/pidfd.h: PIDFD_GET_INFO = _IOWR(0xFF, 11, struct pidfd_info[64]); PIDFD_INFO_EXIT since 6.15
_PIDFD_GET_INFO = 0xC040FF0B
_PIDFD_INFO_EXIT = 1 << 3
_INFO = struct.Struct("=QQ11Ii")


class SystemExitWatch:
    """`ExitWatch`. `poll_only` forces the fallback (tests, and kernels without pidfd)."""

    def __init__(self, processes: ProcessTable, *, poll_only: bool = False) -> None:
        self._processes = processes
        self._poll_only = poll_only
        self._fds: dict[ProcessKey, int] = {}

    def watch(self, key: ProcessKey) -> int | None:
        """A descriptor that becomes readable when the process has ended; None: poll it."""
        if self._poll_only:
            return None
        if key in self._fds:
            return self._fds[key]
        try:
            fd = os.pidfd_open(key.pid) if sys.platform == "linux" else _kqueue(key.pid)
        except (OSError, AttributeError, OverflowError):
            return None
        seen = self._processes.probe(key.pid)
        if not isinstance(seen, ProcessKey) or not same_process(key, seen):
            os.close(fd)
            return None
        self._fds[key] = fd
        return fd

    def status(self, key: ProcessKey) -> Exit | None:
        """How it ended, if the kernel tells; None: not (yet) known.

        A zombie tells by `/proc/<pid>/stat` (field 52); once reaped by its parent, a held pidfd does (Linux 6.15+).
        """
        if sys.platform != "linux":
            return None
        zombie = status_of_zombie(key)
        if zombie is not None:
            return exit_of_status(zombie)
        fd = self._fds.get(key)
        if fd is None:
            return None
        buffer = bytearray(_INFO.size)
        struct.pack_into("=Q", buffer, 0, _PIDFD_INFO_EXIT)
        try:
            fcntl.ioctl(fd, _PIDFD_GET_INFO, buffer)
        except OSError:
            return None
        fields = _INFO.unpack(buffer)
        return exit_of_status(fields[-1]) if fields[0] & _PIDFD_INFO_EXIT else None

    def forget(self, key: ProcessKey) -> None:
        """Close what `watch` opened."""
        fd = self._fds.pop(key, None)
        if fd is not None:
            with contextlib.suppress(OSError):
                os.close(fd)


def _kqueue(pid: int) -> int:
    queue = select.kqueue()  # type: ignore[attr-defined,unused-ignore]
    event = select.kevent(  # type: ignore[attr-defined,unused-ignore]
        pid,
        filter=select.KQ_FILTER_PROC,  # type: ignore[attr-defined,unused-ignore]
        flags=select.KQ_EV_ADD,  # type: ignore[attr-defined,unused-ignore]
        fflags=select.KQ_NOTE_EXIT,  # type: ignore[attr-defined,unused-ignore]
    )
    queue.control([event], 0)
    return os.dup(queue.fileno())
