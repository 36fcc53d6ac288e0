"""Which process is meant: a pid with its start ticks, within a host, boot and pid namespace. Never a bare pid.

Owns nothing; never looks at a process itself (`adapters.process_table` does).
"""

from __future__ import annotations

from msgspec import Struct


class ProcessKey(Struct, frozen=True, rename="camel"):
    """One process within one boot and pid namespace.

    `start_ticks` is field 22 of `/proc/<pid>/stat` (on macOS the kernel's start time in microseconds); `pidfd_inode`
    exists where the kernel has pidfs (Linux 6.9+) and tells two processes apart that got the same pid *and* tick.
    """

    pid: int
    start_ticks: int
    pidfd_inode: int | None = None


class Machine(Struct, frozen=True, rename="camel"):
    """Where pids mean something: a host (random id, not its name), one boot of it, one pid namespace."""

    host_id: str
    boot_id: str
    pid_namespace: int


class ProcessRef(Struct, frozen=True, rename="camel"):
    """A process key together with the machine on which it was seen: what records hold."""

    machine: Machine
    key: ProcessKey


class Gone(Struct, frozen=True):
    """No such process, or only its zombie: it runs no more."""


class Unreadable(Struct, frozen=True):
    """The process table did not say (another user's namespace, no permission)."""


Seen = ProcessKey | Gone | Unreadable
"""What a look at one pid gave."""


def same_process(expected: ProcessKey, seen: ProcessKey) -> bool:
    """Whether both keys name one process. An inode is compared only when both sides have one."""
    if (expected.pid, expected.start_ticks) != (seen.pid, seen.start_ticks):
        return False
    if expected.pidfd_inode is None or seen.pidfd_inode is None:
        return True
    return expected.pidfd_inode == seen.pidfd_inode
