"""The driver as a process, before a CLI that misbehaves: nothing runs that was not allowed, and nothing is left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import alive, children, cmdline, gone, kill, wait_for
from tests.e2e.rig import Supervisor

FAKE = Path(__file__).parent / "fake_app_server.py"
FOREVER = "exec tail -f /dev/null"


def profile(sv: Supervisor) -> None:
    sv.profile(
        "fake",
        f'[session]\nid = "capture"\n[driver]\nkind = "codex"\ncommand = ["{sys.executable}", "{FAKE}"]\n',
    )


def launch(sv: Supervisor, prompt: str, *options: str) -> Any:
    profile(sv)
    words = ("launch", "--detach", "--name", "kid", *options, "--prompt-file", "-", "fake")
    return sv.json(*words, input=prompt.encode())


def pids(sv: Supervisor, count: int = 1) -> list[int]:
    path = sv.work / "pids"
    wait_for(lambda: path.exists() and len(path.read_text().split()) >= count, f"{count} pids")
    return [int(word) for word in path.read_text().split()]


def cli(sv: Supervisor) -> int:
    """The driver's child."""
    (found,) = [pid for pid, _ in children(sv.pid("kid")) if str(FAKE) in cmdline(pid)]
    return found


def by_hand(sv: Supervisor, prompt: str, **env: str | None) -> subprocess.CompletedProcess[bytes]:
    """The driver as somebody's command."""
    argv = [sys.executable, "-P", "-m", "supervisor.drivers", "codex", "--", sys.executable, str(FAKE)]
    return subprocess.run(
        argv, input=prompt.encode(), capture_output=True, env=sv.environment(env), cwd=sv.work, timeout=60, check=False
    )


# -- doubt


@pytest.mark.parametrize(
    ("prompt", "code", "said"),
    [
        ("SAY: this is no JSON\nASK: touch MARK", 1, "no JSON object"),
        ('SAY: {"id": 99, "result": {}}\nASK: touch MARK', 1, "was not asked"),
        ("CLOSE", 1, "closed its output"),
        ("DIE", 1, "killed by KILL"),
        ('ASK WRONGLY: {"command": ["touch", "MARK"]}', 0, "not decided"),
        ('ASK WRONGLY: {"kind": "humanCommand"}', 0, "not decided"),
        ("ASK: touch MARK", 0, "could not resolve a parent session"),
    ],
)
def test_on_any_doubt_nothing_runs(sv: Supervisor, prompt: str, code: int, said: str) -> None:
    """A11, for a driver."""
    done = by_hand(sv, prompt)

    assert (done.returncode, said in done.stdout.decode()) == (code, True), done
    assert not (sv.work / "MARK").exists()
    wait_for(lambda: not sv.alive(), "the end of all of it")


# -- what is left


def test_what_a_cli_leaves_behind_is_ended_with_its_driver(sv: Supervisor) -> None:
    launch(sv, f"STRAY: {FOREVER}")
    (stray,) = pids(sv)

    end = sv.ended("kid")

    assert (end["code"], end["success"]) == (0, True)
    assert gone(stray)


def test_a_cli_that_hangs_is_ended_with_all_it_has(sv: Supervisor) -> None:
    launch(sv, f"STRAY: {FOREVER}\nHANG")
    (stray,), hung = pids(sv), cli(sv)

    sv.run("stop", "kid")

    assert gone(stray, hung)
    assert sv.row("kid")["status"] == "closed"


def test_an_agent_that_was_launched_from_inside_lives_on(sv: Supervisor) -> None:
    """It is below the driver, which takes in orphans: no reason to end it."""
    inside = f"{sv.command} launch --detach --name inner shell -- sh -c 'echo $$ >> pids; {FOREVER}'"
    launch(sv, f"RUN: {inside}\nSTRAY: {FOREVER}")
    inner, stray = pids(sv, 2)

    sv.ended("kid")

    assert gone(stray)
    assert alive(inner)
    row = sv.row("inner")
    assert (row["verdict"], row["pid"], row["parent"]) == ("alive", inner, "kid")


def test_a_driver_that_was_started_by_hand_ends_what_it_started_and_nothing_else(sv: Supervisor) -> None:
    """Its environment says that it is an agent, which it is not: a mark is nothing to go by."""
    sv.sh("other", f"echo $$ >> other; {FOREVER}")
    row, canary = sv.row("other"), sv.canary()
    mine = {
        "SUPERVISOR_ENTRY_ID": row["entryId"],
        "SUPERVISOR_SESSION_ID": row["sessionId"],
        "SUPERVISOR_GENERATION": "0" * 16,
    }

    done = by_hand(sv, f"STRAY: {FOREVER}", **mine)

    assert done.returncode == 0, done
    assert gone(*pids(sv))
    assert alive(row["pid"])
    assert canary.is_unharmed()
    assert sv.record("other")["generation"]["session"] is None


def test_a_killed_driver_takes_all_of_it_along(sv: Supervisor) -> None:
    launch(sv, f"STRAY: {FOREVER}\nHANG")
    (stray,), hung = pids(sv), cli(sv)

    kill(sv.pid("kid"))

    assert sv.ended("kid")["signal"] == "KILL"
    wait_for(lambda: gone(stray, hung), "the end of the CLI and its helper")


def test_a_session_is_not_taken_up_again_beside_what_a_killed_driver_and_keeper_left(sv: Supervisor) -> None:
    launch(sv, f"STRAY: {FOREVER}\nHANG")
    (stray,), hung = pids(sv), cli(sv)
    row = sv.row("kid")
    kill(row["keeperPid"])
    kill(row["pid"])
    wait_for(lambda: gone(row["keeperPid"], row["pid"]), "their end")
    assert alive(stray) and alive(hung), "nobody is there to end them"

    sv.run("resume", "kid", "--detach", "--prompt", "RUN: true")

    wait_for(lambda: gone(stray, hung), "the end of what was left")
    sv.ended("kid")


# -- told


def test_a_follow_up_reaches_a_driver_amid_its_turn(sv: Supervisor) -> None:
    os.mkfifo(sv.work / "go")
    launch(sv, "RUN: cat go > heard")

    sv.run("send", "kid", "--", "RUN: touch SECOND")
    assert not (sv.work / "SECOND").exists()
    (sv.work / "go").write_text("now")

    assert sv.ended("kid")["code"] == 0
    assert (sv.work / "SECOND").exists()
    assert "kid does not run" in sv.run("send", "kid", "--", "more", code=1).err
    assert "kid does not run" in sv.run("interrupt", "kid", code=1).err


def test_an_agent_without_a_driver_cannot_be_told_anything(sv: Supervisor) -> None:
    sv.launch("plain")

    assert "is not spoken to by a driver" in sv.run("interrupt", "plain", code=1).err
    assert "is not spoken to by a driver" in sv.run("send", "plain", "--", "x", code=1).err
