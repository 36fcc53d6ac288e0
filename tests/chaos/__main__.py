"""`python -m tests.chaos [--seed N] [--faults N] [--quick]`: exit 1 when something does not hold.

Runs in a pid namespace of its own where it may, so that pids can be used again on purpose and nothing outlives it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tomli_w

from tests.chaos.decoys import Decoys
from tests.chaos.injector import PROMPT, Injector
from tests.chaos.plan import plan, roles
from tests.chaos.verdict import Found, Judge
from tests.chaos.witness import Witness
from tests.chaos.world import Record, World, is_live

NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
CALM_S = 120
PERMANENT = ("p0", "p3", "p6", "p9")
"""Parents that are started again whenever they die."""


def main() -> int:
    """The run; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--faults", type=int, default=2000)
    parser.add_argument("--quick", action="store_true", help="100 faults")
    parser.add_argument("--pace", type=float, default=0.1, metavar="S", help="rest after a fault [0.1]")
    parser.add_argument("--log", type=Path, default=Path("chaos-results/faults.jsonl"))
    parser.add_argument("--keep", action="store_true", help="leave the state root for a look")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not given.inside and _may_unshare():
        words = [*NAMESPACE, sys.executable, "-m", "tests.chaos", "--inside", *sys.argv[1:]]
        return subprocess.run(words, check=False).returncode
    given.log.parent.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="svchaos", dir="/tmp"))
    try:
        return _run(given, root)
    finally:
        if not given.keep:
            shutil.rmtree(root, ignore_errors=True)


def _may_unshare() -> bool:
    if not shutil.which("unshare"):
        return False
    words = [*NAMESPACE, "sh", "-c", "echo 99 > /proc/sys/kernel/ns_last_pid"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def _run(given: argparse.Namespace, root: Path) -> int:
    began = time.monotonic()
    world = World(root)
    decoys = Decoys(root, may_choose=given.inside)
    decoys.anywhere()
    injector = Injector(world, decoys, given.log)
    witness = Witness(world)
    names = roles()
    print(f"seed {given.seed}, state root {world.home}, faults in {given.log}", flush=True)
    _launch(world, injector, names)
    print(f"  {len(names)} agents after {time.monotonic() - began:.0f} s", flush=True)
    _storm(given, injector, witness, names)
    print(f"  storm over after {time.monotonic() - began:.0f} s", flush=True)
    unsettled = _calm(world, injector, witness)
    judge = Judge(world, injector, witness, decoys)
    found: Found = {**judge.calm(), "not settled": unsettled, **judge.final()}
    faults = sum(injector.counts.values())
    print(f"{faults} faults: {json.dumps(injector.counts)}")
    print(f"{len(injector.done)} racing commands: {json.dumps(injector.racing)}; {len(injector.asked)} asks")
    print(f"{len(witness.entries)} entries seen, {len(injector.torn)} torn by faults, "
          f"{len(judge.lost_by_design)} of them lost by design; {len(decoys.pids)} strangers, "
          f"{decoys.recycled} on recycled pids")  # fmt: skip
    print(f"{time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}")
    decoys.end()
    for name, cases in found.items():
        print(f"{len(cases):4d} {name}")
        for case in cases[:10]:
            print(f"       {case}")
    return 1 if any(found.values()) else 0


def _launch(world: World, injector: Injector, names: list[str]) -> None:
    """Half of the workers with the parents in one tree and under one keeper; the others launched one by one."""
    agents: dict[str, dict[str, str]] = {}
    for name in names[:31]:
        agents[name] = {"profile": "demo", "prompt": PROMPT, "task_ref": "t"}
        if name != "root":
            agents[name]["parent"] = "root" if name[0] == "p" else f"p{int(name[1:]) % 10}"
        if name in PERMANENT:
            agents[name]["restart"] = "permanent"
    file = world.work / "tree.toml"
    file.write_text(tomli_w.dumps({"name": "chaos", "agents": agents}))
    code, out = world.run("up", str(file))
    if code:
        raise SystemExit(f"up ended with {code}: {out}")
    for name in names[31:]:
        words = ("launch", "--detach", "--name", name, "--parent", f"p{int(name[1:]) % 10}", "--task-ref", "t", "demo")
        injector.commands.append(world.start(*words, "--prompt", PROMPT))
        _room(injector, 4)
    _room(injector, 1)


def _room(injector: Injector, below: int) -> None:
    deadline = time.monotonic() + CALM_S
    while len(injector.commands) >= below and time.monotonic() < deadline:
        injector.collect()
        time.sleep(0.01)


def _storm(given: argparse.Namespace, injector: Injector, witness: Witness, names: list[str]) -> None:
    wanted = 100 if given.quick else given.faults
    done = 0
    for fault in plan(given.seed, names):
        records, processes = witness.look()
        hit = injector.inject(fault, records, processes)
        done += hit
        injector.race(fault, records)
        injector.keep_asking(fault, records)
        injector.collect()
        if done >= wanted:
            return
        time.sleep(given.pace if hit else 0.02)


def _calm(world: World, injector: Injector, witness: Witness) -> list[str]:
    """Continue everybody, let the commands end, reconcile until nothing changes any more."""
    world.clock_ms = 0
    injector.continue_all()
    deadline = time.monotonic() + CALM_S
    while (injector.commands or injector.asks) and time.monotonic() < deadline:
        injector.collect()
        witness.look()
        time.sleep(0.1)
    while True:
        world.run("reconcile")
        injector.collect()
        records, _ = witness.look()
        busy = [f"{r['name']} {r['entryId']} {json.dumps(r['state'])[:300]}" for r in records if _moves(world, r)]
        if not busy or time.monotonic() > deadline + CALM_S:
            return busy
        time.sleep(0.5)


def _moves(world: World, record: Record) -> bool:
    """Whether something will still become of it by itself."""
    if not is_live(record):
        return False
    alive = world.lives(record["keeper"]["process"]) and world.lives(record["generation"]["process"])
    return record["state"]["status"] != "running" or not alive


if __name__ == "__main__":
    sys.exit(main())
