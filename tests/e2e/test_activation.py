"""A master starts on a terminal, for real: what waits to be recovered is offered first, one agent after the other."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pexpect
import pytest

from tests.e2e.processes import wait_for
from tests.e2e.rig import Supervisor, spawn
from tests.e2e.test_recover import ASLEEP, family, on_terminal
from tests.e2e.test_resume import crash

LAUNCH = ("launch", "demo", "--name", "fresh")


def lost_family(sv: Supervisor, *live: str, dead: str) -> None:
    """A lead that is dead, children that live, and one that is dead."""
    family(sv, *live, dead)
    sv.run("checkpoint", "lead", "--summary", ASLEEP)
    crash(sv, "lead", dead)
    for name in live:
        wait_for(lambda n=name: sv.record(n)["state"].get("grace"), f"the grace of {name}")
    sv.run("reconcile")


def question(terminal: Any) -> str:
    """The next agent that is asked about."""
    terminal.expect(r"agent\s+(\w+) \(demo\), (lives|dead), ")
    name = str(terminal.match.group(1))
    terminal.expect(r"\[q\] leave all.*: ")
    return name


def revisions(sv: Supervisor) -> dict[str, int]:
    return {r["name"]: sv.record(r["name"])["revision"] for r in sv.ps().values()}


def ended(terminal: Any) -> int:
    terminal.expect(pexpect.EOF)
    terminal.close()
    return int(terminal.exitstatus if terminal.exitstatus is not None else 128 + terminal.signalstatus)


def test_a_launch_of_a_master_offers_them_and_takes_in_what_is_wanted_once_it_runs(sv: Supervisor) -> None:
    lost_family(sv, "c1", "c2", dead="c3")
    pid = sv.pid("c1")
    answers = {"c1": "a", "c2": "c", "c3": "r", "lead": "l"}

    fresh = on_terminal(sv, *LAUNCH)
    fresh.expect("4 agents wait to be recovered")
    assert "fresh" not in sv.ps(), "it is asked before anything is launched"
    for _ in answers:
        fresh.sendline(answers[question(fresh)])
    fresh.expect("fresh · session ")

    rows = sv.wait_ready("c1", "c3")
    wait_for(lambda: sv.row("c1")["parent"] == sv.row("c3")["parent"] == "fresh", "both below the new master")
    assert rows["c1"]["pid"] == pid, "nothing is relaunched that lives"
    sv.ended("c2")
    assert sv.row("lead")["status"] == "resumable"
    fresh.sendintr()
    assert ended(fresh) == 130


def test_a_dead_master_that_is_resumed_takes_its_own_along_and_they_are_not_offered_any_more(sv: Supervisor) -> None:
    lost_family(sv, "c1", dead="c2")

    fresh = on_terminal(sv, *LAUNCH, "--prompt", "EXIT: 0")
    assert question(fresh) == "lead"
    fresh.sendline("r")
    fresh.expect("lead: resumed")

    assert ended(fresh) == 0
    assert "agent  " not in fresh.before
    rows = sv.wait_ready("lead", "c1", "c2")
    assert {rows[n]["parent"] for n in ("c1", "c2")} == {"lead"}


def test_one_answer_leaves_them_all_and_nothing_is_written(sv: Supervisor) -> None:
    lost_family(sv, "c1", dead="c2")
    before = revisions(sv)

    fresh = on_terminal(sv, *LAUNCH, "--prompt", "EXIT: 3")
    question(fresh)
    fresh.sendline("q")

    assert ended(fresh) == 3
    assert {n: r for n, r in revisions(sv).items() if n != "fresh"} == before


@pytest.mark.parametrize(
    ("leave", "code"),
    [(lambda t: t.sendintr(), 130), (lambda t: t.sendeof(), 130), (lambda t: t.kill(signal.SIGKILL), 137)],
)
def test_who_goes_away_while_asked_has_launched_nothing(
    sv: Supervisor, leave: Callable[[Any], object], code: int
) -> None:
    lost_family(sv, "c1", dead="c2")
    before = revisions(sv)

    fresh = on_terminal(sv, *LAUNCH)
    question(fresh)
    fresh.sendline("l")
    assert question(fresh) == "c1"
    fresh.sendline("a")
    question(fresh)
    leave(fresh)

    assert ended(fresh) == code
    assert revisions(sv) == before


@pytest.mark.parametrize("words", [("--detach",), ("--json",), ("--dry-run",), ("--wait", "spawned")])
def test_who_has_no_terminal_for_it_is_not_asked(sv: Supervisor, words: tuple[str, ...]) -> None:
    lost_family(sv, "c1", dead="c2")

    fresh = on_terminal(sv, "launch", *words, "shell", "--", "true")
    assert ended(fresh) == 0

    assert "to be recovered" not in fresh.before
    assert "leave all" not in fresh.before


def test_what_cannot_be_launched_is_said_before_anybody_is_asked(sv: Supervisor) -> None:
    lost_family(sv, "c1", dead="c2")
    sv.demo("fresh", ASLEEP)

    fresh = on_terminal(sv, *LAUNCH)

    assert ended(fresh) == 1
    assert "leave all" not in fresh.before


def test_a_resume_of_a_master_offers_what_is_of_others_and_its_own_come_back_by_themselves(sv: Supervisor) -> None:
    lost_family(sv, "c1", dead="c2")
    sv.demo("boss", f"{spawn('tests', ASLEEP)}\n{ASLEEP}")
    sv.wait_ready("boss", "tests")
    crash(sv, "boss")
    wait_for(lambda: sv.record("tests")["state"].get("grace"), "the grace of tests")

    lead = on_terminal(sv, "resume", "lead")
    answers = {"boss": "l", "tests": "a"}
    for _ in answers:
        lead.sendline(answers[question(lead)])

    wait_for(lambda: {sv.row(n)["parent"] for n in ("c1", "c2", "tests")} == {"lead"}, "all below the lead")
    sv.wait_ready("c1", "c2", "tests")
    lead.sendintr()
    ended(lead)
