"""What a process does to itself: its streams, its title, its memory, its role as reaper.

All but the streams is for Linux, and does nothing elsewhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from supervisor.adapters.proc_stat import read_stat

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
_ARG_START, _ARG_END = 45, 46  # fields 48 and 49 of /proc/<pid>/stat, counted from field 3


def become_subreaper() -> bool:
    """Orphans among our descendants become our children, so they stay findable and are reaped."""
    if sys.platform != "linux":
        return False
    import ctypes

    return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def give_back_memory() -> None:
    """What the launcher needed and a keeper does not is returned to the system (glibc)."""
    if sys.platform != "linux":
        return
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def retitle(title: str) -> bool:
    """Overwrite our command line as others see it: a keeper must not carry its launcher's prompt all its life."""
    if sys.platform != "linux":
        return False
    import ctypes

    fields = read_stat(os.getpid())
    if fields is None or len(fields) <= _ARG_END:
        return False
    start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    room = end - start
    if start == 0 or room <= 1:
        return False
    ctypes.memmove(start, title.encode()[: room - 1].ljust(room, b"\0"), room)
    return True


def become(argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Run another program in our place: same pid, same streams.

    Raises:
        OSError: it cannot be started.
    """
    os.execve(argv[0], list(argv), dict(env))


def mend_streams() -> None:
    """Closed standard streams become /dev/null: otherwise the next file opened would be taken for one."""
    for fd, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, mode)
            if opened != fd:
                os.dup2(opened, fd)
                os.close(opened)
            os.set_inheritable(fd, True)  # a foreground agent has three streams as well
    for name, fd, how in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(fd, how, closefd=False))  # noqa: SIM115  for the life of the process
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def readable_once(data: bytes) -> int:
    """A descriptor from which `data` can be read, on no disk that anybody can name.

    Raises:
        OSError: no room for it.
    """
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("prompt", os.MFD_CLOEXEC)
    else:
        import tempfile

        fd, path = tempfile.mkstemp()
        os.unlink(path)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
