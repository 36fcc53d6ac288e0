"""Agents that nobody launched through us: found, recorded, watched, and left alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.processes import alive, children, kill, wait_for
from tests.e2e.rig import Supervisor

WAITS = "import subprocess, sys, time, pathlib\nwork = pathlib.Path(sys.argv[1])\n"
LAUNCHES = f"""{WAITS}
while not (work / "go").exists(): time.sleep(0.02)
done = subprocess.run(sys.argv[2:], stdin=subprocess.DEVNULL, capture_output=True, text=True)
(work / "told").write_text(f"{{done.returncode}} {{done.stdout}}{{done.stderr}}")
while not (work / "end").exists(): time.sleep(0.02)
sys.exit(7)
"""

THREAD = """
import sys, threading
thread = threading.Thread(target=sys.stdin.read)
thread.start()
print(thread.native_id, flush=True)
"""


@pytest.fixture
def foreign(sv: Supervisor) -> Iterator[subprocess.Popen[bytes]]:
    """A program named `claude` that launches a child when told to, and ends with 7 when told to."""
    program = sv.work / "claude"
    program.write_text(f"#!{sys.executable}\n{LAUNCHES}")
    program.chmod(0o755)
    words = [*sv.argv, "launch", "--name", "kid", "shell", "--", "sleep", "1000"]
    process = subprocess.Popen([program, sv.work, *words], env=sv.environment(), cwd=sv.work, stdin=subprocess.DEVNULL)
    yield process
    process.kill()
    process.wait()


def told(work: Path) -> str:
    return wait_for(lambda: (work / "told").exists() and (work / "told").read_text(), "the launch") or ""


def test_what_an_enrolled_agent_launches_is_its_child_and_its_own_end_is_recorded(
    sv: Supervisor, foreign: subprocess.Popen[bytes]
) -> None:
    """No variable names it: it is found above the launcher, by identity."""
    on_path = {"PATH": f"{sv.work}:{sv.env['PATH']}"}
    given = sv.json("enroll", "--pid", str(foreign.pid), "--name", "lead", env=on_path)
    assert (given["pid"], given["role"], given["status"]) == (foreign.pid, "master", "running")

    (sv.work / "go").touch()
    assert told(sv.work).startswith("0 "), told(sv.work)
    rows = sv.wait_ready("lead", "kid")
    assert (rows["kid"]["parent"], rows["lead"]["verdict"], rows["lead"]["profile"]) == ("lead", "alive", "claude")

    (sv.work / "end").touch()
    foreign.wait(60)
    end = sv.ended("lead")
    assert (end["outcome"], end["code"]) in (("exited", 7), ("unknown", None))
    assert sv.row("kid")["orphan"]


def test_a_keeper_that_is_told_to_end_leaves_an_enrolled_agent_alone_and_the_next_one_watches_it(
    sv: Supervisor, foreign: subprocess.Popen[bytes]
) -> None:
    sv.run("enroll", "--pid", str(foreign.pid), "--profile", "shell", "--name", "lead")
    keeper = sv.keeper("lead")

    kill(keeper, signal.SIGTERM)
    wait_for(lambda: not alive(keeper), "the keeper's end")
    assert sv.record("lead")["state"]["status"] == "running"
    sv.run("reconcile")

    assert foreign.poll() is None
    assert sv.row("lead")["verdict"] == "alive"
    assert sv.keeper("lead") != keeper


def test_a_stop_that_names_it_ends_it(sv: Supervisor, foreign: subprocess.Popen[bytes]) -> None:
    sv.run("enroll", "--pid", str(foreign.pid), "--profile", "shell", "--name", "lead")

    stopping = sv.start("stop", "lead")
    assert foreign.wait(60) == -signal.SIGTERM
    assert stopping.wait(60) == 0
    assert sv.row("lead")["status"] == "closed"


def test_foreign_agents_are_discovered_until_they_are_enrolled(
    sv: Supervisor, foreign: subprocess.Popen[bytes]
) -> None:
    found = {f["pid"]: f for f in sv.json("tree", "--discover")}
    assert (found[foreign.pid]["profile"], found[foreign.pid]["cwd"]) == ("claude", str(sv.work))
    assert found[foreign.pid]["toDo"] == f"supervisor enroll --pid {foreign.pid}"
    assert f"supervisor enroll --pid {foreign.pid}" in sv.run("tree", "--discover").out
    assert sv.records() == []

    sv.run("enroll", "--pid", str(foreign.pid), "--profile", "shell")

    assert foreign.pid not in {f["pid"] for f in sv.json("tree", "--discover")}


def test_what_cannot_be_enrolled_is_refused_with_the_reason(sv: Supervisor) -> None:
    lead = sv.sh("lead", "sleep 1000 & wait")

    assert "is on record as lead" in sv.run("enroll", "--pid", str(lead["pid"]), code=1).err
    below = wait_for(lambda: children(lead["pid"]), "the child of the agent")[0][0]
    assert "belongs to lead" in sv.run("enroll", "--pid", str(below), code=1).err
    assert "is supervisor itself" in sv.run("enroll", "--pid", str(sv.keeper("lead")), code=1).err
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert f"no process {ended.pid} runs here" in sv.run("enroll", "--pid", str(ended.pid), code=3).err
    sv.run("enroll", "--pid", "0", code=2)
    thread = subprocess.Popen([sys.executable, "-c", THREAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert thread.stdin and thread.stdout
    number = thread.stdout.readline().strip()
    assert f"no process {number} runs here" in sv.run("enroll", "--pid", number, code=3).err
    thread.communicate()


def test_a_thread_of_the_kernel_is_no_agent(sv: Supervisor) -> None:
    line = Path("/proc/2/cmdline")
    if os.geteuid() != 0 or not line.exists() or line.read_bytes():
        pytest.skip("process 2 is none of the kernel's, or not ours")
    assert "it is the kernel's" in sv.run("enroll", "--pid", "2", code=1).err


def test_a_cli_session_that_another_agent_is_in_is_not_enrolled_a_second_time(sv: Supervisor) -> None:
    """Also where that agent is on record under an id of our own."""
    sv.demo("lead", "SLEEP: 1000")
    path = sv.record_path("lead")
    record = json.loads(path.read_text())
    record["agent"]["resumeContext"]["providerSessionId"] = "the-clis-own"
    Supervisor.replace(path, json.dumps(record).encode())
    stranger = subprocess.Popen(["sleep", "1000"])
    try:
        words = ("enroll", "--pid", str(stranger.pid), "--session", "the-clis-own", "--profile", "demo")
        assert "session the-clis-own is on record as lead" in sv.run(*words, code=1).err
    finally:
        stranger.kill()
        stranger.wait()
    assert set(sv.ps()) == {"lead"}


def test_what_is_said_of_an_enrolled_agent_is_true_of_it(sv: Supervisor) -> None:
    stranger = subprocess.Popen(["sleep", "1000"])
    try:
        sv.run("enroll", "--pid", str(stranger.pid), "--profile", "demo", "--name", "lead")
        for command in ("logs", "attach"):
            assert "was enrolled while it ran" in sv.run(command, "lead", code=1).err
    finally:
        stranger.kill()
        stranger.wait()
    sv.ended("lead")
    assert "enrolled without its session id [no_session]" in sv.run("resume", "lead", code=5).err


def test_an_enrolled_agent_that_has_ended_is_resumed_in_its_own_session_and_is_then_ours(sv: Supervisor) -> None:
    session = "11111111-2222-4333-8444-555555555555"
    words = [sys.executable, "-P", "-m", "supervisor.demo", "--session-id", session]
    stranger = subprocess.Popen(words, env=sv.environment(), cwd=sv.work, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert stranger.stdin
    stranger.stdin.write(b"SLEEP: 1000")
    stranger.stdin.close()
    wait_for(lambda: (sv.home / "demo-sessions" / f"{session}.jsonl").exists(), "its session")
    sv.run("enroll", "--pid", str(stranger.pid), "--session", session, "--profile", "demo", "--name", "lead")
    stranger.kill()
    stranger.wait()
    sv.ended("lead")

    told = sv.json("resume", "lead", "--detach", "--prompt", "hello again")

    assert told["sessionId"] == session
    record = wait_for(lambda: (r := sv.record("lead"))["state"]["status"] == "closed" and r, "its end") or {}
    assert (record["enrolled"], record["state"]["handOff"]["code"]) == (False, 0)
    assert sv.prompts("lead")[-1].endswith("hello again\n")
