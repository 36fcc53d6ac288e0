"""Orphans: a parent that was killed, its children below its tombstone, untouched, and told as what they are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

from tests.e2e.conftest import MakeSupervisor
from tests.e2e.processes import alive, gone, kill, stat_of, wait_for
from tests.e2e.rig import Supervisor, spawn
from tests.e2e.test_reattachment import both_ways


def a_tree(sv: Supervisor) -> dict[str, Any]:
    """P with the children C1 and C2, and G below C1; each with a keeper of its own."""
    c1 = spawn("c1", spawn("g", "SLEEP: 1000") + "\nSLEEP: 1000")
    sv.demo("p", f"{c1}\n{spawn('c2', 'SLEEP: 1000')}\nSLEEP: 1000")
    return sv.wait_ready("p", "c1", "c2", "g")


def shown(nodes: list[Any]) -> dict[str, Any]:
    return {n["name"]: shown(n["children"]) for n in nodes}


@both_ways
def test_children_of_a_killed_parent_stay_alive_below_its_tombstone(sv: Supervisor, exit_watch: str) -> None:
    """O1."""
    before = a_tree(sv)

    kill(before["p"]["keeperPid"])
    kill(before["p"]["pid"])

    nodes = sv.json("tree")
    assert shown(nodes) == {"p": {"c1": {"g": {}}, "c2": {}}}
    assert nodes[0]["verdict"] == "dead_pid"
    assert nodes[0]["evidence"] == f"pid {before['p']['pid']} is gone"
    wait_for(lambda: sv.record("c1")["state"].get("grace") and sv.record("c2")["state"].get("grace"), "two orphans")
    assert_children_untouched(sv, before)

    sv.run("reconcile")

    nodes = sv.json("tree")
    assert shown(nodes) == {"p": {"c1": {"g": {}}, "c2": {}}}
    assert nodes[0]["status"] == "resumable"
    assert_children_untouched(sv, before)


def assert_children_untouched(sv: Supervisor, before: dict[str, Any]) -> None:
    after = sv.ps()
    for name, status in (("c1", "resumable"), ("c2", "resumable"), ("g", "running")):
        assert (after[name]["verdict"], after[name]["status"]) == ("alive", status), name
        for key in ("pid", "keeperPid", "parent"):
            assert after[name][key] == before[name][key], (name, key)


def test_children_of_a_killed_parent_are_called_orphans_with_the_evidence(sv: Supervisor) -> None:
    """O1: at once, before anything has been reconciled."""
    before = a_tree(sv)

    kill(before["p"]["keeperPid"])
    kill(before["p"]["pid"])

    evidence = f"pid {before['p']['pid']} is gone"
    for name in ("c1", "c2"):
        told = sv.run("why", name).out
        assert "orphan" in told
        assert evidence in told
    assert "orphan" not in sv.run("why", "g").out  # its own parent lives
    lines = {line.split("\t")[0].strip("├─└│ "): line for line in sv.run("tree").out.splitlines()}
    assert ["orphan" in lines[n] for n in ("p", "c1", "c2", "g")] == [False, True, True, False]


SUBREAPER = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
print(subprocess.run(sys.argv[1:], check=True, capture_output=True, text=True).stdout, flush=True)
sys.stdin.read()
"""


def test_orphans_are_found_under_a_reaper_that_is_not_init_and_reaps_nobody(sv: Supervisor) -> None:
    """O3 and P5: no PPID is 1, and the dead parent stays a zombie."""
    words = ("launch", "--detach", "--json", "--name", "p", "demo", "--", spawn("c1", "SLEEP: 1000") + "\nSLEEP: 1000")
    reaper = subprocess.Popen(
        [sys.executable, "-c", SUBREAPER, *sv.argv, *words],
        env=sv.environment(),
        cwd=sv.work,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        before = sv.wait_ready("p", "c1")
        os.kill(before["p"]["keeperPid"], signal.SIGKILL)
        os.kill(before["p"]["pid"], signal.SIGKILL)
        wait_for(lambda: gone(before["p"]["pid"], before["p"]["keeperPid"]), "the end of p and its keeper")
        zombie, child = stat_of(before["p"]["pid"]), stat_of(before["c1"]["keeperPid"])
        assert zombie is not None and child is not None
        assert (zombie.state, zombie.parent, child.parent) == ("Z", reaper.pid, reaper.pid)

        (p,) = sv.json("tree")

        assert (p["verdict"], shown(p["children"])) == ("dead_pid", {"c1": {}})
        assert p["children"][0]["verdict"] == "alive"
        sv.run("stop", "c1")
        assert gone(before["c1"]["pid"])
    finally:
        reaper.kill()
        reaper.communicate()


def test_what_is_done_in_one_state_root_touches_nothing_of_another(make_sv: MakeSupervisor) -> None:
    """O4."""
    a, b = make_sv("a"), make_sv("b")
    a.launch("same")
    theirs = b.launch("same")
    keeper = b.keeper("same")
    kill(keeper)
    records = {p: p.read_bytes() for p in b.records()}

    assert a.json("reconcile") == []
    a.run("stop", "--cascade", "same")
    a.run("doctor", code=None)

    assert alive(theirs["pid"])
    assert {p: p.read_bytes() for p in b.records()} == records
    assert b.row("same")["verdict"] == "stale"
