"""`python -m tests.bench [--quick] [--only NAME] [--json FILE]`: one table; exit 1 when a must is missed.

2: it cannot measure here (no Linux, or the project could not be installed).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.bench import asks, beside, machine, scenarios
from tests.bench.install import RESULTS, alone, install_ours, install_peers, sweep
from tests.bench.machine import Quiet
from tests.bench.report import BY_NAME, MEASURES, Results, Sample, table
from tests.bench.run import QUICK, Depth, Run

_NOT_QUICK = ("up500", "up500run", "idletree", "ps10000", "all10000")


def main() -> int:
    """The run; its exit code."""
    given = _arguments()
    if not sys.platform.startswith("linux"):
        print("the bench reads /proc and needs Linux", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, _terminated)
    with alone():
        return _measured(given)


def _measured(given: argparse.Namespace) -> int:
    names = _names(given.only, quick=given.quick)
    print("  installing", file=sys.stderr, flush=True)
    try:
        binaries = Path(given.bin) if given.bin else install_ours()
    except (subprocess.CalledProcessError, OSError, RuntimeError) as error:
        print(f"the project could not be installed: {_why(error)}", file=sys.stderr)
        return 2
    peer_binaries = install_peers() if given.peers else None
    facts = machine.facts(str(RESULTS))
    facts["load before"] = machine.load()
    began = time.monotonic()
    run = Run(binaries, QUICK if given.quick else Depth(), names, Quiet(given.patience))
    peers: dict[str, str] = {}
    try:
        scenarios.measure(run)
        if given.peers:
            peers = beside.measure(run, peer_binaries)
        if any(who == asks.PEER for _, who in run.results.samples):
            peers[asks.PEER] = "250 ms"
    finally:
        run.marked.end_all()
        for folder in (run.folder, run.sockets):
            shutil.rmtree(folder, ignore_errors=True)
        sweep(binaries)
    facts["load after"] = machine.load()
    facts["quiet"] = f"{run.quiet.asked - run.quiet.loud} of {run.quiet.asked} moments"
    facts["took"] = f"{time.monotonic() - began:.0f} s"
    return _tell(run.results, names, peers, facts, Path(given.json) if given.json else None)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="no peers, no 500, no 10,000, short windows (about 1 min)")
    parser.add_argument("--only", metavar="NAME", action="append", help=f"of: {', '.join(BY_NAME)} (repeatable)")
    parser.add_argument("--json", metavar="FILE", help="also write all samples there")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="ours alone")
    parser.add_argument("--patience", type=float, default=10, metavar="S", help="wait so long for a quiet moment [10]")
    parser.add_argument("--bin", metavar="DIR", help="measure the supervisor and python there, install nothing")
    given = parser.parse_args()
    unknown = [n for n in given.only or () if n not in BY_NAME]
    if unknown:
        parser.error(f"there is no measure {', '.join(unknown)}")
    given.peers = given.peers and not given.quick
    return given


def _names(only: list[str] | None, *, quick: bool) -> list[str]:
    return [m.name for m in MEASURES if (m.name in only if only else not (quick and m.name in _NOT_QUICK))]


def _terminated(_number: int, _frame: object) -> None:
    """Through `finally`, so that nothing is left behind."""
    sys.exit(143)


def _why(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return f"{' '.join(error.cmd)}: {error.stderr.decode(errors='replace').strip()[-800:]}"
    return str(error)


def _tell(
    results: Results, names: list[str], peers: Mapping[str, str], facts: Mapping[str, str], file: Path | None
) -> int:
    missed = results.missed()
    print("\n" + table(results, names, peers) + "\n")
    print(" · ".join(f"{name} {value}" for name, value in facts.items()))
    if any(not results.figures(name)[1] for name in names):
        print("~ the machine was not quiet: run again, or with a longer --patience")
    for problem in missed:
        print(f"MISSED {problem}")
    if file:
        samples: dict[str, dict[str, list[Sample]]] = {}
        for (name, who), values in results.samples.items():
            samples.setdefault(name, {})[who] = values
        document = {"machine": facts, "peers": peers, "missed": missed, "samples": samples}
        file.write_text(json.dumps(document, indent=1) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    os.chdir(RESULTS.parent)
    sys.exit(main())
