"""Strangers: processes of nobody's, some on the pid of a dead agent or keeper, that note every signal they hear."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.e2e.processes import stat_of
from tests.e2e_real.endurance.pid_reuse import LAST_PID, listen

_TRIES = 10


class Decoys:
    """As process 1 of a pid namespace they can be given a pid."""

    def __init__(self, folder: Path, *, may_choose: bool) -> None:
        self._folder = folder
        self._may_choose = may_choose
        self.pids: dict[int, Path] = {}
        self.recycled = 0

    def anywhere(self) -> None:
        """One on whatever pid comes."""
        self._fork()

    def on(self, pid: int) -> bool:
        """One on this pid, if it is free and can be had."""
        if not self._may_choose or stat_of(pid) is not None:
            return False
        for _ in range(_TRIES):
            LAST_PID.write_text(str(pid - 1))
            if self._fork(only=pid):
                self.recycled += 1
                return True
        return False

    def _fork(self, only: int | None = None) -> bool:
        log = self._folder / f"decoy-{time.monotonic_ns()}"
        child = os.fork()
        if child == 0:
            if only is not None and os.getpid() != only:
                os._exit(0)
            listen(log)
        if only is not None and child != only:
            os.waitpid(child, 0)
            return False
        self.pids[child] = log
        while not log.exists():
            time.sleep(0.002)
        return True

    def heard(self) -> list[str]:
        """What has reached any of them."""
        found = []
        for pid, log in self.pids.items():
            seen = stat_of(pid)
            state = {"T": ["SIGSTOP"], "Z": ["killed"]}.get(seen.state, []) if seen else ["killed"]
            found += [f"pid {pid}: {word}" for word in (*log.read_text().split(), *state)]
        return found

    def end(self) -> None:
        """They are children of ours: their pids are theirs until they are waited for."""
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self.pids.clear()
