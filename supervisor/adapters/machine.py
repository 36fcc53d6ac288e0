"""Facts of this machine and of its folders, for `doctor`: what the kernel can do, what is where. Reads; judges nothing.

Owns nothing. A fact that cannot be had on this platform is None.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import select
import shutil
import signal
import stat
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from supervisor.core.identity import ProcessKey, Unreadable
from supervisor.core.ports import Exit, ExitWatch, ProcessTable, Signals, Spawned, Spawner, SpawnRequest

_PR_GET_CHILD_SUBREAPER = 37  # prctl(2)
_INOTIFY = "/proc/sys/fs/inotify"
_EXIT_WAIT_S = 2.0  # a killed sleep is gone at once; a machine that needs longer tells nothing about its kernel


class Abilities(Protocol):
    """The ports through which the kernel is tried."""

    @property
    def processes(self) -> ProcessTable: ...
    @property
    def spawner(self) -> Spawner: ...
    @property
    def exit_watch(self) -> ExitWatch: ...
    @property
    def signals(self) -> Signals: ...


class Folder(Struct, frozen=True, kw_only=True):
    """A path as `lstat` tells; `target` where a symlink leads. `kind` is None when there is nothing."""

    path: str
    kind: str | None = None
    uid: int = -1
    mode: int = 0
    target: str | None = None


class Space(Struct, frozen=True, kw_only=True):
    """What a file system still takes, and its type (`ext4`, `tmpfs`, `nfs4`, …)."""

    free_bytes: int
    free_inodes: int | None
    kind: str | None


class Kernel(Struct, frozen=True, kw_only=True):
    """What of Linux we can build on. `exit_status`: a pidfd still tells how a reaped process ended."""

    release: str
    pidfd: bool | None = None
    pidfs: bool | None = None
    exit_status: bool | None = None
    subreaper: bool | None = None
    inotify_instances: int | None = None
    inotify_watches: int | None = None
    inotify_exhausted: bool | None = None


class File(Struct, frozen=True):
    """A file of a folder: its name, path and age by the wall clock."""

    name: str
    path: str
    age_ms: int


def folder(path: str) -> Folder:
    """The path, not followed."""
    try:
        seen = os.lstat(path)
    except OSError:
        return Folder(path=path)
    kinds = ((stat.S_ISLNK, "link"), (stat.S_ISDIR, "folder"))
    kind = next((name for test, name in kinds if test(seen.st_mode)), "file")
    target = os.path.realpath(path) if kind == "link" else None
    return Folder(path=path, kind=kind, uid=seen.st_uid, mode=stat.S_IMODE(seen.st_mode), target=target)


def writable(path: str) -> bool:
    """Whether we could write into the folder, or into the nearest one above that exists."""
    at = path
    while not os.path.lexists(at) and os.path.dirname(at) != at:
        at = os.path.dirname(at)
    return os.path.isdir(at) and os.access(at, os.W_OK | os.X_OK)


def space(path: str) -> Space | None:
    """The file system that holds the path, or will; None when that cannot be read."""
    at = path
    while not os.path.exists(at) and os.path.dirname(at) != at:
        at = os.path.dirname(at)
    try:
        seen = os.statvfs(at)
    except OSError:
        return None
    inodes = seen.f_favail if seen.f_files else None  # btrfs and others count none
    return Space(free_bytes=seen.f_bavail * seen.f_frsize, free_inodes=inodes, kind=_file_system(os.path.realpath(at)))


def kernel(parts: Abilities) -> Kernel:
    """Each ability is tried rather than derived from a version: vendors and containers take and give."""
    try:
        me = parts.processes.probe(os.getpid())
    except OSError:
        me = Unreadable()
    linux = platform.system() == "Linux"
    return Kernel(
        release=f"{platform.system()} {platform.release()}",
        pidfd=_pidfd(),
        pidfs=isinstance(me, ProcessKey) and me.pidfd_inode is not None if linux else None,
        exit_status=_tells_exit(parts),
        subreaper=_subreaper(),
        inotify_instances=_number(f"{_INOTIFY}/max_user_instances"),
        inotify_watches=_number(f"{_INOTIFY}/max_user_watches"),
        inotify_exhausted=_inotify_exhausted(),
    )


def files(path: str, *, now_ms: int) -> Sequence[File]:
    """The names in a folder, hidden ones too; none when there is no such folder."""
    found = []
    try:
        with os.scandir(path) as listing:
            for item in listing:
                try:
                    changed = item.stat(follow_symlinks=False).st_mtime_ns // 1_000_000
                except OSError:
                    continue
                found.append(File(item.name, item.path, max(now_ms - changed, 0)))
    except OSError:
        return ()
    return found


def remove(path: str) -> bool:
    """Remove one file; False when it could not be."""
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def find_program(name: str, env: Mapping[str, str]) -> str | None:
    """Where a program is on the PATH of `env`."""
    return shutil.which(name, path=env.get("PATH", os.defpath))


def owners_of(package: str) -> Sequence[str]:
    """The installed distributions that own a top-level package. Slow (27 ms): never at start."""
    from importlib.metadata import packages_distributions

    return sorted(set(packages_distributions().get(package, ())))


def supervisord_beside(package_folder: str) -> str | None:
    """supervisord's own module within our package: both are installed in one environment and their files merge."""
    path = os.path.join(package_folder, "supervisord.py")
    return path if os.path.exists(path) else None


def _file_system(path: str) -> str | None:
    """The type of the mount that holds a real path (the last and longest match of the mount table)."""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.split(" ") for line in file]
    except OSError:
        return None
    best, kind = "", None
    for row in rows:
        point = row[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\") if len(row) > 2 else ""
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if point and inside and len(point) >= len(best):
            best, kind = point, row[2]
    return kind


def _pidfd() -> bool | None:
    if platform.system() != "Linux":
        return None
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (OSError, AttributeError):
        return False
    return True


def _tells_exit(parts: Abilities) -> bool | None:
    """Start, watch, kill and reap a process, then ask the kernel how it ended. Call it while there are no children."""
    if platform.system() != "Linux":
        return None
    child = parts.spawner.spawn(
        SpawnRequest(argv=("sleep", "10"), env={}, cwd="/", new_session=True, stdin="/dev/null", output="/dev/null")
    )
    if not isinstance(child, Spawned):
        return None
    fd = parts.exit_watch.watch(child.key)
    parts.signals.send(child.key, signal.SIGKILL)
    if fd is not None:
        select.select([fd], [], [], _EXIT_WAIT_S)
    parts.spawner.reap()
    status = parts.exit_watch.status(child.key)
    parts.exit_watch.forget(child.key)
    return None if fd is None else status == Exit(signal=signal.SIGKILL)


def _subreaper() -> bool | None:
    if platform.system() != "Linux":
        return None
    value = ctypes.c_int(0)
    return bool(ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(value), 0, 0, 0) == 0)


def _inotify_exhausted() -> bool | None:
    """Whether this user has no inotify instance left."""
    if platform.system() != "Linux":
        return None
    fd = ctypes.CDLL(None, use_errno=True).inotify_init1(os.O_CLOEXEC)
    if fd >= 0:
        os.close(fd)
        return False
    return ctypes.get_errno() == errno.EMFILE


def _number(path: str) -> int | None:
    try:
        with open(path) as file:
            return int(file.read(32))
    except (OSError, ValueError):
        return None
