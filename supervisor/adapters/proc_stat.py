"""The least that a hook needs of the process table: start ticks, and where pids mean something. Stdlib only."""

from __future__ import annotations

import os


def read_stat(pid: int) -> list[bytes] | None:
    """The fields of `/proc/<pid>/stat` from field 3 (state) on; None when there is no such process."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = os.read(fd, 4096)
    except OSError:
        return None
    finally:
        os.close(fd)
    end = data.rfind(b")")
    fields = data[end + 2 :].split()
    return fields if end >= 0 and len(fields) > 19 else None


def start_ticks(pid: int) -> int | None:
    """Field 22 of a process that runs; None when it is gone or a zombie."""
    fields = read_stat(pid)
    if fields is None or fields[0] in (b"Z", b"X"):
        return None
    return int(fields[19])


def parent_pid(pid: int) -> int | None:
    """The parent of a process, None when it is gone."""
    fields = read_stat(pid)
    return int(fields[1]) if fields else None


def boot_id() -> str:
    """This boot; empty where the kernel does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def pid_namespace() -> int:
    """The pid namespace of this process; 0 where there are none."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0
