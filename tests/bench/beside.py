"""The same measures of the peers, as far as they have the thing. What cannot be measured is a word, never a failure."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.commands import timed
from tests.bench.latency import restart_seconds
from tests.bench.peers import KINDS, Peer
from tests.bench.procs import cpu_ns, memory_kb, parent, reap, until
from tests.bench.run import Run, settle

N = 100
_LIMIT = 60.0


def measure(run: Run, binaries: Path | None) -> dict[str, str]:
    """Every installed peer; name → version, or `not installed`."""
    versions = {}
    for kind in KINDS:
        version = kind(binaries, run.sockets, run.env).version()
        versions[kind.name] = "not installed" if version is None else version
        if version is not None:
            _one(run, kind, binaries)
    return versions


def _one(run: Run, kind: type[Peer], binaries: Path | None) -> None:
    steps: tuple[tuple[tuple[str, ...], Callable[[Run, Callable[[int], Peer]], None]], ...] = (
        (("up100", "up100run", "ps", "down"), _start_and_stop),
        (("up500", "up500run"), _start_big),
        (("idle", "pss", "rss", "restart"), _steady),
        (("alive", "doubled", "reattached"), _crash),
        (("help",), _help),
        (("launch", "launchpss", "launchrss"), _alone),
    )
    count = 0

    def make(agents: int) -> Peer:
        nonlocal count
        count += 1
        folder = run.sockets / f"{kind.name}{count}"
        folder.mkdir()
        peer = kind(binaries, folder, run.env)
        peer.configure(agents)
        return peer

    for names, step in steps:
        if run.wants(*names):
            print(f"  {kind.name}: {', '.join(names)}", file=sys.stderr, flush=True)
            try:
                step(run, make)
            except (RuntimeError, OSError, ValueError) as error:
                run.results.say(names[0], f"failed: {str(error)[:40]}", kind.name)
            finally:
                run.marked.end_all()


@contextmanager
def _started(run: Run, peer: Peer, agents: int) -> Iterator[float]:
    """Started with all agents running; the seconds that took, to the tick."""
    run.calm()
    issued = time.clock_gettime(time.CLOCK_BOOTTIME)
    peer.launch()
    try:
        if not until(lambda: len(run.marked.sleepers()) >= agents, _LIMIT, 0.05):
            raise RuntimeError(f"{len(run.marked.sleepers())} of {agents} started")
        yield run.all_run_since(issued, run.marked.sleepers())
    finally:
        run.marked.end_all()
        if peer.process is not None:
            peer.process.wait()
        reap()


def _start_and_stop(run: Run, make: Callable[[int], Peer]) -> None:
    for _ in range(run.depth.peer_repeats):
        peer = make(N)
        with _started(run, peer, N) as seconds:
            run.results.add("up100run", seconds, peer.name)
            settle(peer.settle)
            run.calm()
            for _ in range(3):
                run.results.add("ps", timed(peer.status(), env=peer.env, cwd="/").wall * 1000, peer.name)
            run.calm()
            began = time.perf_counter()
            timed(peer.stop(), env=peer.env, cwd="/")
            if until(lambda: not run.marked.sleepers(), _LIMIT, 0.005):
                run.results.add("down", (time.perf_counter() - began) * 1000, peer.name)
            else:
                run.results.say("down", "not stopped", peer.name)


def _start_big(run: Run, make: Callable[[int], Peer]) -> None:
    for _ in range(run.depth.peer_repeats):
        peer = make(500)
        with _started(run, peer, 500) as seconds:
            run.results.add("up500run", seconds, peer.name)


def _steady(run: Run, make: Callable[[int], Peer]) -> None:
    peer = make(N)
    with _started(run, peer, N):
        settle(peer.settle)
        found = memory_kb(run.marked.side())
        run.results.add("pss", found["pss"] / 1000, peer.name)
        run.results.add("rss", found["rss"] / 1000, peer.name)
        for _ in range(run.depth.windows if run.wants("idle") else 0):
            before = {p: cpu_ns(p) for p in run.marked.side()}
            settle(run.depth.window_s)
            used = sum(cpu_ns(p) - before.get(p, 0) for p in run.marked.side())
            run.results.add("idle", used / 1e9 * 20 / run.depth.window_s, peer.name)
        if run.wants("restart"):
            for victim in random.Random(7).sample(sorted(run.marked.sleepers()), run.depth.peer_kills):
                seconds = restart_seconds(run.marked, victim, limit=15)
                if seconds is not None:
                    run.results.add("restart", seconds * 1000, peer.name)


def _crash(run: Run, make: Callable[[int], Peer]) -> None:
    peer = make(N)
    with _started(run, peer, N):
        settle(peer.settle)
        agents = run.marked.sleepers()
        first = peer.process
        assert first is not None
        run.marked.kill(first.pid)
        first.wait()
        settle(1)
        peer.launch()
        settle(peer.settle + 3)
        now = run.marked.sleepers()
        run.results.add("alive", len(now & agents), peer.name)
        run.results.add("doubled", len(now - agents), peer.name)
        kept = bool(now & agents) and parent(min(now & agents)) > 1
        again = restart_seconds(run.marked, min(now & agents), limit=8) if kept else None
        run.results.say("reattached", "never" if again is None else "yes", peer.name)


def _help(run: Run, make: Callable[[int], Peer]) -> None:
    peer = make(1)
    argv = peer.help()
    if argv:
        run.calm()
        for _ in range(run.depth.cpu_runs):
            run.results.add("help", timed(argv, env=peer.env, cwd="/").cpu * 1000, peer.name)


def _alone(run: Run, make: Callable[[int], Peer]) -> None:
    for _ in range(run.depth.peer_repeats):
        peer = make(1)
        with _started(run, peer, 1) as seconds:
            run.results.add("launch", seconds, peer.name)
            settle(1)
            found = memory_kb(run.marked.side())
            run.results.add("launchpss", found["pss"] / 1000, peer.name)
            run.results.add("launchrss", found["rss"] / 1000, peer.name)
