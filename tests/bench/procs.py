"""The processes of one bench run, as /proc tells: found by a marker in their environment, ended by pid.

Owns nothing. Signals only processes that bear the marker of this run, through a pidfd, so never a reused pid.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable

MARK = "BENCH_RUN"
SLEEP = shutil.which("sleep") or "/bin/sleep"
SECONDS = "1000000"
_COMMAND = f"{SLEEP}\0{SECONDS}\0".encode()
TICKS = os.sysconf("SC_CLK_TCK")


def read(path: str) -> bytes:
    """The file's bytes; none when it is gone or not ours to read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def fields(pid: int) -> list[bytes]:
    """`/proc/<pid>/stat` from its third field (state) on; empty when gone."""
    stat = read(f"/proc/{pid}/stat")
    return stat[stat.rindex(b")") + 2 :].split() if stat else []


def is_sleeper(pid: int) -> bool:
    """Whether it has become one of the measured agents (a shell that will exec it does not count, nor a zombie)."""
    return read(f"/proc/{pid}/cmdline") == _COMMAND


def started_at(pid: int) -> float:
    """When it was forked, in seconds of CLOCK_BOOTTIME, rounded down to a tick (10 ms)."""
    row = fields(pid)
    return int(row[19]) / TICKS if row else 0.0


def parent(pid: int) -> int:
    """The parent's pid, 0 when gone."""
    row = fields(pid)
    return int(row[1]) if row else 0


def children(pid: int) -> set[int]:
    """The direct children, whichever thread forked them."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return set()
    return {int(c) for t in threads for c in read(f"/proc/{pid}/task/{t}/children").split()}


def cpu_ns(pid: int) -> int:
    """Processor time of a process: its threads to the nanosecond, its reaped children to the tick."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return 0
    own = sum(int(s[0]) for t in threads if (s := read(f"/proc/{pid}/task/{t}/schedstat").split()))
    row = fields(pid)
    reaped = int(row[13]) + int(row[14]) if row else 0
    return own + reaped * 1_000_000_000 // TICKS


def memory_kb(pids: Iterable[int]) -> dict[str, int]:
    """Sums over processes: `pss` (shared pages divided among their users), `rss`, `uss` (theirs alone)."""
    out = {"pss": 0, "rss": 0, "uss": 0}
    wanted = {b"Pss:": "pss", b"Rss:": "rss", b"Private_Clean:": "uss", b"Private_Dirty:": "uss"}
    for pid in pids:
        for line in read(f"/proc/{pid}/smaps_rollup").splitlines():
            name, *rest = line.split()
            if name in wanted:
                out[wanted[name]] += int(rest[0])
    return out


def until(condition: Callable[[], object], seconds: float, step: float = 0.02) -> bool:
    """Wait for a condition with a deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(step)
    return True


class Marked:
    """The processes that bear one value of the marker, but for this one."""

    def __init__(self, value: str) -> None:
        self.value = value
        self._needle = f"\0{MARK}={value}\0".encode()

    def pids(self) -> set[int]:
        """All of them, without zombies."""
        me = os.getpid()
        return {int(p) for p in os.listdir("/proc") if p.isdigit() and int(p) != me and self._bears(int(p))}

    def _bears(self, pid: int) -> bool:
        return self._needle in b"\0" + read(f"/proc/{pid}/environ")

    def sleepers(self) -> set[int]:
        """The measured agents among them."""
        return {p for p in self.pids() if is_sleeper(p)}

    def side(self) -> set[int]:
        """The supervisor's side: everything that is no agent."""
        return {p for p in self.pids() if not is_sleeper(p)}

    def kill(self, pid: int, number: int = signal.SIGKILL) -> bool:
        """Signal one of them, and nobody else."""
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            return False
        try:
            if not self._bears(pid):
                return False
            signal.pidfd_send_signal(fd, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(fd)
        return True

    def end_all(self) -> int:
        """Kill what is left, supervisors first so that they start nothing anew; how many were left."""
        found = len(self.pids())
        for _ in range(50):
            left = self.side() or self.pids()
            if not left:
                return found
            for pid in left:
                self.kill(pid)
            reap()
            time.sleep(0.05)
        raise RuntimeError(f"could not be ended: {sorted(self.pids())}")


def reap() -> None:
    """Collect ended children of ours that nobody waits for any more (orphans do not come to us)."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
