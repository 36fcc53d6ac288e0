"""A terminal has died, for real: what is one's own comes back, the rest is offered, nothing is killed or doubled."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import pexpect

from tests.e2e.processes import alive, environment, kill, wait_for
from tests.e2e.rig import Supervisor, spawn
from tests.e2e.test_resume import crash

ASLEEP = "SLEEP: 1000"


def family(sv: Supervisor, *children: str, task: str | None = None) -> Any:
    """A lead and its children, each with a keeper of its own."""
    prompt = "\n".join(spawn(name, ASLEEP) for name in children) + f"\n{ASLEEP}"
    sv.demo("lead", prompt, *(("--task-ref", task) if task else ()))
    rows = sv.wait_ready("lead", *children)
    for name in children:  # what wakes it up again is also what it does then
        sv.run("checkpoint", name, "--summary", ASLEEP)
    return rows


def events(out: str) -> list[tuple[str, str]]:
    return [(e["event"], e["name"]) for e in map(json.loads, out.splitlines())]


def on_terminal(sv: Supervisor, *words: str) -> Any:
    return pexpect.spawn(
        sys.executable,
        ["-P", "-m", "supervisor", *words],
        env={**sv.environment(), "TERM": "xterm"},
        cwd=str(sv.work),
        encoding="utf-8",
        timeout=60,
    )


def test_a_resumed_master_gets_its_own_back_the_live_adopted_the_dead_resumed(sv: Supervisor) -> None:
    before = family(sv, "live", "dead", task="G-7")
    crash(sv, "lead", "dead")
    wait_for(lambda: sv.record("live")["state"].get("grace"), "the orphan's grace")

    resumed = sv.run("resume", "lead", "--detach", "--prompt", ASLEEP)

    assert "live: adopted" in resumed.err and "dead: resumed" in resumed.err
    rows = sv.wait_ready("lead", "live", "dead")
    assert rows["live"]["pid"] == before["live"]["pid"], "nothing was relaunched that lived"
    assert rows["dead"]["pid"] != before["dead"]["pid"]
    assert {rows[n]["parentSessionId"] for n in ("live", "dead")} == {rows["lead"]["sessionId"]}
    assert len(sv.prompts("dead")) == 2
    assert sv.record("dead")["taskRef"] == "G-7", "a child works on its parent's task"
    again = sv.run("recover", "--as", "lead")
    assert again.out == "nothing to recover\n"


def test_without_a_terminal_what_is_foreign_is_told_of_and_nothing_is_written(sv: Supervisor) -> None:
    """R7."""
    family(sv, "live", "dead")
    crash(sv, "lead", "dead")
    wait_for(lambda: sv.record("live")["state"].get("grace"), "the orphan's grace")
    assert [row["name"] for row in sv.json("orphans")] == ["live"], "the dead one is resumed, not adopted"
    sv.run("reconcile")
    sv.demo("other", ASLEEP)
    before = {n: sv.record(n)["revision"] for n in ("lead", "live", "dead")}

    told = sv.run("recover", "--as", "other")

    assert sorted(line.partition(":")[0] for line in told.out.splitlines()) == ["dead", "lead", "live"]
    assert "supervisor resume dead" in told.out and "supervisor adopt live --as SESSION" in told.out
    assert {n: sv.record(n)["revision"] for n in before} == before
    assert sorted(events(sv.run("recover", "--json").out)) == [("offered", n) for n in ("dead", "lead", "live")]


def test_a_blocked_task_keeps_its_agents_from_coming_back_by_themselves(sv: Supervisor) -> None:
    family(sv, "kid", task="G-7")
    crash(sv, "kid")
    sv.run("task", "set", "G-7", "blocked")

    stopped = sv.run("recover", "--as", "lead", "--json", code=5)

    (event,) = map(json.loads, stopped.out.splitlines())
    assert (event["event"], event["name"], event["fence"]) == ("fenced", "kid", "task_blocked")
    assert event["hint"] == "By name it can be: supervisor resume kid"
    assert "[task_blocked]. By name it can be: supervisor resume kid" in sv.run("recover", "--as", "lead", code=5).err
    assert "Its task G-7 is blocked: it is not recovered by itself." in sv.run("why", "kid").out
    sv.run("task", "set", "G-7", "open")
    assert events(sv.run("recover", "--as", "lead", "--json").out) == [("resumed", "kid")]


def test_hand_offs_wait_for_the_session_that_they_are_for(sv: Supervisor) -> None:
    sv.demo("lead", f"{spawn('kid', 'EXIT: 3')}\n{ASLEEP}")
    wait_for(lambda: "kid" in sv.ps() and sv.record("kid")["state"].get("handOff"), "the end of kid")
    crash(sv, "lead")
    sv.demo("other", ASLEEP)

    assert "kid" not in sv.run("recover", "--as", "other").out
    assert [h["name"] for h in sv.json("handoffs")] == ["kid"]
    resumed = sv.run("resume", "lead", "--detach", "--prompt", ASLEEP)

    assert "kid: exited with 3" in resumed.err
    assert sv.json("handoffs") == []
    assert "kid: exited with 3" in sv.prompts("lead")[-1]


def test_on_a_terminal_hand_offs_are_told_before_the_agent_has_the_screen(sv: Supervisor) -> None:
    sv.demo("lead", f"{spawn('kid', 'EXIT: 3')}\n{ASLEEP}")
    wait_for(lambda: "kid" in sv.ps() and sv.record("kid")["state"].get("handOff"), "the end of kid")
    crash(sv, "lead")

    lead = on_terminal(sv, "resume", "lead")

    lead.expect("kid: exited with 3")
    wait_for(lambda: sv.json("handoffs") == [], "the end of kid noted as told")
    lead.sendintr()
    lead.expect(pexpect.EOF)
    lead.close()


def test_on_a_terminal_one_after_the_other_is_offered_with_its_facts(sv: Supervisor) -> None:
    family(sv, "c1", "c2", "c3")
    crash(sv, "lead", "c3")
    for name in ("c1", "c2"):
        wait_for(lambda n=name: sv.record(n)["state"].get("grace"), "the orphan's grace")
    sv.demo("boss", ASLEEP)

    terminal = on_terminal(sv, "recover", "--as", "boss")
    answers = {"c1": "a", "c2": "c", "c3": "r", "lead": "d"}
    for _ in answers:
        terminal.expect(r"agent\s+(\w+) \(demo\), (lives|dead), ")
        name = str(terminal.match.group(1))
        terminal.expect(r"\[q\] leave all")
        terminal.sendline(answers[name])
    terminal.expect(pexpect.EOF)

    terminal.close()
    assert terminal.exitstatus == 0
    boss = sv.row("boss")["sessionId"]
    assert sv.record("c1")["parent"]["sessionId"] == boss
    sv.ended("c2")
    assert sv.record("c3")["parent"]["sessionId"] == boss
    assert sv.row("lead")["status"] == "resumable"
    assert events(sv.run("recover", "--json").out) == [], "one that was dropped is offered no more"


def test_a_dead_agent_that_is_stopped_is_offered_no_more_and_comes_back_by_name_alone(sv: Supervisor) -> None:
    family(sv, "kid")
    crash(sv, "lead", "kid")
    sv.run("reconcile")

    assert sv.run("stop", "kid").out.endswith("; is not brought back by itself\n")

    assert events(sv.run("recover", "--json").out) == [("offered", "lead")]
    sv.run("resume", "lead", "--detach", "--prompt", ASLEEP)
    assert sv.row("kid")["status"] == "resumable"
    sv.run("resume", "kid", "--detach", "--prompt", ASLEEP)
    assert sv.row("kid")["verdict"] == "alive"


def test_a_question_that_is_open_when_its_session_is_stopped_can_write_nothing_any_more(sv: Supervisor) -> None:
    family(sv, "c1")
    crash(sv, "lead")
    wait_for(lambda: sv.record("c1")["state"].get("grace"), "the orphan's grace")
    sv.demo("boss", ASLEEP)
    terminal = on_terminal(sv, "recover", "--as", "boss")
    terminal.expect(r"agent\s+lead ")
    terminal.expect(r"\[q\] leave all")
    terminal.sendline("l")
    terminal.expect(r"agent\s+c1 ")
    terminal.expect(r"\[q\] leave all")
    sv.run("stop", "boss")
    before = sv.record("c1")["revision"]

    terminal.sendline("a")
    terminal.expect_exact("[session_ended]")
    terminal.expect(pexpect.EOF)

    terminal.close()
    assert (terminal.exitstatus, sv.record("c1")["revision"]) == (5, before)


def test_a_foreground_master_that_is_resumed_gets_its_own_back_without_a_question(sv: Supervisor) -> None:
    family(sv, "c1")
    crash(sv, "lead")
    wait_for(lambda: sv.record("c1")["state"].get("grace"), "the orphan's grace")

    lead = on_terminal(sv, "resume", "lead")  # it says nothing before its person does

    wait_for(lambda: sv.record("c1")["state"]["status"] == "running", "the orphan adopted again")
    assert sv.record("c1")["parent"]["pid"] == sv.pid("lead")
    lead.sendintr()
    lead.expect(pexpect.EOF)
    lead.close()
    assert "[l] leave" not in lead.before


def test_recoveries_launches_and_keepers_that_race_take_each_agent_once(sv: Supervisor) -> None:
    """All keepers are killed and some agents with them; everybody comes at once."""
    names = [f"k{n}" for n in range(6)]
    before = family(sv, *names)
    crash(sv, "k0", "k1")
    for name in names[2:]:
        kill(before[name]["keeperPid"])

    words: Sequence[Sequence[str]] = [
        ("recover", "--as", "lead", "--yes-exact-only"),
        ("recover", "--as", "lead", "--json"),
        ("reconcile",),
        ("resume", "k0", "--detach", "--prompt", ASLEEP),
        ("launch", "--detach", "--name", "new", "demo", "--prompt", ASLEEP),
        ("recover", "--as", "lead", "--yes-exact-only"),
    ]
    racers = [sv.start(*w) for w in words]
    for racer in racers:
        racer.communicate(timeout=60)

    rows = sv.wait_ready("lead", "new", *names)
    for name in names[2:]:
        assert rows[name]["pid"] == before[name]["pid"]
    for name in names:
        entry = sv.row(name)["entryId"]
        bearers = {p for p in sv.alive() if environment(p).get("SUPERVISOR_ENTRY_ID") == entry}
        leaders = {p for p in bearers if os.getsid(p) == p}
        assert leaders == {rows[name]["pid"]}, f"{name} runs once"
        assert len(sv.prompts(name)) == (2 if name in names[:2] else 1)
    assert all(alive(rows[n]["keeperPid"]) for n in names)
