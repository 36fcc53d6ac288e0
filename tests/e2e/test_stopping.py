"""Stopping: the whole tree of an agent ends, nothing else does, and success is never claimed without looking."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.processes import alive, gone, kill, marked, stat_of, wait_for
from tests.e2e.rig import Supervisor, spawn


def lines(path: Path, count: int) -> list[int]:
    """The pids that an agent's script has written, once there are that many."""
    wait_for(lambda: path.exists() and len(path.read_text().split()) >= count, f"{count} lines in {path.name}")
    return [int(word) for word in path.read_text().split()]


def test_stop_ends_helpers_in_other_groups_and_double_forked_grandchildren(sv: Supervisor) -> None:
    """O2."""
    note = "echo $$ >> pids; exec sleep 1000"
    script = f"setsid sh -c '{note}' & (setsid sh -c '{note}' &) ; (sh -c '{note}' &) ; {note}"
    sv.sh("a1", script)
    pids = lines(sv.work / "pids", 4)

    done = sv.run("stop", "--grace", "0.5", "a1")

    assert gone(*pids)
    assert done.out.startswith("a1: ")
    assert sv.row("a1")["status"] == "closed"
    wait_for(lambda: not sv.alive(), "the end of the keeper")


def test_a_tree_of_31_processes_with_setsid_branches_is_stopped_to_0(sv: Supervisor) -> None:
    branches = 'if [ "$1" -gt 0 ]; then setsid ./node $(($1 - 1)) & ./node $(($1 - 1)) & fi'
    sv.script("node", f"{branches}\necho $$ >> pids\nexec sleep 1000")
    sv.launch("a1", "./node", "4")
    pids = lines(sv.work / "pids", 31)
    assert len({s.session for p in pids if (s := stat_of(p))}) > 10

    sv.run("stop", "--grace", "0.3", "a1")

    assert [p for p in pids if alive(p)] == []
    assert sv.row("a1")["status"] == "closed"


def test_stop_escalates_for_a_group_member_that_ignores_term_and_returns_when_the_tree_is_empty(
    sv: Supervisor,
) -> None:
    """P7: the leader's own end is not the end."""
    sv.script("stubborn", "trap '' TERM HUP INT; echo $$ >> pids; while :; do sleep 1000; done")
    sv.sh("a1", "./stubborn & while [ ! -e pids ]; do sleep 0.02; done; exec sleep 1000")
    (helper,) = lines(sv.work / "pids", 1)

    done = sv.run("stop", "--grace", "0.4", "a1")

    assert gone(helper)
    assert "killed by TERM (stopped)" in done.out
    wait_for(lambda: not sv.alive(), "the end of the keeper")


def test_an_agent_that_ignores_the_stop_signal_is_killed_after_its_grace(sv: Supervisor) -> None:
    told = sv.demo("a1", "IGNORE: TERM\nPRINT: ignoring\nSLEEP: 1000")
    wait_for(lambda: "ignoring" in sv.transcript("a1"), "the agent ignoring TERM")

    done = sv.run("stop", "--grace", "0.3", "a1")

    assert gone(told["pid"])
    assert "a1: killed by KILL (stopped)" in done.out


def test_a_stopped_agent_is_not_started_again_whatever_its_policy(sv: Supervisor) -> None:
    sv.launch("a1", options=("--restart", "permanent"))

    sv.run("stop", "a1")

    wait_for(lambda: not sv.alive(), "the end of the keeper")
    assert (sv.row("a1")["status"], sv.row("a1")["restarts"]) == ("closed", 0)


def test_an_agent_that_stopped_itself_with_sigstop_can_be_stopped(sv: Supervisor) -> None:
    told = sv.sh("a1", "kill -STOP $$; sleep 1000")
    wait_for(lambda: (s := stat_of(told["pid"])) and s.state == "T", "the agent in state T")

    sv.run("stop", "--grace", "1", "a1")

    assert gone(told["pid"])


def test_stop_of_several_agents_names_each(sv: Supervisor) -> None:
    for name in ("a1", "a2", "a3"):
        sv.launch(name)

    told = sv.json("stop", "a1", "a3")

    assert [(r["name"], r["result"]) for r in told] == [("a1", "stopped"), ("a3", "stopped")]
    assert alive(sv.pid("a2"))


def test_stop_of_an_ended_agent_is_done_already(sv: Supervisor) -> None:
    sv.run("launch", "--name", "a1", "shell", "--", "/bin/sh", "-c", "exit 3", code=3)

    assert "a1: had ended already (exited with 3)" in sv.run("stop", "a1").out


def test_a_run_is_over_with_the_agents_exit_though_a_grandchild_holds_its_output(sv: Supervisor) -> None:
    """O5, detached."""
    sv.sh("a1", "sleep 1000 & echo $! > helper; exit 4")

    end = sv.ended("a1")

    (helper,) = lines(sv.work / "helper", 1)
    assert end["code"] == 4
    assert alive(helper)
    assert "1 of its processes still run" in end["detail"]


def test_a_foreground_run_is_over_with_the_agents_exit_though_a_grandchild_holds_the_pipe(sv: Supervisor) -> None:
    """O5, with a pipe that does not end."""
    script = "sleep 1000 & echo $! > helper; exit 4"
    launcher = sv.start("launch", "--name", "a1", "shell", "--", "/bin/sh", "-c", script)

    assert launcher.wait(60) == 4
    (helper,) = lines(sv.work / "helper", 1)
    assert alive(helper)


def test_background_jobs_of_a_killed_agent_are_found_and_ended_by_stop(sv: Supervisor) -> None:
    """P10: as the OOM killer leaves it."""
    note = "echo $$ >> pids; exec sleep 1000"
    told = sv.sh("a1", f"setsid sh -c '{note}' & (sh -c '{note}' &); exec sleep 1000")
    jobs = lines(sv.work / "pids", 2)
    kill(told["pid"])
    end = sv.ended("a1")
    wait_for(lambda: sv.alive() == set(jobs), "the end of the keeper")
    assert "2 of its processes still run" in end["detail"]

    done = sv.run("stop", "a1")

    assert gone(*jobs)
    assert "a1: what it had left behind was ended" in done.out


@pytest.mark.parametrize("how", ["kill 0", "kill -KILL 0", "kill -KILL -$$"])
def test_an_agent_that_kills_its_group_or_session_harms_no_sibling_and_no_keeper(sv: Supervisor, how: str) -> None:
    """P9."""
    script = f"while [ ! -e go ]; do sleep 0.02; done; {how}; sleep 1000"
    sv.tree_file(
        {
            "bad": {"profile": "shell", "args": ["/bin/sh", "-c", script]},
            "good": {"profile": "shell", "args": ["sleep", "1000"]},
        }
    )
    sv.run("up", "team.toml")
    before = sv.ps()
    assert before["bad"]["keeperPid"] == before["good"]["keeperPid"]

    (sv.work / "go").touch()

    assert sv.ended("bad")["signal"] in ("TERM", "KILL")
    after = sv.row("good")
    assert (after["pid"], after["keeperPid"]) == (before["good"]["pid"], before["good"]["keeperPid"])
    assert after["verdict"] == "alive"


def test_sigterm_to_the_keeper_winds_its_agents_down(sv: Supervisor) -> None:
    """P11: the stated policy, not an accident."""
    names = ("a1", "a2", "a3")
    sv.tree_file({n: {"profile": "shell", "args": ["sleep", "1000"], "restart": "permanent"} for n in names})
    sv.run("up", "team.toml")

    os.kill(sv.keeper("a1"), signal.SIGTERM)

    assert {n: (sv.ended(n)["signal"], sv.ended(n)["cause"]) for n in names} == dict.fromkeys(
        names, ("TERM", "stopped")
    )
    wait_for(lambda: not sv.alive(), "the end of all of it")


def lead_with_a_kid(sv: Supervisor) -> dict[str, dict[str, object]]:
    sv.demo("lead", spawn("kid", "SLEEP: 1000") + "\nSLEEP: 1000")
    rows = sv.wait_ready("lead", "kid")
    assert rows["kid"]["parent"] == "lead"
    return rows


def test_a_child_launched_from_inside_lives_on_when_its_parent_is_stopped(sv: Supervisor) -> None:
    """P8."""
    rows = lead_with_a_kid(sv)

    done = sv.run("stop", "lead")

    assert "its children live on as orphans: kid" in done.err
    after = sv.ps()
    assert after["lead"]["status"] == "closed"
    assert (after["kid"]["pid"], after["kid"]["keeperPid"]) == (rows["kid"]["pid"], rows["kid"]["keeperPid"])
    assert after["kid"]["verdict"] == "alive"


def test_stop_cascade_ends_the_children_first_and_then_the_parent(sv: Supervisor) -> None:
    lead_with_a_kid(sv)

    told = sv.json("stop", "--cascade", "lead")

    assert [(r["name"], r["result"]) for r in told] == [("kid", "stopped"), ("lead", "stopped")]
    wait_for(lambda: not sv.alive(), "the end of all of it")


def test_a_child_lives_on_when_its_parent_ends_by_itself(sv: Supervisor) -> None:
    sv.demo("lead", spawn("kid", "SLEEP: 1000") + "\nWAIT_FILE: go\nEXIT: 3")
    sv.wait_ready("lead", "kid")

    (sv.work / "go").touch()

    assert sv.ended("lead")["code"] == 3
    assert sv.row("kid")["verdict"] == "alive"


def test_stop_during_a_restart_backoff_is_final(sv: Supervisor) -> None:
    """P21."""
    sv.sh("a1", "echo start >> starts; while [ ! -e go ]; do sleep 0.02; done; exit 1", "--restart", "permanent")
    (sv.work / "go").touch()
    wait_for(lambda: sv.record("a1")["state"].get("attempt", 0) >= 2, "a restart that waits")

    done = sv.run("stop", "a1")

    starts = (sv.work / "starts").read_text()
    assert sv.row("a1")["status"] == "closed"
    assert done.out.startswith("a1: ")
    wait_for(lambda: not sv.alive(), "the end of the keeper")
    assert (sv.work / "starts").read_text() == starts


def test_stop_of_an_agent_whose_keeper_was_killed_attaches_first_and_then_ends_it(sv: Supervisor) -> None:
    told = sv.launch("a1")
    kill(sv.keeper("a1"))

    sv.run("stop", "a1")

    assert gone(told["pid"])
    assert sv.row("a1")["status"] == "closed"


def test_what_a_keeper_that_is_stopped_cannot_do_is_not_claimed(sv: Supervisor) -> None:
    """A keeper in SIGSTOP does not answer: the command says so and how to go on, and the agent is not touched."""
    told = sv.launch("a1")
    keeper = sv.keeper("a1")
    os.kill(keeper, signal.SIGSTOP)
    try:
        done = sv.run("stop", "--grace", "0", "a1", code=1)
    finally:
        os.kill(keeper, signal.SIGCONT)

    assert f"its keeper (pid {keeper}) does not answer" in done.err
    wait_for(lambda: gone(told["pid"]), "the end of the agent once its keeper goes on")


def test_a_restart_clears_what_the_earlier_generation_had_left(sv: Supervisor) -> None:
    told = sv.sh("a1", "setsid sleep 1000 & echo $! >> helpers; exec sleep 1000", "--restart", "permanent")
    first = lines(sv.work / "helpers", 1)

    kill(told["pid"])

    _, second = lines(sv.work / "helpers", 2)
    wait_for(lambda: gone(*first), "the end of the first generation's helper")
    assert alive(second)


def test_stop_leaves_an_agent_of_the_same_keeper_and_its_helpers_alone(sv: Supervisor) -> None:
    script = "setsid sleep 1000 & (sleep 1000 &) ; exec sleep 1000"
    sv.tree_file({n: {"profile": "shell", "args": ["/bin/sh", "-c", script]} for n in ("a1", "a2")})
    sv.run("up", "team.toml")
    wait_for(lambda: len(sv.alive()) == 7, "two agents with two helpers each, and a keeper")

    sv.run("stop", "--grace", "0.5", "a1")

    row = sv.row("a2")
    entry = f"SUPERVISOR_ENTRY_ID={row['entryId']}"
    assert len(marked(entry)) == 3
    assert sv.alive() == {*marked(entry), row["keeperPid"]}


def test_stop_in_a_copy_of_a_state_root_ends_nothing_of_the_original(sv: Supervisor) -> None:
    sv.sh("a1", "sleep 1000 & echo $! > helper; exit 4")
    sv.ended("a1")
    (helper,) = lines(sv.work / "helper", 1)
    wait_for(lambda: sv.alive() == {helper}, "the end of the keeper")
    copy = sv.root / "copy"
    subprocess.run(["cp", "-a", sv.home, copy], check=True)

    told = sv.run("stop", "a1", env={"SUPERVISOR_HOME": str(copy)})

    assert "a1: had ended already" in told.out
    assert alive(helper)
    sv.run("stop", "a1")
    assert gone(helper)
