"""What one bench run shares: results, marker, environment, folders, quiet moments, and how thorough it is."""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.install import RESULTS
from tests.bench.machine import Quiet
from tests.bench.ours import Ours
from tests.bench.procs import MARK, Marked, started_at
from tests.bench.report import Results


@dataclass(frozen=True)
class Depth:
    """How often and how long."""

    repeats: int = 5
    big_repeats: int = 3
    windows: int = 3
    window_s: float = 20.0
    settle_s: float = 25.0
    kills: int = 20
    peer_kills: int = 5
    peer_repeats: int = 3
    cpu_runs: int = 15
    replaces: int = 300
    asks: int = 10_000


QUICK = Depth(repeats=3, windows=3, window_s=5.0, settle_s=5.0, kills=20, replaces=100, asks=1_000)


@dataclass
class Run:
    """One run. `wanted`: the names of the measures to take."""

    binaries: Path
    depth: Depth
    wanted: Collection[str]
    quiet: Quiet
    results: Results = field(default_factory=Results)
    marked: Marked = field(default_factory=lambda: Marked(uuid.uuid4().hex))

    def __post_init__(self) -> None:
        self.folder = RESULTS / f"run-{self.marked.value[:8]}"
        """On the file system of the checkout: a tmpfs would make every fsync free."""
        self.folder.mkdir(parents=True)
        self.sockets = Path(tempfile.mkdtemp(prefix="bench-"))
        """Of the peers: a socket's path is at most 107 bytes long."""
        keep = ("PATH", "LANG", "LC_ALL", "TZ", "USER", "SHELL")
        self.env = {n: os.environ[n] for n in keep if n in os.environ} | {MARK: self.marked.value}

    def calm(self) -> None:
        """Wait for a quiet moment; what is measured next is marked by whether it came."""
        self.results.quiet = self.quiet.wait()

    def wants(self, *names: str) -> bool:
        """Whether one of these measures is to be taken."""
        return any(n in self.wanted for n in names)

    def ours(self) -> Ours:
        """A fresh state root."""
        return Ours(self.binaries, self.folder / uuid.uuid4().hex[:6], self.env)

    def problem(self, text: str) -> None:
        """Something that must not happen; the run fails by it."""
        self.results.problems.append(text)

    def expect(self, count: int, what: str) -> set[int]:
        """The agents that run now; a problem when they are not so many."""
        found = self.marked.sleepers()
        if len(found) != count:
            self.problem(f"{what}: {len(found)} agents instead of {count}")
        return found

    def all_run_since(self, issued: float, agents: Collection[int]) -> float:
        """Seconds from `issued` (CLOCK_BOOTTIME) to the last start, rounded up to a tick."""
        return max((started_at(p) for p in agents), default=issued) + 0.01 - issued


def settle(seconds: float) -> None:
    """Let a measured side come to rest."""
    time.sleep(seconds)


Scenario = Callable[[Run], None]
