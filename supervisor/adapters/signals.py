"""The only sender of signals: to a process whose identity still matches, through a pidfd where there is one."""

from __future__ import annotations

import os
import signal as signals
import sys

from supervisor.core.identity import ProcessKey, same_process
from supervisor.core.ports import ProcessTable


class SystemSignals:
    """`Signals` over the kernel."""

    def __init__(self, processes: ProcessTable) -> None:
        self._processes = processes

    def send(self, key: ProcessKey, signal: int) -> bool:
        """Signal the process; False when it is gone, another's now, or ourselves (never a target).

        The pidfd is opened first and compared afterwards, so a pid reused in between is seen and spared.
        """
        if key.pid <= 1 or key.pid == os.getpid():
            return False
        if sys.platform != "linux":
            return self._send_by_pid(key, signal)
        try:
            fd = os.pidfd_open(key.pid)
        except (OSError, ValueError, OverflowError):
            return False
        try:
            if not self._is_still(key):
                return False
            signals.pidfd_send_signal(fd, signal)
        except (ProcessLookupError, PermissionError):  # another user's: a survivor to be named
            return False
        finally:
            os.close(fd)
        return True

    def _send_by_pid(self, key: ProcessKey, signal: int) -> bool:
        if not self._is_still(key):
            return False
        try:
            os.kill(key.pid, signal)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _is_still(self, key: ProcessKey) -> bool:
        seen = self._processes.probe(key.pid)
        return isinstance(seen, ProcessKey) and same_process(key, seen)
