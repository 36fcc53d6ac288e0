"""Bad surroundings: no home, closed streams, a folder that is gone, odd paths, a lock that is held."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import MakeSupervisor
from tests.e2e.processes import alive, descriptors, gone, wait_for
from tests.e2e.rig import Supervisor
from tests.e2e.test_bad_input import NOT_FOUND, REFUSED, SLEEP, A, launch


def test_a_launch_waits_for_another_that_is_just_choosing_names(sv: Supervisor) -> None:
    """I4: and a holder that is killed leaves no lock behind."""
    sv.run("launch", "--dry-run", *SLEEP)
    hold = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX);"
        "print('held', flush=True); time.sleep(99)"
    )
    names = sv.home / "locks" / "names"
    holder = subprocess.Popen([sys.executable, "-c", hold, names], stdout=subprocess.PIPE, env=sv.environment())
    assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
    launching = sv.start(*launch("--name", "a1"))
    wait_for(lambda: f"{names}" in descriptors(launching.pid).values(), "the launch waiting for the lock")
    assert sv.records() == []

    holder.kill()
    holder.communicate()

    assert launching.wait(60) == 0
    assert sv.row("a1")["verdict"] == "alive"


def test_a_launch_in_a_folder_that_is_gone_is_refused(sv: Supervisor) -> None:
    gone_folder = sv.work / "gone"
    gone_folder.mkdir()
    into = ("/bin/sh", "-c", f'rmdir "{gone_folder}"; exec "$@"', "sh")

    done = sv.run(*launch(), code=REFUSED, cwd=gone_folder, via=into)

    assert "the working directory (none) does not exist. Give one with --cwd" in done.err
    assert sv.traces() == []


def test_other_commands_work_in_a_folder_that_is_gone(sv: Supervisor) -> None:
    told = sv.launch("a1")
    gone_folder = sv.work / "gone"
    gone_folder.mkdir()
    into = ("/bin/sh", "-c", f'rmdir "{gone_folder}"; exec "$@"', "sh")

    done = sv.run("ps", cwd=gone_folder, via=into)
    gone_folder.mkdir()
    sv.run("stop", "a1", cwd=gone_folder, via=into)

    assert "a1" in done.out
    assert gone(told["pid"])


def test_a_cwd_that_vanishes_before_a_restart_ends_it_with_the_reason(sv: Supervisor) -> None:
    folder = sv.work / "vanishes"
    folder.mkdir()
    script = 'while [ ! -e ../go ]; do sleep 0.02; done; rmdir "$PWD"; exit 1'
    sv.sh("a1", script, "--cwd", str(folder), "--restart", "permanent")
    (sv.work / "go").touch()

    wait_for(lambda: len(sv.record("a1")["deaths"]) >= 3, "tries to start it again")

    assert not folder.exists()
    sv.run("stop", "a1")
    assert sv.row("a1")["status"] == "closed"


@pytest.mark.parametrize("home", ["", "/"])
def test_without_a_home_directory_a_state_root_must_be_named(sv: Supervisor, home: str) -> None:
    done = sv.run(*launch(), env={"HOME": home, "SUPERVISOR_HOME": None, "XDG_CONFIG_HOME": None}, code=REFUSED)

    assert "there is no home directory for the state root. Set HOME or SUPERVISOR_HOME" in done.err
    assert not sv.alive()


def test_without_home_and_config_a_named_state_root_is_enough(sv: Supervisor) -> None:
    told = sv.launch("a1", env={"HOME": None, "XDG_CONFIG_HOME": None})

    assert alive(told["pid"])


CLOSED = ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"]


@pytest.mark.parametrize("closed", CLOSED)
def test_closed_streams_do_not_hurt_a_detached_launch(sv: Supervisor, closed: str) -> None:
    via = ("/bin/sh", "-c", f'exec "$@" {closed}', "sh")
    words = ("launch", "--detach", "--name", "a1", "demo", "--", "RUN: echo out\nSLEEP: 1000")

    done = sv.run(*words, via=via)

    row = sv.row("a1")
    assert ("transcript" in done.out) == (">&-" not in closed.replace("2>&-", ""))
    held = descriptors(row["pid"])
    assert (held[1], held[2]) == (row["transcript"], row["transcript"])
    keeper = descriptors(row["keeperPid"])
    assert (keeper[0], keeper[1], keeper[2]) == ("/dev/null", "/dev/null", str(sv.home / "logs" / "keepers.log"))
    assert sv.prompts("a1") == ["RUN: echo out\nSLEEP: 1000"]


@pytest.mark.parametrize("closed", CLOSED)
def test_closed_streams_do_not_hurt_a_foreground_launch(sv: Supervisor, closed: str) -> None:
    via = ("/bin/sh", "-c", f'exec "$@" {closed}', "sh")

    done = sv.run("launch", "shell", "--", "/bin/sh", "-c", "cat; echo out; echo err >&2; exit 3", via=via, code=3)

    assert done.out in ("out\n", "")
    assert done.err in ("err\n", "")
    assert len(sv.records()) == 1


@pytest.mark.parametrize("closed", CLOSED)
def test_closed_streams_do_not_hurt_an_error(sv: Supervisor, closed: str) -> None:
    sv.run("show", "nobody", via=("/bin/sh", "-c", f'exec "$@" {closed}', "sh"), code=NOT_FOUND)


def test_a_reader_that_goes_away_is_no_error(sv: Supervisor) -> None:
    sv.tree_file({f"a{n}": {**A, "task_summary": "x" * 1500} for n in range(60)})
    sv.run("up", "team.toml")

    done = sv.run("ps", "--json", via=("/bin/sh", "-c", '{ "$@"; echo code=$? >&2; } | head -1 >/dev/null', "sh"))

    assert done.err == "code=0\n"


def test_output_that_cannot_be_written_is_an_error_and_no_trace(sv: Supervisor) -> None:
    sv.launch("a1")

    done = sv.run("ps", via=("/bin/sh", "-c", 'exec "$@" >/dev/full', "sh"), code=REFUSED)

    assert "No space left on device" in done.err
    assert "Traceback" not in done.err and "Exception ignored" not in done.err


def test_paths_with_blanks_and_unicode_work_everywhere(make_sv: MakeSupervisor) -> None:
    sv = make_sv("a ü 名 'q\" $x")
    folder = sv.work / "wörk dir; rm -rf"
    folder.mkdir()
    (sv.work / "prömpt file").write_text("PRINT: grüße\nSLEEP: 1000")
    sv.tree_file(
        {
            "a1": {"profile": "demo", "prompt_file": "prömpt file", "cwd": folder.name},
            "a2": {**A, "cwd": folder.name, "parent": "a1", "allow_paths": [str(folder)]},
        },
        name="träe file.toml",
    )
    program = sv.script("mein programm", 'echo "$0 $1"; exec sleep 1000')

    sv.run("up", "träe file.toml")
    sv.launch("a3", program, "an arg", options=("--cwd", str(folder)))

    rows = sv.ps()
    assert {r["verdict"] for r in rows.values()} == {"alive"}
    assert os.readlink(f"/proc/{rows['a2']['pid']}/cwd") == str(folder)
    assert sv.prompts("a1") == ["PRINT: grüße\nSLEEP: 1000"]
    wait_for(lambda: sv.transcript("a3") == f"{program} an arg\n", "its output")
    for words in (("ps",), ("tree",), ("show", "a1"), ("why", "a2"), ("logs", "a1")):
        assert sv.run(*words).err == ""
    sv.run("down", "träe file.toml")
    sv.run("stop", "a3")
    assert {r["status"] for r in sv.ps().values()} == {"closed"}


def test_many_agents_names_and_long_texts_are_bounded(sv: Supervisor) -> None:
    told = sv.launch("a" * 64, options=("--task-summary", "y" * 100_000, "--task-ref", "x" * 512))

    assert len(sv.row("a" * 64)["taskSummary"]) == 2000
    assert alive(told["pid"])


def test_a_crash_inside_is_told_as_such(sv: Supervisor) -> None:
    """70, one line, and a trace only on demand."""
    broken = sv.root / "broken" / "supervisor"
    package = Path(sv.env["PYTHONPATH"]) / "supervisor"
    broken.mkdir(parents=True)
    for part in package.iterdir():
        if part.name != "runtime":
            (broken / part.name).symlink_to(part)
    (broken / "runtime").mkdir()
    (broken / "runtime" / "__init__.py").write_text("")
    (broken / "runtime" / "compose.py").write_text("raise RuntimeError('a bug')")

    done = sv.run("ps", env={"PYTHONPATH": str(broken.parent)}, code=70)

    assert done.err == "supervisor: internal error, please report it: RuntimeError: a bug\n"


def test_every_command_has_a_help_with_an_example(sv: Supervisor) -> None:
    listed = re.findall(r"^  ([a-z]+) ", sv.run("--help").out.split("Commands")[1], re.MULTILINE)

    assert {"launch", "up", "down", "tree", "ps", "stop", "wait", "reconcile"} <= set(listed)
    for name in listed:
        out = sv.run(name, "--help").out
        assert "Example" in out, name
        assert shlex.split(f"supervisor {name}")[1] in out
    assert not sv.home.exists()


def test_a_watch_ends_with_ctrl_c_and_without_a_word(sv: Supervisor) -> None:
    sv.launch("a1")
    watching = sv.start("watch", "--json")
    assert watching.stdout is not None and b'"seen"' in watching.stdout.readline()

    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=60)

    assert (watching.returncode, err) == (130, b"")
