"""Resume with real processes: the stored session and folder, confirmed, once at a time, or everything as it was."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pexpect

from tests.e2e.processes import alive, environment, kill, wait_for
from tests.e2e.rig import Supervisor, spawn

ASLEEP = "SLEEP: 1000"


def crash(sv: Supervisor, *names: str) -> None:
    """The agents and their keepers are killed: nobody is left to write anything."""
    rows = sv.ps()
    for name in names:
        for pid in (rows[name]["keeperPid"], rows[name]["pid"]):
            if alive(pid):
                kill(pid)


def resume_by(sv: Supervisor, name: str, wrapper: Path) -> None:
    """From now on its CLI is resumed through a program that gets the true command line as its arguments."""

    def change(record: Any) -> None:
        for line in record["plan"]["resumeLines"].values():
            line["argv"] = [str(wrapper), *line["argv"]]
            line["sessionAt"] += 1

    sv.edit(name, change)


def test_a_dead_agent_goes_on_in_its_session_with_its_checkpoint_and_the_ends_of_its_children(sv: Supervisor) -> None:
    checkpoint = "RUN: {} checkpoint --checkpoint 'half way' --pointer file:///notes --summary 'docs left'"
    lead = sv.demo("lead", f"{checkpoint.format(sv.command)}\n{spawn('kid', 'EXIT: 3')}\n{ASLEEP}", "--task-ref", "G-7")
    wait_for(lambda: "kid" in sv.ps() and sv.record("kid")["state"].get("handOff"), "the end of kid")
    wait_for(lambda: sv.record("lead")["agent"]["resumeContext"]["checkpoint"], "the checkpoint")
    before = sv.record("lead")
    crash(sv, "lead")

    told = sv.json("resume", "lead", "--detach", "--prompt", ASLEEP)

    after = sv.record("lead")
    assert (told["entryId"], told["sessionId"]) == (lead["entryId"], lead["sessionId"])
    assert told["pid"] != lead["pid"]
    assert environment(told["pid"])["SUPERVISOR_AGENT_ID"] == before["agent"]["agentId"]
    assert Path(f"/proc/{told['pid']}/cwd").resolve() == sv.work.resolve()
    assert after["agent"] == before["agent"]
    first, second = sv.prompts("lead")
    assert first.endswith(ASLEEP)
    for part in ("G-7", "half way", "file:///notes", "docs left", "kid: exited with 3", ASLEEP):
        assert part in second


def test_what_runs_is_not_resumed_and_of_many_at_once_one_wins(sv: Supervisor) -> None:
    sv.demo("lead", ASLEEP)
    refused = sv.run("resume", "lead", "--detach", code=5)
    assert "lead runs" in refused.err and "[alive]" in refused.err
    crash(sv, "lead")

    racers = [sv.start("resume", "lead", "--detach", "--prompt", ASLEEP) for _ in range(6)]
    codes = []
    for racer in racers:
        racer.communicate(timeout=60)
        codes.append(racer.returncode)

    assert sorted(codes) == [0, 5, 5, 5, 5, 5]
    assert len(sv.prompts("lead")) == 2


def test_a_folder_that_is_gone_is_a_refusal_and_never_another_folder(sv: Supervisor) -> None:
    folder = sv.root / "lane"
    folder.mkdir()
    sv.demo("lead", ASLEEP, "--cwd", str(folder))
    crash(sv, "lead")
    shutil.rmtree(folder)
    sv.run("reconcile")
    before = sv.record("lead")

    refused = sv.run("resume", "lead", "--detach", code=5)

    assert f"{folder}, is gone" in refused.err and "[cwd_gone]" in refused.err
    assert sv.record("lead") == before
    assert not sv.alive()


def test_an_agent_that_comes_up_in_another_session_is_stopped_and_its_record_is_as_it_was(sv: Supervisor) -> None:
    other = sv.script("other", f"exec {sys.executable} -P -m supervisor.demo --session-id other-session")
    sv.demo("lead", ASLEEP)
    crash(sv, "lead")
    sv.run("reconcile")
    resume_by(sv, "lead", other)
    before = sv.record("lead")

    refused = sv.run("resume", "lead", "--detach", "--prompt", ASLEEP, code=1)

    after = sv.record("lead")
    assert "it came up in another session, other-session" in refused.err
    assert after["agent"] == before["agent"]
    assert after["state"]["status"] == "resumable"
    assert "another session" in after["state"]["failedResume"]["why"]
    assert "another session" in sv.run("why", "lead").out
    wait_for(lambda: not sv.alive(), "nobody left")


def test_a_session_is_held_also_when_its_keeper_died_and_from_a_launch(sv: Supervisor) -> None:
    lead = sv.demo("lead", ASLEEP)
    kill(sv.keeper("lead"))

    sv.run("resume", "lead", "--detach", code=5)
    held = sv.run("launch", "--detach", "demo", "--prompt", ASLEEP, "--", "--resume", lead["sessionId"], code=5)

    assert f"in use by lead ({lead['entryId']}" in held.err
    assert set(sv.ps()) == {"lead"}


def test_a_worker_without_a_living_parent_is_resumed_as_a_master_or_below_a_new_one(sv: Supervisor) -> None:
    lead = sv.demo("lead", f"{spawn('kid', ASLEEP)}\n{ASLEEP}")
    sv.wait_ready("lead", "kid")
    crash(sv, "lead", "kid")
    sv.run("reconcile")

    sv.run("resume", "kid", "--detach", "--prompt", ASLEEP)
    assert sv.record("kid")["parent"] is None

    crash(sv, "kid")
    boss = sv.demo("boss", ASLEEP)
    sv.run("resume", "kid", "--detach", "--prompt", ASLEEP, "--parent", "boss")
    parent = sv.record("kid")["parent"]
    assert (parent["sessionId"], parent["pid"]) == (boss["sessionId"], boss["pid"])
    assert "SUPERVISOR_PARENT_SESSION" in environment(sv.pid("kid"))

    refused = sv.run("resume", "lead", "--detach", "--parent", "lead", code=1)
    assert "cannot be a parent" in refused.err
    assert json.loads(sv.run("show", "lead", "--json").out)["entry"]["sessionId"] == lead["sessionId"]


def test_a_resume_whose_keeper_is_killed_is_confirmed_by_the_next_keeper(sv: Supervisor) -> None:
    sv.demo("lead", ASLEEP)
    crash(sv, "lead")
    sv.run("reconcile")
    go = sv.work / "go"
    late = sv.script("slow", f'while [ ! -e "{go}" ]; do sleep 0.05; done; exec "$@"')
    resume_by(sv, "lead", late)
    waiting = sv.start("resume", "lead", "--detach", "--prompt", ASLEEP)
    wait_for(lambda: (s := sv.record("lead")["state"])["status"] == "running" and s["unconfirmed"], "its start")
    kill(sv.record("lead")["keeper"]["process"]["key"]["pid"])
    waiting.communicate(timeout=60)

    sv.run("reconcile")
    go.touch()

    wait_for(lambda: sv.record("lead")["state"].get("readyAt"), "its confirmation")
    assert sv.record("lead")["state"]["unconfirmed"] is None


def test_a_prompt_that_a_resume_on_a_terminal_cannot_take_is_refused_and_nothing_is_changed(sv: Supervisor) -> None:
    sv.profile("silent", 'extends = "demo"\n[prompt]\ninteractive_resume = "none"\n')
    sv.run("launch", "silent", "--detach", "--name", "tests", "--prompt", "PRINT: done")
    sv.ended("tests")
    before = sv.record("tests")
    words = ["-P", "-m", "supervisor", "resume", "tests", "--prompt", ASLEEP]
    terminal = pexpect.spawn(
        sys.executable, words, env=sv.environment(), cwd=str(sv.work), encoding="utf-8", timeout=60
    )
    terminal.expect("takes no prompt when it is resumed on a terminal.*type it there")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert (terminal.exitstatus, sv.record("tests")) == (5, before)
    assert sv.json("resume", "tests", "--detach", "--prompt", ASLEEP)["name"] == "tests"
