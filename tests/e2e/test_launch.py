"""Launching: what is printed, which code comes back, and what an agent that dies first is reported as."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.e2e.processes import alive, cmdline, descriptors, environment, gone, stat_of, wait_for
from tests.e2e.rig import Supervisor

ENDS = [
    pytest.param("exit 0", 0, id="0"),
    pytest.param("exit 3", 3, id="3"),
    pytest.param("kill -TERM $$", 143, id="TERM"),
    pytest.param("kill -KILL $$", 137, id="KILL"),
]


def test_a_detached_launch_prints_name_session_pid_and_transcript(sv: Supervisor) -> None:
    out = sv.run("launch", "--detach", "--name", "a1", "shell", "--", "sleep", "1000").out

    told = dict(line.split(None, 1) for line in out.splitlines())
    assert list(told) == ["name", "session", "pid", "transcript"]
    row = sv.row("a1")
    assert told["name"] == "a1"
    assert told["session"] == row["sessionId"]
    assert told["pid"] == str(row["pid"])
    assert told["transcript"] == row["transcript"]
    assert cmdline(int(told["pid"]))[-1] == "1000"
    assert stat.S_IMODE(os.stat(told["transcript"]).st_mode) == 0o600


def test_a_detached_launch_says_the_same_as_json(sv: Supervisor) -> None:
    told = sv.launch("a1")

    row = sv.row("a1")
    for key in ("name", "entryId", "sessionId", "pid", "role", "parentSessionId", "status", "transcript"):
        assert told[key] == row[key], key
    assert (row["status"], row["verdict"], row["ready"], row["role"]) == ("running", "alive", True, "master")


def test_a_detached_agent_has_its_own_session_and_writes_straight_into_its_transcript(sv: Supervisor) -> None:
    told = sv.launch("a1", "/bin/sh", "-c", "echo out; echo err >&2; exec sleep 1000")

    seen = stat_of(told["pid"])
    assert seen is not None
    assert seen.session == told["pid"]
    open_files = descriptors(told["pid"])
    assert open_files == {0: "/dev/null", 1: told["transcript"], 2: told["transcript"]}
    wait_for(lambda: sv.transcript("a1") == "out\nerr\n", "its output")


def test_a_keeper_holds_nothing_of_the_launcher_and_is_not_in_its_session(sv: Supervisor) -> None:
    sv.launch("a1")

    keeper = sv.keeper("a1")
    seen, mine = stat_of(keeper), stat_of(os.getpid())
    assert seen is not None and mine is not None
    assert seen.session != mine.session
    assert os.readlink(f"/proc/{keeper}/cwd") == "/"
    held = descriptors(keeper)
    assert (held[0], held[1]) == ("/dev/null", "/dev/null")
    assert held[2] == str(sv.home / "logs" / "keepers.log")


def test_the_name_of_an_agent_is_its_profile_numbered(sv: Supervisor) -> None:
    names = [sv.json("launch", "--detach", "shell", "--", "sleep", "1000")["name"] for _ in range(3)]

    assert names == ["shell", "shell-2", "shell-3"]


@pytest.mark.parametrize(("script", "code"), ENDS)
def test_launch_wait_exit_passes_the_agents_code_on(sv: Supervisor, script: str, code: int) -> None:
    sv.run("launch", "--wait", "exit", "--name", "a1", "shell", "--", "/bin/sh", "-c", script, code=code)

    assert sv.row("a1")["status"] == "closed"


@pytest.mark.parametrize(("script", "code"), ENDS)
def test_wait_passes_the_agents_code_on(sv: Supervisor, script: str, code: int) -> None:
    sv.sh("a1", f"while [ ! -e go ]; do sleep 0.02; done; {script}")
    waiting = sv.start("wait", "a1")

    assert waiting.poll() is None
    (sv.work / "go").touch()

    assert waiting.wait(60) == code
    sv.run("wait", "a1", code=code)  # again, of an agent that has ended


def test_wait_for_several_agents_ends_with_the_first_code_that_is_not_0(sv: Supervisor) -> None:
    for name, code in (("good", 0), ("bad", 4)):
        sv.sh(name, f"while [ ! -e go ]; do sleep 0.02; done; exit {code}")
    (sv.work / "go").touch()

    sv.run("wait", "good", "bad", code=4)
    told = json.loads(sv.run("wait", "--json", "good", "bad", code=4).out)
    assert [(e["name"], e["status"], e["handOff"]["code"]) for e in told] == [
        ("good", "closed", 0),
        ("bad", "closed", 4),
    ]


def test_wait_gives_up_after_its_timeout_and_the_agent_goes_on(sv: Supervisor) -> None:
    sv.launch("a1")

    done = sv.run("wait", "--timeout", "0.1", "a1", code=1)

    assert "a1 is still running" in done.err
    assert alive(sv.pid("a1"))


@pytest.mark.parametrize(("script", "code"), ENDS)
def test_a_foreground_launch_passes_the_agents_code_on(sv: Supervisor, script: str, code: int) -> None:
    done = sv.run("launch", "--name", "a1", "shell", "--", "/bin/sh", "-c", script, code=code)

    assert (done.out, done.err) == ("", "")
    assert sv.row("a1")["status"] == "closed"


def test_a_foreground_launch_in_a_pipe_hands_its_streams_to_the_agent(sv: Supervisor) -> None:
    done = sv.run("launch", "shell", "--", "/bin/sh", "-c", "cat; echo complaint >&2", input=b"\x00\xff given\n")

    assert done.out == "\x00\udcff given\n"
    assert done.err == "complaint\n"


def test_a_foreground_agent_shares_the_process_group_of_the_launcher(sv: Supervisor) -> None:
    launcher = sv.start("launch", "--name", "a1", "shell", "--", "sleep", "1000", start_new_session=True)
    wait_for(lambda: "a1" in (rows := sv.ps()) and rows["a1"]["pid"], "its process on record")

    seen = stat_of(sv.pid("a1"))
    assert seen is not None
    assert seen.group == launcher.pid
    assert sv.keeper("a1") == launcher.pid


def test_sigterm_to_a_foreground_launcher_ends_the_agent_and_its_code_comes_back(sv: Supervisor) -> None:
    script = "trap 'exit 6' TERM; echo up; while :; do sleep 0.02; done"
    launcher = sv.start("launch", "--name", "a1", "shell", "--", "/bin/sh", "-c", script)
    assert launcher.stdout.readline() == b"up\n"

    launcher.terminate()

    assert launcher.wait(60) == 6
    assert sv.row("a1")["exitCode"] == 6


def test_an_agent_is_ready_only_when_its_profiles_proof_is_there(sv: Supervisor) -> None:
    sv.profile("speaker", '[ready]\nwhen = "output"\n[prompt]\nheadless = "none"\nwords = "args"\n')
    script = "while [ ! -e go ]; do sleep 0.02; done; echo here; exec sleep 1000"
    words = ("launch", "--detach", "--wait", "spawned", "--name", "a1", "speaker", "--", "/bin/sh", "-c", script)

    sv.run(*words)

    assert (sv.row("a1")["status"], sv.row("a1")["ready"]) == ("running", False)
    (sv.work / "go").touch()
    sv.wait_ready("a1")


BY_SESSION_FILE = """
[argv]
base = ["{script}"]
start = [["{{session_id}}"]]
resume = [["{{session_id}}"]]
[session]
id = "preset"
files = ["$HOME/{{session_id}}.session"]
[ready]
when = "session_file"
"""


def test_an_agent_that_dies_before_its_session_file_is_reported_with_its_last_lines(sv: Supervisor) -> None:
    """O7: never a tick and exit 0."""
    script = sv.script("young", "echo starting up; sleep 0.3; echo 'licence is missing' >&2; exit 7")
    sv.profile("young", BY_SESSION_FILE.format(script=script))

    done = sv.run("launch", "--detach", "--name", "a1", "young", code=1)

    assert "a1 exited with 7 before it was up" in done.err
    assert "| starting up" in done.err
    assert "| licence is missing" in done.err
    assert done.out == ""
    row = sv.row("a1")
    assert (row["status"], row["exitCode"]) == ("closed", 7)
    assert not sv.alive()


def test_an_agent_that_dies_before_its_session_file_is_reported_as_json_too(sv: Supervisor) -> None:
    script = sv.script("young", "echo 'licence is missing'; kill -SEGV $$")
    sv.profile("young", BY_SESSION_FILE.format(script=script))

    told = sv.json("launch", "--detach", "--name", "a1", "young", code=1)

    assert told["error"] == "a1 killed by SEGV before it was up"
    assert told["output"] == "licence is missing"


def test_an_agent_that_does_not_prove_itself_up_in_time_is_reported_and_goes_on(sv: Supervisor) -> None:
    script = sv.script("mute", "exec sleep 1000")
    sv.profile("mute", BY_SESSION_FILE.format(script=script) + "timeout_seconds = 1\n")

    done = sv.run("launch", "--detach", "--name", "a1", "mute", code=1)

    assert "a1 runs, but has not proven itself up within 1 s (session_file)" in done.err
    assert (sv.row("a1")["status"], sv.row("a1")["ready"]) == ("running", False)
    assert alive(sv.pid("a1"))


def test_a_detached_command_that_has_done_its_work_at_once_is_no_failure(sv: Supervisor) -> None:
    """Its proof is its exec: that it has ended with 0 meanwhile is not "before it was up"."""
    for number in range(5):
        told = sv.sh(f"a{number}", "exit 0")
        assert told["pid"]


def test_a_session_file_is_proof_also_for_an_agent_that_cannot_be_resumed(sv: Supervisor) -> None:
    script = sv.script("once", "touch $HOME/$SUPERVISOR_SESSION_ID.session; exec sleep 1000")
    lines = BY_SESSION_FILE.format(script=script).splitlines()
    sv.profile("once", "\n".join(line for line in lines if not line.startswith("resume")))
    sv.run("launch", "--detach", "--wait", "spawned", "--name", "a1", "once")

    sv.wait_ready("a1")


def test_a_keeper_that_is_killed_while_starting_is_reported(sv: Supervisor) -> None:
    script = sv.script("mute", "exec sleep 1000")
    sv.profile("mute", BY_SESSION_FILE.format(script=script))
    launcher = sv.start("launch", "--detach", "--name", "a1", "mute")
    wait_for(lambda: sv.records() and sv.record("a1")["generation"]["process"], "the agent on record")
    agent = sv.record("a1")["generation"]["process"]["key"]["pid"]

    os.kill(sv.record("a1")["keeper"]["process"]["key"]["pid"], 9)
    _, err = launcher.communicate(timeout=60)

    assert launcher.returncode == 1
    assert b"a1: its keeper died while starting it. Run: supervisor reconcile" in err
    assert alive(agent)


def test_the_caller_can_set_and_pass_on_variables(sv: Supervisor) -> None:
    told = sv.launch("a1", options=("--env", "GIVEN=a b=c", "--env", "PASSED"), env={"PASSED": "on"})

    seen = environment(told["pid"])
    assert (seen["GIVEN"], seen["PASSED"]) == ("a b=c", "on")
    assert "a b=c" not in sv.record_path("a1").read_text()


def test_an_agent_runs_in_the_folder_that_was_asked_for(sv: Supervisor) -> None:
    folder = sv.work / "elsewhere"
    folder.mkdir()

    told = sv.launch("a1", options=("--cwd", "elsewhere"))

    assert os.readlink(f"/proc/{told['pid']}/cwd") == str(folder)
    assert sv.row("a1")["cwd"] == str(folder)


def test_a_dry_run_shows_the_command_and_starts_nothing(sv: Supervisor) -> None:
    done = sv.run("launch", "--dry-run", "--name", "a1", "shell", "--", "sleep", "1000")

    assert "sleep 1000" in done.out
    assert sv.traces() == []


def test_a_child_that_was_spawned_from_a_thread_that_ended_lives_on(sv: Supervisor) -> None:
    """P19: nothing hangs on the thread, or the process, that asked for it."""
    import threading

    thread = threading.Thread(target=sv.launch, args=("a1",))
    thread.start()
    thread.join()

    wait_for(lambda: sv.row("a1")["beatAgeMs"] is not None, "a beat")
    assert sv.row("a1")["verdict"] == "alive"


def test_an_agent_that_is_killed_is_started_again_by_its_policy_in_the_same_session(sv: Supervisor) -> None:
    first = sv.demo("a1", "SLEEP: 1000", "--restart", "permanent")

    os.kill(first["pid"], 9)
    again = wait_for(lambda: (r := sv.row("a1"))["pid"] != first["pid"] and r["ready"] and r, "its next generation")

    assert isinstance(again, dict)
    assert (again["sessionId"], again["restarts"]) == (first["sessionId"], 1)
    assert gone(first["pid"])
    assert alive(again["pid"])


def test_a_launcher_that_is_killed_leaves_its_detached_agent_alone(sv: Supervisor) -> None:
    script = sv.script("mute", "exec sleep 1000")
    sv.profile("mute", BY_SESSION_FILE.format(script=script))
    launcher: subprocess.Popen[bytes] = sv.start("launch", "--detach", "--name", "a1", "mute")
    wait_for(lambda: sv.records() and sv.record("a1")["generation"]["process"], "the agent on record")

    launcher.kill()
    launcher.wait()

    assert alive(sv.pid("a1"))
    Path(sv.root / "h" / f"{sv.row('a1')['sessionId']}.session").touch()
    sv.wait_ready("a1")


def test_a_launch_beyond_a_limit_is_refused_with_code_6_and_starts_nothing(sv: Supervisor) -> None:
    """Also from inside an agent, and when several race for the last place."""
    sv.setting("limits.max_agents", 2)
    sv.launch("a")

    racing = [sv.start("launch", "--detach", "shell", "--", "sleep", "1000") for _ in range(4)]
    ends = [r.communicate(timeout=60) for r in racing]

    assert sorted(r.returncode for r in racing) == [0, 6, 6, 6]
    assert all(b"limits.max_agents is 2" in err for r, (_, err) in zip(racing, ends, strict=True) if r.returncode)
    assert len(sv.ps()) == 2
