"""The measures of recovery: a hundred orphans are offered, and come back by themselves with their resumed parent."""

from __future__ import annotations

import subprocess
import time

from tests.bench.ours import TREE, Ours
from tests.bench.procs import SECONDS, SLEEP, until
from tests.bench.run import Run, Scenario, settle

ORPHANS = 100


def recovery(run: Run) -> None:
    """The parent of 100 is killed: until the first is offered, then until all of them are its children again."""
    for _ in range(run.depth.repeats):
        ours = run.ours()
        try:
            _orphan(run, ours)
            run.results.add("recoverfirst", _first_line(run, ours))
            began = time.perf_counter()
            ours.run("resume", "lead", "--detach", "--prompt", f"SLEEP: {SECONDS}")
            if until(lambda ours=ours: _all_run(ours), 10, 0.05):
                run.results.add("readopted", time.perf_counter() - began)
            else:
                run.problem("not all of 100 orphans came back with their parent")
        finally:
            run.marked.end_all()


def _orphan(run: Run, ours: Ours) -> None:
    """A lead that can be resumed, and 100 workers in their grace."""
    kids = "".join(
        f'[agents.k{i}]\nprofile = "shell"\nargs = ["{SLEEP.rsplit("/", 1)[1]}", "{SECONDS}"]\nparent = "lead"\n'
        for i in range(ORPHANS)
    )
    file = ours.folder / "orphans.toml"
    file.write_text(f'name = "{TREE}"\n[agents.lead]\nprofile = "demo"\nprompt = "SLEEP: {SECONDS}"\n{kids}')
    ours.run("up", str(file))
    lead = next(r for r in ours.rows() if r["name"] == "lead")
    run.marked.kill(lead["pid"])
    if not until(lambda: sum(r["adoptableUntil"] is not None for r in ours.rows()) == ORPHANS, 10, 0.05):
        run.problem("not all of 100 workers were wound down")
    settle(0.5)
    run.calm()


def _first_line(run: Run, ours: Ours) -> float:
    began = time.perf_counter()
    words = [str(ours.binary), "recover"]
    command = subprocess.Popen(words, env=ours.env, cwd=ours.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert command.stdout is not None
    with command.stdout as lines:
        first = lines.readline()
        seconds = time.perf_counter() - began
        told = 1 + len(lines.readlines())
    if command.wait() or not first or told < ORPHANS:
        run.problem(f"recover told of {told} orphans instead of {ORPHANS}")
    return seconds


def _all_run(ours: Ours) -> bool:
    rows = ours.rows()
    return len(rows) == ORPHANS + 1 and all((r["status"], r["verdict"]) == ("running", "alive") for r in rows)


RECOVERY: tuple[tuple[Scenario, tuple[str, ...]], ...] = ((recovery, ("recoverfirst", "readopted")),)
"""Each with the measures it takes."""
