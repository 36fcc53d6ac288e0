"""The measures of our side, each scenario in a fresh state root. Every one leaves no process behind, or says so."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.bench.asks import ASKS
from tests.bench.latency import restart_seconds
from tests.bench.ours import Ours
from tests.bench.procs import SECONDS, SLEEP, Marked, cpu_ns, memory_kb, until
from tests.bench.recovery import RECOVERY
from tests.bench.run import Run, Scenario, settle

N = 100
MANY = 10_000


@contextmanager
def fresh(run: Run) -> Iterator[Ours]:
    """A fresh state root; whatever was started in it is ended afterwards.

    Its files stay until the run is over: ext4 does not give a freed inode out again for minutes, and searching past
    the freed ones makes every new file dearer (a tenth of a millisecond after a few thousand deletions).
    """
    try:
        yield run.ours()
    finally:
        run.marked.end_all()


def up_and_down(run: Run) -> None:
    """`up`, `ps --json`, `down` of 100, again and again in one state root (the first warms the disk's caches)."""
    with fresh(run) as ours:
        file = ours.tree(N)
        ours.run("ps", "--json")
        for _ in range(run.depth.repeats):
            _up(run, ours, file, N, "up100")
            settle(0.5)
            for _ in range(3 if run.wants("ps") else 0):
                run.calm()
                run.results.add("ps", ours.run("ps", "--json").wall * 1000)
            _down(run, ours, file, "down")


def _up(run: Run, ours: Ours, file: str, agents: int, name: str) -> set[int]:
    run.calm()
    done = ours.run("up", file)
    running = run.expect(agents, name)
    run.results.add(name, done.wall)
    run.results.add(f"{name}run", run.all_run_since(done.issued, running))
    return running


def _down(run: Run, ours: Ours, file: str, name: str | None) -> None:
    run.calm()
    began = time.perf_counter()
    done = ours.run("down", file)
    gone = not run.marked.sleepers()
    wall = done.wall if gone else time.perf_counter() - began
    if not gone:
        run.problem("down returned before all agents had ended")
    if name:
        run.results.add(name, wall * 1000)
    if not until(lambda: not run.marked.pids(), 5):
        run.problem(f"left after down: {len(run.marked.pids())} processes")


def big(run: Run) -> None:
    """`up` and `down` of 500."""
    with fresh(run) as ours:
        file = ours.tree(500)
        for _ in range(run.depth.big_repeats):
            _up(run, ours, file, 500, "up500")
            settle(0.5)
            _down(run, ours, file, None)


def steady(run: Run) -> None:
    """One tree of 100 that runs for a while: memory, idle processor time, then replacements."""
    with fresh(run) as ours:
        file = ours.tree(N)
        ours.run("up", file)
        settle(2)
        _memory(run)
        if run.wants("idle"):
            settle(run.depth.settle_s)
            for seconds in idle_windows(run, run.marked):
                run.results.add("idle", seconds)
                _memory(run)
        if run.wants("restart"):
            _replacements(run, ours)
        _down(run, ours, file, None)


def steady_tree(run: Run) -> None:
    """The same with parentage: a hundred masters have nobody above them to look at."""
    with fresh(run) as ours:
        file = ours.tree(N, lead=True)
        ours.run("up", file)
        settle(run.depth.settle_s)
        for seconds in idle_windows(run, run.marked):
            run.results.add("idletree", seconds)
        _down(run, ours, file, None)


def _memory(run: Run) -> None:
    found = memory_kb(run.marked.side())
    run.results.add("pss", found["pss"] / 1000)
    run.results.add("rss", found["rss"] / 1000)


def idle_windows(run: Run, marked: Marked) -> Iterator[float]:
    """Processor seconds of the supervisor's side per 20 s, window after window."""
    for _ in range(run.depth.windows):
        run.calm()
        before = {p: cpu_ns(p) for p in marked.side()}
        settle(run.depth.window_s)
        used = sum(cpu_ns(p) - before.get(p, 0) for p in marked.side())
        yield used / 1e9 * 20 / run.depth.window_s


def _replacements(run: Run, ours: Ours) -> None:
    victims = random.Random(7).sample(sorted(run.marked.sleepers()), run.depth.kills)
    for victim in victims:
        run.calm()
        seconds = restart_seconds(run.marked, victim, limit=5)
        if seconds is None:
            run.problem("a killed agent was not replaced within 5 s")
        else:
            run.results.add("restart", seconds * 1000)
    settle(0.3)
    run.expect(N, "after the replacements")
    counted = sum(r["restarts"] for r in ours.rows())
    if counted != len(victims):
        run.problem(f"{len(victims)} agents were killed, {counted} restarts are on record")


def crash(run: Run) -> None:
    """kill -9 of the keeper, then `reconcile`: every agent is kept again, none twice, and all can be stopped."""
    with fresh(run) as ours:
        file = ours.tree(N)
        for _ in range(run.depth.big_repeats):
            ours.run("up", file)
            agents = run.expect(N, "before the keeper's death")
            keepers = ours.keepers()
            for keeper in keepers:
                run.marked.kill(keeper)
            until(partial(_gone, run, keepers), 5)
            run.calm()
            began = time.perf_counter()
            wall = ours.run("reconcile").wall
            if not _kept(ours, keepers):
                if not until(partial(_kept, ours, keepers), 10, 0.05):
                    run.problem("reconcile did not re-attach every agent")
                wall = time.perf_counter() - began
            settle(0.3)
            now = run.marked.sleepers()
            run.results.add("alive", len(now & agents))
            run.results.add("doubled", len(now - agents))
            run.results.add("reattached", wall)
            _down(run, ours, file, None)


def _gone(run: Run, pids: set[int]) -> bool:
    return not pids & run.marked.pids()


def _kept(ours: Ours, dead: Collection[int]) -> bool:
    rows = ours.rows()
    return len(rows) == N and all(r["verdict"] == "alive" and r["keeperPid"] not in dead for r in rows)


def lost(run: Run) -> None:
    """A parent is killed: until its worker's record says so, seen by reading the file again and again."""
    with fresh(run) as ours:
        for number in range(2 * run.depth.repeats):
            alone = number % 2 == 1
            ours.run("launch", "--detach", "--name", "lead", "shell", "--", SLEEP, SECONDS)
            ours.run("launch", "--detach", "--name", "kid", "--parent", "lead", "shell", "--", SLEEP, SECONDS)
            settle(0.5)  # the worker's keeper has looked at its parent
            rows = {r["name"]: r for r in ours.rows()}
            record = ours.home / "process-matrix" / f"worker-{rows['kid']['sessionId']}.json"
            run.calm()
            if not alone:
                run.marked.kill(rows["lead"]["keeperPid"])
            run.marked.kill(rows["lead"]["pid"])
            began = time.perf_counter()
            if until(partial(_marked, record), 5, 0):
                run.results.add("lostkept" if alone else "lost", (time.perf_counter() - began) * 1000)
            else:
                run.problem("a worker did not learn within 5 s that its parent was lost")
            ours.run("stop", "kid")
            if not until(lambda: not run.marked.pids(), 5):
                run.problem("left after stop: processes of a lost parent")


def _marked(record: Path) -> bool:
    """Wound down, or offered already: the two writes are less than a millisecond apart."""
    return json.loads(record.read_bytes())["state"]["status"] in ("winding_down", "resumable")


def cpu(run: Run) -> None:
    """Processor time of `--help`, and of `ps` with 200 live agents, each the least of many."""
    with fresh(run) as ours:
        file = ours.tree(200)
        ours.run("up", file)
        settle(1)
        run.calm()
        for _ in range(run.depth.cpu_runs):
            run.results.add("help", ours.run("--help").cpu * 1000)
            run.results.add("ps200", ours.run("ps").cpu * 1000)
            run.results.add("python", ours.python("-c", "pass").cpu * 1000)
        _down(run, ours, file, None)


def many(run: Run) -> None:
    """`ps --json` with many records: live ones, each of the first thousand behind a process of its own."""
    cases: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
        ("ps1000", 1000, 999, ()),
        ("ps10000", MANY, MANY - 1, ()),
        ("all10000", MANY, 99, ("--all",)),
    )
    for name, count, live, options in cases:
        if run.wants(name):
            with fresh(run) as ours, _processes(run, 1000) as pids:
                ours.run("launch", "--detach", "shell", "--", SLEEP, SECONDS)
                ours.inside("clone", str(ours.home), str(count - 1), str(live), feed=json.dumps(pids).encode())
                _ps(run, ours, name, count, *options)


def _ps(run: Run, ours: Ours, name: str, expected: int, *options: str) -> None:
    for number in range(run.depth.repeats + 1):
        run.calm()
        done = ours.run("ps", "--json", *options)
        if number:  # the first one finds a cold cache
            run.results.add(name, done.wall)
    found = len(json.loads(done.out))
    if found != expected:
        run.problem(f"{name}: {found} rows instead of {expected}")


@contextmanager
def _processes(run: Run, count: int) -> Iterator[list[int]]:
    started = [
        subprocess.Popen([SLEEP, SECONDS], env=run.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for _ in range(count)
    ]
    try:
        yield [p.pid for p in started]
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


def conditional_replace(run: Run) -> None:
    """The store's compare-and-swap with its sync, beside the bare system calls."""
    with fresh(run) as ours:
        ours.run("launch", "--detach", "shell", "--", SLEEP, SECONDS)
        for _ in range(3):
            run.calm()
            ours_p50, bare_p50 = json.loads(ours.inside("replace", str(ours.home), str(run.depth.replaces)))["p50"]
            run.results.add("replace", ours_p50)
            run.results.add("floor", bare_p50)


def launch_alone(run: Run) -> None:
    """One detached launch, and what its keeper weighs a second later: in a fresh root, and in one with a past."""
    with fresh(run) as ours:
        _launches(run, ours, ("launch", "launchpss", "launchrss"))
    if run.wants("launchold", "launchpssold"):
        with fresh(run) as ours:
            ours.run("launch", "--detach", "shell", "--", SLEEP, SECONDS)
            ours.inside("clone", str(ours.home), "1000", "0", feed=json.dumps([os.getpid()]).encode())
            ours.run("stop", "shell")
            _launches(run, ours, ("launchold", "launchpssold", None))


def _launches(run: Run, ours: Ours, names: tuple[str, str, str | None]) -> None:
    wall, pss, rss = names
    for number in range(run.depth.repeats + 1):
        run.calm()
        done = ours.run("launch", "--detach", "shell", "--", "sleep", "60")
        if number:  # the first one makes the state root
            run.results.add(wall, done.wall)
        settle(1)
        found = memory_kb(ours.keepers())
        run.results.add(pss, found["pss"] / 1000)
        if rss:
            run.results.add(rss, found["rss"] / 1000)
        ours.run("stop", "shell")
        if not until(lambda: not run.marked.pids(), 5):
            run.problem("left after stop: processes of a single launch")


SCENARIOS: tuple[tuple[Scenario, tuple[str, ...]], ...] = (
    (up_and_down, ("up100", "up100run", "ps", "down")),
    (big, ("up500", "up500run")),
    (steady, ("idle", "pss", "rss", "restart")),
    (steady_tree, ("idletree",)),
    (crash, ("alive", "doubled", "reattached")),
    (lost, ("lost", "lostkept")),
    (cpu, ("help", "ps200", "python")),
    (conditional_replace, ("replace", "floor")),
    (launch_alone, ("launch", "launchpss", "launchrss", "launchold", "launchpssold")),
    (many, ("ps1000", "ps10000", "all10000")),
)
"""Each with the measures it takes."""


def measure(run: Run) -> None:
    """All that is wanted."""
    for scenario, names in (*SCENARIOS, *RECOVERY, *ASKS):
        if run.wants(*names):
            print(f"  ours: {scenario.__name__}", file=sys.stderr, flush=True)
            try:
                scenario(run)
            except (RuntimeError, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
                run.problem(f"{scenario.__name__}: {type(error).__name__}: {error}")
    assert os.getpid() not in run.marked.pids()
