"""Linux: processes as `/proc` tells. Reads only what is asked; parses after the last `)`. Never signals."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from supervisor.core.identity import Gone, Machine, ProcessKey, Seen, Unreadable
from supervisor.core.ports import Process

_MAX = 4 * 1024 * 1024  # an environment or command line is at most a few MiB


class ProcFs:
    """`ProcessTable` for Linux."""

    def __init__(self, host_id: str) -> None:
        self._host_id = host_id
        self._machine: Machine | None = None
        self._pidfs: bool | None = None

    def machine(self) -> Machine:
        """Host id, boot id, and the pid namespace that our pids belong to."""
        if self._machine is None:
            with open("/proc/sys/kernel/random/boot_id") as file:
                boot = file.read().strip()
            self._machine = Machine(self._host_id, boot, os.stat("/proc/self/ns/pid").st_ino)
        return self._machine

    def probe(self, pid: int) -> Seen:
        """One pid: its key, `Gone` (also for a zombie), or `Unreadable`."""
        try:
            fd = os.pidfd_open(pid)  # first: what is read below cannot be of a later process of the same pid
        except (ProcessLookupError, ValueError, OverflowError):
            return Gone()
        except (OSError, AttributeError):
            return self._probe_by_stat(pid, None)
        try:
            return self._probe_by_stat(pid, os.fstat(fd).st_ino if self._has_pidfs(fd) else None)
        finally:
            os.close(fd)

    def _probe_by_stat(self, pid: int, inode: int | None) -> Seen:
        try:
            row = _parse(pid, _read(f"/proc/{pid}/stat"))
        except (FileNotFoundError, ProcessLookupError):
            return Gone()
        except PermissionError:
            return Unreadable()
        return Gone() if row.state in "ZX" else ProcessKey(pid, row.start_ticks, inode)

    def _has_pidfs(self, fd: int) -> bool:
        if self._pidfs is None:  # without pidfs every pidfd shares one anonymous inode
            try:
                other = os.pidfd_open(os.getpid())
            except OSError:
                return False
            mine, theirs = os.fstat(other).st_ino, os.fstat(fd).st_ino
            os.close(other)
            if mine == theirs and os.getppid() > 0:
                try:
                    parent = os.pidfd_open(os.getppid())
                except OSError:
                    return False
                theirs = os.fstat(parent).st_ino
                os.close(parent)
            self._pidfs = mine != theirs
        return self._pidfs

    def identify(self, pid: int) -> ProcessKey | None:
        """The key of a process that is not reaped yet (it may be a zombie), None when there is none."""
        try:
            fd = os.pidfd_open(pid)
        except (OSError, AttributeError, ValueError, OverflowError):
            fd = None
        try:
            row = _parse(pid, _read(f"/proc/{pid}/stat"))
        except OSError:
            return None
        else:
            inode = os.fstat(fd).st_ino if fd is not None and self._has_pidfs(fd) else None
            return ProcessKey(pid, row.start_ticks, inode)
        finally:
            if fd is not None:
                os.close(fd)

    def children(self, pid: int) -> Sequence[int] | None:
        """The direct children of a single-threaded process; None where the kernel does not list them."""
        try:
            return [int(p) for p in _read(f"/proc/{pid}/task/{pid}/children").split()]
        except OSError:
            return None

    def snapshot(self) -> Mapping[int, Process]:
        """All processes, without zombies."""
        rows = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    row = _parse(int(name), _read(f"/proc/{name}/stat"))
                except OSError:
                    continue
                if row.state not in "ZX":
                    rows[row.pid] = row
        return rows

    def environment(self, pid: int) -> Mapping[str, str]:
        """The environment the process was started with; empty when gone or another user's."""
        try:
            data = _read(f"/proc/{pid}/environ")
        except OSError:
            return {}
        pairs = (item.partition(b"=") for item in data.split(b"\0") if item)
        return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}

    def command(self, pid: int) -> Sequence[str]:
        """The command line; empty when gone or a kernel thread."""
        try:
            data = _read(f"/proc/{pid}/cmdline")
        except OSError:
            return ()
        return [os.fsdecode(a) for a in data.rstrip(b"\0").split(b"\0")] if data else ()

    def parent_of(self, pid: int) -> int | None:
        """The parent's pid, None when the process is gone or has none here."""
        try:
            return _parse(pid, _read(f"/proc/{pid}/stat")).parent_pid or None
        except OSError:
            return None


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(fd, 65536)
        if len(data) < 4096:  # /proc files come whole unless they are long
            return data
        while len(data) < _MAX and (more := os.read(fd, 65536)):
            data += more
        return data
    finally:
        os.close(fd)


def _parse(pid: int, stat: bytes) -> Process:
    """Fields of `/proc/<pid>/stat` (proc_pid_stat(5)): 3 state, 4 ppid, 6 session, 22 start time."""
    try:
        fields = stat[stat.rindex(b")") + 2 :].split(None, 20)
        return Process(pid, int(fields[1]), int(fields[3]), int(fields[19]), fields[0].decode())
    except (ValueError, IndexError):
        raise ProcessLookupError(pid) from None


def status_of_zombie(key: ProcessKey) -> int | None:
    """The wait status of a process that has ended and is not reaped (field 52 of its stat); None for others."""
    try:
        stat = _read(f"/proc/{key.pid}/stat")
        fields = stat[stat.rindex(b")") + 2 :].split()
        if fields[0] != b"Z" or int(fields[19]) != key.start_ticks:
            return None
        return int(fields[49])
    except (OSError, ValueError, IndexError):
        return None
