"""Whose pid it is: nothing is signalled, adopted or started again unless the recorded process is proven to be meant."""

from __future__ import annotations

import json
import os
import signal
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import alive, end_marked, gone, kill, stat_of, wait_for
from tests.e2e.rig import Canary, Supervisor, spawn


def without_a_keeper(sv: Supervisor, name: str = "a1", *, dead: bool, options: tuple[str, ...] = ()) -> Any:
    """An agent on record whose keeper was killed, and itself too when `dead`."""
    told = sv.launch(name, options=options)
    kill(sv.keeper(name))
    if dead:
        kill(told["pid"])
    return told


def nothing_reaches(sv: Supervisor, canary: Canary) -> None:
    """Every command that could signal, over a record that is not the canary's."""
    sv.run("reconcile")
    sv.run("stop", "--cascade", "--grace", "0", "a1")
    sv.run("stop", "a1")
    sv.run("reconcile")
    assert canary.is_unharmed()


def test_a_recycled_pid_is_a_dead_agent_and_its_new_owner_is_never_signalled(sv: Supervisor) -> None:
    """I1: the pid lives, its start time is another."""
    without_a_keeper(sv, dead=True)
    canary = sv.canary()
    sv.edit("a1", lambda r: r["generation"]["process"]["key"].update(pid=canary.pid))

    row = sv.row("a1")

    assert (row["verdict"], row["pid"]) == ("dead_pid", canary.pid)
    assert row["evidence"] == f"pid {canary.pid} now belongs to another process (other start time)"
    nothing_reaches(sv, canary)


def test_a_pid_recycled_within_the_same_tick_is_told_apart_by_its_pidfd_inode(sv: Supervisor) -> None:
    without_a_keeper(sv, dead=True)
    if sv.record("a1")["generation"]["process"]["key"]["pidfdInode"] is None:
        pytest.skip("this kernel has no pidfs")
    canary = sv.canary()
    sv.edit(
        "a1",
        lambda r: r["generation"]["process"]["key"].update(pid=canary.pid, startTicks=canary.start_ticks),
    )

    assert sv.row("a1")["verdict"] == "dead_pid"
    nothing_reaches(sv, canary)


def test_a_recycled_keeper_pid_is_no_keeper(sv: Supervisor) -> None:
    told = without_a_keeper(sv, dead=False)
    canary = sv.canary()
    sv.edit("a1", lambda r: r["keeper"]["process"]["key"].update(pid=canary.pid))

    assert sv.row("a1")["verdict"] == "stale"
    sv.run("stop", "a1")

    assert gone(told["pid"])
    assert canary.is_unharmed()


def of_another_boot(record: Any) -> None:
    boot = str(uuid.uuid4())
    for process in (record["generation"]["process"], record["keeper"]["process"]):
        process["machine"]["bootId"] = boot


def test_a_record_of_another_boot_is_dead_though_pid_and_start_time_match(sv: Supervisor) -> None:
    """I2, P1: also one whose policy is permanent is not started behind the user's back."""
    without_a_keeper(sv, dead=True, options=("--restart", "permanent"))
    canary = sv.canary()
    key = {"pid": canary.pid, "startTicks": canary.start_ticks, "pidfdInode": None}
    sv.edit("a1", lambda r: r["generation"]["process"]["key"].update(key))
    sv.edit("a1", of_another_boot)

    row = sv.row("a1")

    assert (row["verdict"], row["evidence"]) == ("dead_pid", f"pid {canary.pid} is of an earlier boot")
    nothing_reaches(sv, canary)
    assert sv.row("a1")["status"] == "closed"
    assert not sv.alive()


def of_another_host(record: Any) -> None:
    for process in (record["generation"]["process"], record["keeper"]["process"]):
        process["machine"]["hostId"] = str(uuid.UUID(int=7))


def of_another_pid_namespace(record: Any) -> None:
    for process in (record["generation"]["process"], record["keeper"]["process"]):
        process["machine"]["pidNamespace"] += 1


@pytest.mark.parametrize("elsewhere", [of_another_host, of_another_pid_namespace])
def test_what_cannot_be_judged_from_here_is_unknown_and_authorises_nothing(
    sv: Supervisor, elsewhere: Callable[[Any], None]
) -> None:
    """I2, P2: no stop, no signal, no new keeper, no change of the record."""
    told = without_a_keeper(sv, dead=False, options=("--restart", "permanent"))
    for heartbeat in (sv.home / "run" / "heartbeats").iterdir():
        heartbeat.unlink()
    before = sv.record_path("a1").read_bytes()
    sv.edit("a1", elsewhere)
    edited = sv.record_path("a1").read_bytes()

    assert sv.row("a1")["verdict"] == "unknown"
    assert sv.json("reconcile") == []
    done = sv.run("stop", "a1", code=1)

    assert "can't stop a1: its identity cannot be verified from here" in done.err
    assert sv.record_path("a1").read_bytes() == edited
    assert sv.alive() == {told["pid"]}
    Supervisor.replace(sv.record_path("a1"), before)  # at home again it is an agent like any other
    sv.run("stop", "a1")
    assert gone(told["pid"])


def in_another_pid_namespace(sv: Supervisor) -> Any:
    """A foreground launch in a namespace of its own, over the same state root; as in a container."""
    via = ("unshare", "--pid", "--fork", "--mount-proc")
    if sv.run("--version", via=via, code=None).code != 0:
        pytest.skip("no pid namespace can be made here")
    launcher = sv.start("launch", "--name", "a1", "shell", "--", "sleep", "1000", via=via)
    wait_for(lambda: "a1" in (rows := sv.ps()) and rows["a1"]["ready"], "the agent on record")
    return launcher


def test_an_agent_of_another_pid_namespace_is_judged_by_its_heartbeat_and_stopped_by_its_own_keeper(
    sv: Supervisor,
) -> None:
    launcher = in_another_pid_namespace(sv)

    row = sv.row("a1")
    assert row["verdict"] == "alive"
    assert row["evidence"].startswith("another pid namespace, beat ")
    assert sv.json("reconcile") == []
    sv.run("stop", "a1")

    assert launcher.wait(60) == 143
    assert sv.row("a1")["status"] == "closed"


def test_a_pid_namespace_that_is_gone_leaves_an_unknown_agent_that_is_not_stopped_by_its_number(
    sv: Supervisor,
) -> None:
    in_another_pid_namespace(sv)
    end_marked(sv.mark)
    wait_for(lambda: sv.row("a1")["verdict"] == "unknown", "a stale heartbeat")

    assert sv.json("reconcile") == []
    done = sv.run("stop", "a1", code=1)

    assert "can't stop a1: its identity cannot be verified from here" in done.err
    sv.may_leave("a record that nobody here can judge")


def test_a_command_is_no_candidate_of_its_own_sweep(sv: Supervisor) -> None:
    """P4: its own pid stands in a stale record. The shell becomes the command, so the pid is known before."""
    without_a_keeper(sv, dead=True)
    path = sv.record_path("a1")
    rewrite = (
        "import json, sys; p = sys.argv[1]; r = json.load(open(p));"
        "r['generation']['process']['key']['pid'] = int(sys.argv[2]); json.dump(r, open(p, 'w'))"
    )
    script = f'"{sys.executable}" -c "{rewrite}" "{path}" $$ && exec "$0" "$@"'

    sv.run("stop", "--grace", "0", "a1", via=("/bin/sh", "-c", script))

    assert sv.record("a1")["state"]["status"] == "closed"


WRAPPED = """
[prompt]
headless = "none"
words = "args"
[process]
follow = "tree"
"""


def wrapped(sv: Supervisor, real: str, *, options: tuple[str, ...] = ()) -> tuple[int, int]:
    """Launch a wrapper that starts the real agent: the pids of both."""
    sv.profile("wrapped", WRAPPED)
    script = f"sh -c 'echo $$ > real; {real}' & wait"
    words = ("launch", "--detach", "--name", "a1", *options, "wrapped", "--", "/bin/sh", "-c", script)
    told = sv.json(*words)
    wait_for(lambda: (sv.work / "real").exists() and (sv.work / "real").read_text(), "the real agent")
    return told["pid"], int((sv.work / "real").read_text())


def test_an_agent_whose_wrapper_is_killed_is_not_dead_while_the_real_one_lives(sv: Supervisor) -> None:
    """I3: also no policy may start it a second time."""
    wrapper, real = wrapped(sv, "exec sleep 1000", options=("--restart", "permanent"))

    kill(wrapper)

    row = wait_for(lambda: (r := sv.row("a1"))["pid"] == real and r, "the real agent on record")
    assert isinstance(row, dict)
    assert (row["status"], row["verdict"], row["restarts"]) == ("running", "alive", 0)
    sv.run("stop", "a1")
    assert gone(real)
    assert sv.row("a1")["exitSignal"] == "TERM"


def test_the_exit_status_follows_the_real_agent_behind_its_wrapper(sv: Supervisor) -> None:
    """I3."""
    wrapper, real = wrapped(sv, "while [ ! -e go ]; do sleep 0.02; done; exit 5")
    kill(wrapper)
    wait_for(lambda: sv.row("a1")["pid"] == real, "the real agent on record")

    (sv.work / "go").touch()

    assert (sv.ended("a1")["outcome"], sv.ended("a1")["code"]) == ("exited", 5)


@pytest.mark.parametrize("policy", ["temporary", "permanent"])
def test_a_wrapper_and_its_keeper_killed_together_leave_an_agent_that_is_taken_over(
    sv: Supervisor, policy: str
) -> None:
    """I3 and P16: neither closed as dead nor started a second time."""
    wrapper, real = wrapped(sv, "exec sleep 1000", options=("--restart", policy))
    kill(sv.keeper("a1"))
    kill(wrapper)

    sv.run("reconcile")

    wait_for(lambda: sv.record("a1")["generation"]["process"]["key"]["pid"] != wrapper, "a process on record")
    row = sv.row("a1")
    assert (row["pid"], row["status"], row["verdict"], row["restarts"]) == (real, "running", "alive", 0)
    assert sv.alive() == {real, row["keeperPid"]}


@pytest.mark.parametrize("garbage", [b"", b'{"schema": 1, "entryId": "x', b"\x00\xff" * 100, b"[]", b"{}"], ids=repr)
def test_a_garbage_record_is_set_aside_and_every_other_one_works(sv: Supervisor, garbage: bytes) -> None:
    """I6."""
    for name in ("a1", "a2"):
        sv.launch(name)
    kill(sv.keeper("a1"))
    sv.may_leave("a1: its record is lost for good")
    path = sv.record_path("a1")
    Supervisor.replace(path, garbage)

    done = sv.run("ps", "--json")

    assert [r["name"] for r in json.loads(done.out)] == ["a2"]
    assert str(path) in done.err
    assert not path.exists()
    assert Path(f"{path}.corrupt").read_bytes() == garbage
    assert sv.run("ps").err == ""  # told once
    assert path.name in (told := sv.run("doctor", code=None)).out + told.err
    sv.run("stop", "a2")
    assert sv.row("a2")["status"] == "closed"


def test_a_torn_record_of_a_kept_agent_is_written_anew(sv: Supervisor) -> None:
    """Nothing is lost while its keeper lives."""
    sv.setting("processMatrix.heartbeat_ms", 1000)
    told = sv.launch("a1")
    path = sv.record_path("a1")
    Supervisor.replace(path, path.read_bytes()[:200])
    sv.run("ps")

    wait_for(lambda: path.exists(), "the record")

    assert (sv.row("a1")["pid"], sv.row("a1")["verdict"]) == (told["pid"], "alive")
    sv.run("stop", "a1")
    assert gone(told["pid"])


def test_what_a_newer_version_has_written_into_a_record_survives(sv: Supervisor) -> None:
    """I6."""
    sv.launch("a1")

    def newer(record: Any) -> None:
        record["fromTheFuture"] = {"deep": [1, 2]}
        record["agent"]["mood"] = "fine"

    sv.edit("a1", newer)
    sv.run("stop", "a1")

    record = sv.record("a1")
    assert record["state"]["status"] == "closed"
    assert (record["fromTheFuture"], record["agent"]["mood"]) == ({"deep": [1, 2]}, "fine")


def test_a_record_of_a_newer_schema_is_left_where_it_is(sv: Supervisor) -> None:
    sv.run("launch", "--name", "a1", "shell", "--", "true")
    path = sv.record_path("a1")
    sv.edit("a1", lambda r: r.update(schema=2, state={"status": "dreaming"}))

    done = sv.run("ps", "--all")

    assert path.exists()
    assert str(path) in done.err


def test_a_parent_learns_of_a_child_that_dies_before_it_has_said_anything(sv: Supervisor) -> None:
    """I8."""
    script = sv.script("young", "echo 'no licence'; exit 7")
    sv.profile(
        "young",
        f'[argv]\nbase = ["{script}"]\nstart = [["{{session_id}}"]]\n'
        '[session]\nid = "preset"\nfiles = ["$HOME/{session_id}.session"]\n[ready]\nwhen = "session_file"\n',
    )

    sv.demo("lead", spawn("kid", "", profile="young") + "\nSLEEP: 1000")

    wait_for(lambda: "can't spawn kid: supervisor launch ended with code 1" in sv.transcript("lead"), "the news")
    assert "kid exited with 7 before it was up" in sv.transcript("lead")
    assert "no licence" in sv.transcript("lead")
    kid = sv.row("kid")
    assert (kid["parent"], kid["status"], kid["exitCode"]) == ("lead", "closed", 7)


def test_a_zombie_is_dead_at_once(sv: Supervisor) -> None:
    """P5: its parent does not reap it, here a keeper that is stopped."""
    told = sv.launch("a1")
    keeper = sv.keeper("a1")
    os.kill(keeper, signal.SIGSTOP)
    os.kill(told["pid"], signal.SIGKILL)
    wait_for(lambda: (s := stat_of(told["pid"])) and s.state == "Z", "a zombie")

    row = sv.row("a1")

    assert (row["verdict"], row["evidence"]) == ("dead_pid", f"pid {told['pid']} is gone")
    os.kill(keeper, signal.SIGCONT)
    assert sv.ended("a1")["signal"] == "KILL"


def test_a_stopped_keeper_makes_its_agents_stale_and_nobody_takes_them_from_it(sv: Supervisor) -> None:
    told = sv.launch("a1")
    keeper = sv.keeper("a1")
    os.kill(keeper, signal.SIGSTOP)
    wait_for(lambda: sv.row("a1")["verdict"] == "stale", "the verdict")

    assert sv.json("reconcile") == []
    assert "hung, stopped or starved" in sv.run("why", "a1").out

    os.kill(keeper, signal.SIGCONT)
    wait_for(lambda: sv.row("a1")["verdict"] == "alive", "the verdict again")
    assert (sv.pid("a1"), sv.keeper("a1")) == (told["pid"], keeper)
    assert alive(told["pid"])
