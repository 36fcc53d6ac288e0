"""Processes as the tests see them: found by a marker in their environment, looked at, ended by identity.

Owns nothing. Uses nothing of the product, so that what it says about the product is not the product's own word.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

MARK = "E2E_REAL_MARK"
"""In the environment of everything that a test starts. Not SUPERVISOR_…: those are not inherited by agents."""

DEADLINE = 60.0  # seconds; only something broken takes that long
LOOK_EVERY = 0.02

T = TypeVar("T")


def until(condition: Callable[[], T | None], what: str | Callable[[], str], *, deadline: float = DEADLINE) -> T:
    """The first true value of the condition. Fails, saying what was waited for, when the deadline passes."""
    end = time.monotonic() + deadline
    while not (value := condition()):
        said = what if isinstance(what, str) else what()
        assert time.monotonic() < end, f"after {deadline:.0f} s still not: {said}"
        time.sleep(LOOK_EVERY)
    return value


@dataclass(frozen=True)
class Stat:
    """What `/proc/<pid>/stat` says: state letter, parent, session, start tick."""

    state: str
    parent: int
    session: int
    start: int


def stat(pid: int) -> Stat | None:
    """None when there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return Stat(fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19]))


def runs(pid: int) -> bool:
    """Whether it can still do anything: it exists, is no zombie, and has not given back its memory amid its exit."""
    seen = stat(pid)
    if seen is None or seen.state in "ZX":
        return False
    try:
        return not Path(f"/proc/{pid}/statm").read_text().startswith("0 ")
    except (FileNotFoundError, ProcessLookupError):
        return False


def pids() -> list[int]:
    """Every process there is."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def environ(pid: int) -> dict[str, str]:
    """What the process was started with; empty when it is gone."""
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.partition(b"=") for item in data.split(b"\0") if item)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def command(pid: int) -> str:
    """Its command line with blanks between the words; empty when it is gone."""
    try:
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")).strip()
    except OSError:
        return ""


def descriptors(pid: int) -> dict[int, str]:
    """Its open descriptors and what they lead to."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")
    return found


def marked(mark: str) -> list[int]:
    """Every running process that bears the mark."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for pid in pids():
        try:
            data = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if wanted in data.split(b"\0") and runs(pid):
            found.append(pid)
    return found


def below(pid: int) -> list[int]:
    """All descendants of a process, by parent links."""
    children: dict[int, list[int]] = {}
    for other in pids():
        if (seen := stat(other)) is not None:
            children.setdefault(seen.parent, []).append(other)
    found, queue = [], [pid]
    while queue:
        queue += (new := children.get(queue.pop(), []))
        found += new
    return found


def send(pid: int, number: signal.Signals) -> None:
    """Signal one process, through a pidfd."""
    fd = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(fd, number)
    finally:
        os.close(fd)


def kill(pid: int) -> None:
    """SIGKILL one process and wait until it is gone (it may be a zombie of somebody else)."""
    send(pid, signal.SIGKILL)
    until(lambda: not runs(pid), f"the end of pid {pid}")


def end_marked(mark: str) -> list[str]:
    """Kill what still bears the mark, by pid, looking again until there is nothing new; what it was."""
    ended: list[str] = []
    while left := marked(mark):
        for pid in left:
            try:
                fd = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            try:
                if environ(pid).get(MARK) == mark:  # the pidfd is of the process just looked at
                    ended.append(f"pid {pid}: {command(pid)[:200]}")
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(fd, signal.SIGKILL)
            finally:
                os.close(fd)
        until(lambda left=left: not any(map(runs, left)), f"the end of {left}")  # type: ignore[misc]
    return ended


class CommandLines:
    """Every command line seen while watching, of all processes."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.looks = 0
        self._stop = threading.Event()

    def watch(self) -> None:
        """Until told to stop; run in a thread."""
        while not self._stop.is_set():
            for pid in pids():
                self.seen.add(command(pid))
            self.looks += 1
            time.sleep(0.002)

    def stop(self) -> None:
        """No more looks."""
        self._stop.set()


@contextmanager
def watched_command_lines() -> Iterator[CommandLines]:
    """Collects the command lines of every process of the machine during the block."""
    lines = CommandLines()
    thread = threading.Thread(target=lines.watch, daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        lines.stop()
        thread.join()
