"""Keepers that are killed: their agents live on, are taken over, and none is started twice. With and without pidfds."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import DEADLINE, alive, cmdline, descriptors, environment, gone, kill, wait_for
from tests.e2e.rig import Supervisor, spawn

both_ways = pytest.mark.parametrize("exit_watch", ["kernel", "poll"])
KERNEL = tuple(int(part) for part in os.uname().release.split(".")[:2])


def assert_truthful(end: Any, exit_watch: str, *, signal_name: str) -> None:
    """The true status where the kernel tells it (a held pidfd, Linux 6.15+), else `unknown`; never a code."""
    if exit_watch == "kernel" and KERNEL >= (6, 15):
        assert (end["outcome"], end["signal"]) == ("signaled", signal_name)
    else:
        assert (end["outcome"], end["signal"]) in (("signaled", signal_name), ("unknown", None))
    assert end["code"] is None


def sleepers(sv: Supervisor) -> set[int]:
    return {p for p in sv.alive() if cmdline(p)[:1] and cmdline(p)[0].endswith("sleep")}


@both_ways
def test_30_agents_of_a_killed_keeper_live_on_are_taken_over_once_and_can_be_stopped(
    sv: Supervisor, exit_watch: str
) -> None:
    """P16."""
    names = [f"a{n}" for n in range(30)]
    sv.tree_file({n: {"profile": "shell", "args": ["sleep", "1000"]} for n in names})
    sv.run("up", "team.toml")
    before = sv.ps()
    pids = {before[n]["pid"] for n in names}
    (keeper,) = {before[n]["keeperPid"] for n in names}

    kill(keeper)

    assert sleepers(sv) == pids
    stale = sv.ps()
    assert {stale[n]["verdict"] for n in names} == {"stale"}
    assert f"its keeper (pid {keeper}) is gone" in stale["a0"]["evidence"]

    done = sv.json("reconcile")

    assert sorted((d["name"], d["what"]) for d in done) == sorted((n, "attached") for n in names)
    after = sv.ps()
    assert {after[n]["pid"] for n in names} == pids
    assert {after[n]["verdict"] for n in names} == {"alive"}
    assert sleepers(sv) == pids
    assert sv.json("reconcile") == []
    assert sv.ps()["a0"]["keeperPid"] == after["a0"]["keeperPid"]

    kill(after["a7"]["pid"], signal.SIGTERM)
    assert_truthful(sv.ended("a7"), exit_watch, signal_name="TERM")

    sv.run("down", "team.toml")
    assert not sleepers(sv)
    assert {r["status"] for r in sv.ps().values()} == {"closed"}


@both_ways
def test_the_end_of_an_agent_that_was_taken_over_is_recorded_and_waited_for(sv: Supervisor, exit_watch: str) -> None:
    sv.sh("a1", "while [ ! -e go ]; do sleep 0.02; done; exit 5")
    kill(sv.keeper("a1"))
    waiting = sv.start("wait", "a1")  # a scan: it takes the agent over
    wait_for(lambda: sv.row("a1")["verdict"] == "alive", "its new keeper")

    (sv.work / "go").touch()

    end = sv.ended("a1")
    if exit_watch == "kernel" and KERNEL >= (6, 15):
        assert (end["outcome"], end["code"], waiting.wait(60)) == ("exited", 5, 5)
    else:
        assert (end["outcome"], end["code"]) in (("exited", 5), ("unknown", None))
        assert waiting.wait(60) == (5 if end["outcome"] == "exited" else 1)
    assert end["success"] in (False, None)


@both_ways
def test_an_agent_that_was_taken_over_is_started_again_as_it_was(sv: Supervisor, exit_watch: str) -> None:
    told = sv.launch("a1", options=("--restart", "permanent", "--env", "GIVEN=secret"))
    kill(sv.keeper("a1"))
    sv.run("reconcile")

    kill(told["pid"])

    again = wait_for(lambda: (r := sv.row("a1"))["pid"] != told["pid"] and r["ready"] and r, "its next generation")
    assert isinstance(again, dict)
    assert again["sessionId"] == told["sessionId"]
    seen = environment(again["pid"])
    assert (seen["GIVEN"], seen["SUPERVISOR_SESSION_ID"]) == ("secret", told["sessionId"])
    assert len(sleepers(sv)) == 1


@both_ways
def test_a_keeper_killed_twice_is_replaced_twice(sv: Supervisor, exit_watch: str) -> None:
    told = sv.launch("a1")
    keepers = {sv.keeper("a1")}

    for _ in range(2):
        kill(sv.keeper("a1"))
        sv.run("reconcile")
        keepers.add(sv.keeper("a1"))

    assert len(keepers) == 3
    assert sv.pid("a1") == told["pid"]
    sv.run("stop", "a1")
    assert gone(told["pid"])


@both_ways
def test_helpers_of_an_agent_that_was_taken_over_are_stopped_with_it(sv: Supervisor, exit_watch: str) -> None:
    """The new keeper is no reaper of theirs: they are found by the marker."""
    script = "setsid sleep 1000 & (setsid sleep 1000 &); (sleep 1000 &); exec sleep 1000"
    sv.sh("a1", script)
    wait_for(lambda: len(sleepers(sv)) == 4, "the agent and its helpers")
    kill(sv.keeper("a1"))

    sv.run("stop", "--grace", "0.5", "a1")

    assert not sleepers(sv)


@pytest.mark.parametrize(
    "command",
    [("launch", "--detach", "shell", "--", "true"), ("up",), ("wait", "--timeout", "0.1", "a1")],
    ids=["launch", "up", "wait"],
)
def test_every_command_that_scans_takes_agents_over(sv: Supervisor, command: tuple[str, ...]) -> None:
    sv.tree_file({"b1": {"profile": "shell", "args": ["sleep", "1000"]}}, name="supervisor.toml")
    told = sv.launch("a1")
    keeper = sv.keeper("a1")
    kill(keeper)

    sv.run(*command, code=None)

    row = sv.row("a1")
    assert (row["pid"], row["verdict"]) == (told["pid"], "alive")
    assert row["keeperPid"] != keeper


def test_two_reconciles_at_once_take_an_agent_over_once(sv: Supervisor) -> None:
    sv.tree_file({f"a{n}": {"profile": "shell", "args": ["sleep", "1000"]} for n in range(10)})
    sv.run("up", "team.toml")
    kill(sv.keeper("a0"))

    racing = [sv.start("reconcile", "--json") for _ in range(6)]
    done = [json.loads(r.communicate(timeout=60)[0]) for r in racing]

    assert {r.returncode for r in racing} == {0}
    attached = [d["name"] for told in done for d in told if d["what"] == "attached"]
    assert sorted(attached) == [f"a{n}" for n in range(10)]
    assert len(sleepers(sv)) == 10
    wait_for(
        lambda: len(sv.alive()) == 10 + len({r["keeperPid"] for r in sv.ps().values()}), "no keeper without agents"
    )


def test_the_parents_keeper_replaces_a_killed_keeper_of_a_child_by_itself(sv: Supervisor) -> None:
    """No command of ours scans here: records are read as files."""
    sv.demo("lead", spawn("kid", "SLEEP: 1000") + "\nSLEEP: 1000")
    rows = sv.wait_ready("lead", "kid")

    kill(rows["kid"]["keeperPid"])

    wait_for(lambda: keeper_on_record(sv, "kid") != rows["kid"]["keeperPid"], "a new keeper on record")
    assert alive(keeper_on_record(sv, "kid"))
    assert sv.record("kid")["generation"]["process"]["key"]["pid"] == rows["kid"]["pid"]
    assert alive(rows["kid"]["pid"])
    assert sv.json("reconcile") == []


@both_ways
def test_the_parents_keeper_replaces_a_killed_keeper_of_a_child_that_was_launched_elsewhere(
    sv: Supervisor, exit_watch: str
) -> None:
    """A child given by --parent is not below the parent's keeper; without pidfds the slow look finds it."""
    sv.setting("processMatrix.watcher_poll_ms", 1000)
    sv.launch("lead")
    told = sv.launch("kid", options=("--parent", "lead"))
    lead, keeper = sv.keeper("lead"), sv.keeper("kid")
    if exit_watch == "kernel":
        wait_for(lambda: any("pidfd" in to for to in descriptors(lead).values()), "the parent's keeper watching")

    kill(keeper)

    wait_for(lambda: keeper_on_record(sv, "kid") != keeper, "a new keeper on record")
    assert sv.record("kid")["generation"]["process"]["key"]["pid"] == told["pid"]
    assert alive(told["pid"])


def test_a_keeper_of_a_child_that_is_killed_before_the_parents_keeper_has_looked_is_replaced_too(
    sv: Supervisor,
) -> None:
    sv.setting("processMatrix.watcher_poll_ms", 1000)
    sv.launch("lead")
    told = sv.launch("kid", options=("--parent", "lead"))
    keeper = keeper_on_record(sv, "kid")

    kill(keeper)

    wait_for(lambda: keeper_on_record(sv, "kid") != keeper, "a new keeper on record")
    assert alive(told["pid"])


def keeper_on_record(sv: Supervisor, name: str) -> int:
    return int(sv.record(name)["keeper"]["process"]["key"]["pid"])


def as_left_by_a_crash_before_the_pid_was_written(record: Any) -> None:
    since = record["state"]["since"]
    record["state"] = {"status": "starting", "since": since, "attempt": 0, "notBefore": None, "waitsFor": []}
    record["generation"]["process"] = None


@both_ways
def test_an_agent_whose_keeper_died_between_spawn_and_record_is_found_by_its_nonce(
    sv: Supervisor, exit_watch: str
) -> None:
    """P17."""
    told = sv.sh("a1", "sleep 1000 & sleep 1000 & wait")
    wait_for(lambda: len(sleepers(sv)) == 2, "the agent's own children, which bear the nonce too")
    kill(sv.keeper("a1"))
    sv.edit("a1", as_left_by_a_crash_before_the_pid_was_written)

    sv.run("reconcile")

    row = sv.row("a1")
    assert (row["pid"], row["status"], row["verdict"]) == (told["pid"], "running", "alive")
    assert len(sleepers(sv)) == 2


@both_ways
def test_an_agent_whose_keeper_died_before_the_spawn_is_not_started_behind_the_users_back(
    sv: Supervisor, exit_watch: str
) -> None:
    told = sv.launch("a1", options=("--restart", "permanent"))
    kill(sv.keeper("a1"))
    kill(told["pid"])
    sv.edit("a1", as_left_by_a_crash_before_the_pid_was_written)

    sv.run("reconcile")

    end = sv.ended("a1")
    assert (end["outcome"], end["cause"]) == ("not_started", "lost")
    wait_for(lambda: not sv.alive(), "nothing started")


def test_an_agent_found_dead_without_its_keeper_ends_as_unknown_or_resumable(sv: Supervisor) -> None:
    """Never 0, never "failed"."""
    shell, demo = sv.launch("a1"), sv.demo("d1", "SLEEP: 1000")
    for name, told in (("a1", shell), ("d1", demo)):
        kill(sv.keeper(name))
        kill(told["pid"])

    sv.run("reconcile")

    a1, d1 = sv.record("a1")["state"], sv.record("d1")["state"]
    assert (a1["status"], d1["status"]) == ("closed", "resumable")
    for state in (a1, d1):
        end = state["handOff"]
        assert (end["outcome"], end["cause"], end["code"], end["success"]) == ("unknown", "lost", None, None)


def test_an_agent_found_dead_without_its_keeper_is_started_again_where_its_policy_is_permanent(sv: Supervisor) -> None:
    told = sv.launch("a1", options=("--restart", "permanent"))
    kill(sv.keeper("a1"))
    kill(told["pid"])

    sv.run("reconcile")

    row = wait_for(lambda: (r := sv.row("a1"))["pid"] != told["pid"] and r["ready"] and r, "its next generation")
    assert isinstance(row, dict)
    assert len(sleepers(sv)) == 1


@pytest.mark.parametrize(
    "command", [("stop", "a1"), ("wait", "a1"), ("down", "team.toml")], ids=["stop", "wait", "down"]
)
def test_the_first_command_after_an_agent_and_its_keeper_were_killed_says_how_it_ended(
    sv: Supervisor, command: tuple[str, ...]
) -> None:
    """Its own scan records the end: it must not wait for a keeper that will never answer."""
    sv.tree_file({"a1": {"profile": "shell", "args": ["sleep", "1000"]}})
    sv.run("up", "team.toml")
    before = sv.row("a1")
    kill(before["keeperPid"])
    kill(before["pid"])
    running = sv.start(*command)

    out, err = running.communicate(timeout=DEADLINE)

    assert running.returncode == (1 if command[0] == "wait" else 0), err
    assert b"does not answer" not in err and b"its keeper died meanwhile" not in err
    assert b"nobody could learn how" in out + err or command[0] == "down"
    assert sv.row("a1")["status"] == "closed"


def test_reconcile_leaves_no_temp_file_and_no_second_heartbeat(sv: Supervisor) -> None:
    for number in range(3):
        sv.launch(f"a{number}")
        kill(sv.keeper(f"a{number}"))
    sv.run("reconcile")

    sv.run("stop", "a0", "a1", "a2")

    wait_for(lambda: not sv.alive(), "the end of all of it")
    left = [f for f in Path(sv.home).rglob("*") if f.name.endswith(".tmp")]
    assert left == []
