"""macOS: processes as psutil and the kernel tell. Never signals. Not run in this project's CI (Linux)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from supervisor.core.identity import Gone, Machine, ProcessKey, Seen, Unreadable
from supervisor.core.ports import Process


class Darwin:
    """`ProcessTable` for macOS. The start token is the kernel's start time (it does not follow clock steps)."""

    def __init__(self, host_id: str) -> None:
        self._host_id = host_id
        self._machine: Machine | None = None

    def machine(self) -> Machine:
        """Host id and boot session; macOS has no pid namespaces."""
        if self._machine is None:
            done = subprocess.run(
                ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, text=True, check=True
            )
            self._machine = Machine(self._host_id, done.stdout.strip(), 0)
        return self._machine

    def probe(self, pid: int) -> Seen:
        """One pid: its key, `Gone` (also for a zombie), or `Unreadable`."""
        import psutil

        try:
            process = psutil.Process(pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                return Gone()
            return ProcessKey(pid, round(process.create_time() * 1_000_000))
        except (psutil.NoSuchProcess, ValueError):
            return Gone()
        except psutil.AccessDenied:
            return Unreadable()

    def identify(self, pid: int) -> ProcessKey | None:
        """The key of a process that is not reaped yet, None when there is none (or only an unreadable zombie)."""
        seen = self.probe(pid)
        return seen if isinstance(seen, ProcessKey) else None

    def children(self, pid: int) -> Sequence[int] | None:
        """Not listed here; callers take a snapshot."""
        return None

    def snapshot(self) -> Mapping[int, Process]:
        """All processes, without zombies."""
        import psutil

        rows = {}
        for process in psutil.process_iter(["pid", "ppid", "status", "create_time"]):
            info = process.info
            if info["status"] == psutil.STATUS_ZOMBIE or info["create_time"] is None:
                continue
            try:
                session = os.getsid(info["pid"])
            except OSError:
                session = 0
            rows[info["pid"]] = Process(
                info["pid"], info["ppid"] or 0, session, round(info["create_time"] * 1_000_000), "R"
            )
        return rows

    def environment(self, pid: int) -> Mapping[str, str]:
        """The environment the process was started with; empty when gone or not ours."""
        import psutil

        try:
            return dict(psutil.Process(pid).environ())
        except (psutil.Error, OSError):
            return {}

    def command(self, pid: int) -> Sequence[str]:
        """The command line; empty when gone or not ours."""
        import psutil

        try:
            return list(psutil.Process(pid).cmdline())
        except (psutil.Error, OSError):
            return ()

    def parent_of(self, pid: int) -> int | None:
        """The parent's pid, None when the process is gone."""
        import psutil

        try:
            return psutil.Process(pid).ppid() or None
        except psutil.Error:
            return None
