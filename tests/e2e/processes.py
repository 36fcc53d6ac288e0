"""What the end-to-end tests know of processes, from `/proc` alone: nothing of the product is asked here."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

DEADLINE = 20.0  # seconds; only something broken takes that long, also on a busy machine
T = TypeVar("T")


class Stat(NamedTuple):
    """Fields of `/proc/<pid>/stat`."""

    state: str
    parent: int
    group: int
    session: int
    cpu_ticks: int
    start_ticks: int


def wait_for(condition: Callable[[], T], what: str) -> T:
    """The first true value of the condition; fails, naming what was waited for, when it does not come."""
    deadline = time.monotonic() + DEADLINE
    while not (value := condition()):
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.02)
    return value


def stat_of(pid: int) -> Stat | None:
    """None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            raw = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    f = raw[raw.rindex(b")") + 2 :].split()
    return Stat(f[0].decode(), int(f[1]), int(f[2]), int(f[3]), int(f[11]) + int(f[12]), int(f[19]))


def alive(pid: int) -> bool:
    """Whether it runs (or is stopped); a zombie does not."""
    seen = stat_of(pid)
    return seen is not None and seen.state not in "ZX"


def gone(*pids: int) -> bool:
    return not any(map(alive, pids))


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def environment(pid: int) -> dict[str, str]:
    """What it was started with; empty when it is gone."""
    pairs = (p.partition(b"=") for p in _read(pid, "environ").split(b"\0") if p)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def cmdline(pid: int) -> list[str]:
    """Its arguments; empty when it is gone."""
    return [os.fsdecode(a) for a in _read(pid, "cmdline").split(b"\0")[:-1]]


def descriptors(pid: int) -> dict[int, str]:
    """Its open descriptors and where they lead."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")
        except FileNotFoundError:
            continue
    return found


def children(pid: int) -> list[tuple[int, Stat]]:
    """Its direct children, zombies included."""
    seen = [(p, stat_of(p)) for p in all_pids()]
    return [(p, s) for p, s in seen if s is not None and s.parent == pid]


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Signal a process of the test and, when it must die of it, see it gone."""
    os.kill(pid, number)
    if number == signal.SIGKILL:
        wait_for(lambda: gone(pid), f"the end of pid {pid} after SIGKILL")


def marked(mark: str) -> set[int]:
    """Every live process that was started with this text in its environment."""
    needle = mark.encode()
    return {p for p in all_pids() if p != os.getpid() and needle in _read(p, "environ") and alive(p)}


def end_marked(mark: str) -> None:
    """Kill, by pid, until nothing with the mark is left; what is forked meanwhile is found by the next look."""

    def none_left() -> bool:
        left = marked(mark)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return not left

    wait_for(none_left, "the end of everything with the mark")


def named(pids: Iterable[int]) -> str:
    """For messages."""
    return ", ".join(f"pid {p} ({' '.join(cmdline(p))[:120]})" for p in sorted(pids))


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
