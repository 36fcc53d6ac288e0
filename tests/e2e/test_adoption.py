"""A lost parent, for real: wound down, offered, adopted, released, ended; and a keeper that is killed in the grace."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import alive, gone, kill, wait_for
from tests.e2e.rig import Supervisor, spawn
from tests.e2e.test_reattachment import both_ways

SHORT = 8_000  # ms: long enough to kill a keeper in its midst on a busy machine


def a_family(sv: Supervisor, *children: str, prompt: str = "SLEEP: 1000") -> dict[str, Any]:
    """A lead with children of profile demo, each with a keeper of its own."""
    sv.demo("lead", "\n".join(spawn(name, prompt) for name in children) + "\nSLEEP: 1000")
    return sv.wait_ready("lead", *children)


def kill_lead(sv: Supervisor, before: dict[str, Any]) -> None:
    kill(before["lead"]["keeperPid"])
    kill(before["lead"]["pid"])


def grace(sv: Supervisor, name: str) -> Any:
    """The grace on record, once there is one."""
    return wait_for(lambda: sv.record(name)["state"].get("grace"), f"the grace of {name}")


def status(sv: Supervisor, name: str) -> str:
    return str(sv.record(name)["state"]["status"])


@both_ways
def test_orphans_are_offered_one_is_adopted_and_one_is_released(sv: Supervisor, exit_watch: str) -> None:
    """O1, R5, R6: no relaunch; whoever comes second is told; a release ends it with a hand-off."""
    told = sv.work / "told"
    tell = sv.script("tell", f'echo "$SUPERVISOR_ORPHAN_AGENT" >> "{told}"')
    sv.run("settings", "set", "notify.command", json.dumps([str(tell)]))
    before = a_family(sv, "c1", "c2")
    watch = sv.start("watch", "--json")
    for name in ("other", "third"):
        sv.demo(name, "SLEEP: 1000")
    sv.wait_ready("other", "third")

    kill_lead(sv, before)

    for name in ("c1", "c2"):
        assert grace(sv, name)["evidence"] == f"lead: pid {before['lead']['pid']} is gone"
        assert sv.transcript(name).count("its parent is lost") == 1
    wait_for(lambda: told.exists() and sorted(told.read_text().split()) == ["c1", "c2"], "a notification of each")
    rows = {r["name"]: r for r in sv.json("orphans")}
    assert set(rows) == {"c1", "c2"}
    assert all(r["verdict"] == "alive" and r["adoptableUntil"] for r in rows.values())

    sv.run("adopt", "c1", "--as", "other")

    after = sv.row("c1")
    assert (after["status"], after["pid"], after["parent"]) == ("running", before["c1"]["pid"], "other")
    refused = sv.run("adopt", "c1", "--as", "third", code=5)
    assert "[has_parent]" in refused.err
    assert "[cycle]" in sv.run("adopt", "c2", "--as", "c2", code=5).err

    sv.run("release", "c2")

    assert sv.ended("c2")["cause"] == "stopped"
    assert status(sv, "c2") == "closed"
    assert gone(before["c2"]["pid"])
    assert [r["name"] for r in sv.json("orphans")] == []
    watch.terminate()
    events = [(e["what"], e["name"]) for e in map(json.loads, watch.communicate(timeout=60)[0].splitlines())]
    assert [events.count(e) for e in (("orphaned", "c1"), ("orphaned", "c2"), ("adopted", "c1"))] == [1, 1, 1]


def test_all_workers_of_a_tree_that_lose_their_lead_are_one_notification(sv: Supervisor) -> None:
    told = sv.work / "told"
    tell = sv.script("tell", f'echo "$SUPERVISOR_ORPHANS $SUPERVISOR_ORPHAN_EVIDENCE" >> "{told}"')
    sv.run("settings", "set", "notify.command", json.dumps([str(tell)]))
    names = [f"k{n}" for n in range(10)]
    sleeper = {"profile": "shell", "args": ["sleep", "1000"]}
    sv.tree_file({"lead": sleeper, **{n: {**sleeper, "parent": "lead"} for n in names}})
    sv.run("up", "--detach", "team.toml")
    kill(sv.pid("lead"))

    wait_for(lambda: told.exists() and told.read_text(), "the notification")
    for name in names:
        grace(sv, name)
        assert sv.transcript(name).count("its parent is lost") == 1
    sv.run("down", "team.toml")  # whatever was still to be told has been
    assert told.read_text() == "10 lead killed by KILL\n"


def test_an_ask_that_waits_moves_to_the_adopting_parent(sv: Supervisor) -> None:
    """R5. The orphan's own child has asked; its ask comes back from the lead, waits, and goes to the new parent."""
    sv.setting("asks.mode", "hold")
    kid = spawn("kid", "ASK: bash 'echo hi'\nSLEEP: 1000")
    sv.demo("lead", spawn("mid", f"{kid}\nSLEEP: 1000") + "\nSLEEP: 1000")
    sv.demo("other", "SLEEP: 1000")
    before = sv.wait_ready("lead", "mid", "other")
    inboxes = sv.home / "forwarding" / "sessions"

    def waits_at(name: str) -> list[Path]:
        return list((inboxes / before[name]["sessionId"] / "requests").glob("*.json"))

    (asked,) = wait_for(lambda: waits_at("lead"), "the ask at the lead") or []
    kill_lead(sv, before)
    grace(sv, "mid")

    sv.run("adopt", "mid", "--as", "other")

    (moved,) = wait_for(lambda: waits_at("other"), "the ask at the new parent") or []
    assert moved.name == asked.name
    assert json.loads(moved.read_text())["supervisor"]["hops"] == [before["mid"]["sessionId"]]
    sv.run("answer", asked.stem, "allow")
    wait_for(lambda: "ALLOWED" in sv.transcript("kid"), "the answer")


def test_nobody_came_so_its_keeper_ends_it_and_it_stays_resumable(sv: Supervisor) -> None:
    """Once; also when the keeper is killed in the midst of the grace: its successor goes on with what is left."""
    sv.setting("processMatrix.adoption_grace_ms", SHORT)
    before = a_family(sv, "c1", "c2")
    kill_lead(sv, before)
    began = {name: grace(sv, name) for name in ("c1", "c2")}

    kill(before["c1"]["keeperPid"])
    sv.run("reconcile")

    assert grace(sv, "c1") == began["c1"]
    assert sv.keeper("c1") != before["c1"]["keeperPid"]
    assert alive(before["c1"]["pid"])
    for name in ("c1", "c2"):
        assert sv.ended(name)["cause"] == "stopped"
        assert status(sv, name) == "resumable"
        assert gone(before[name]["pid"])
    assert "[not_alive]" in sv.run("adopt", "c1", "--as", "c2", code=5).err


def test_a_lead_that_ended_with_success_takes_nobody_along(sv: Supervisor) -> None:
    """Done is not lost: its workers work on, are shown as what they are, and may be adopted."""
    sv.setting("processMatrix.adoption_grace_ms", SHORT)
    sv.demo("lead", spawn("c1", "SLEEP: 1000") + "\nSAY: done")
    sv.demo("other", "SLEEP: 1000")
    sv.wait_ready("c1", "other")
    assert sv.ended("lead")["success"] is True
    assert "lead exited with 0" in sv.run("orphans").out
    before = sv.row("c1")
    assert (before["status"], before["adoptableUntil"]) == ("running", None)

    sv.run("adopt", "c1", "--as", "other")

    assert (sv.row("c1")["parent"], sv.pid("c1")) == ("other", before["pid"])


@pytest.mark.parametrize("how", ["agent", "keeper", "both"])
def test_a_file_tree_whose_lead_is_lost(sv: Supervisor, how: str) -> None:
    """One keeper for all. Its own death is no loss of a parent: all are taken over."""
    tree = sv.tree_file(
        {
            "lead": {"profile": "demo", "prompt": "SLEEP: 1000"},
            "kid": {"profile": "demo", "prompt": "SLEEP: 1000", "parent": "lead"},
        }
    )
    sv.run("up", tree)
    before = sv.wait_ready("lead", "kid")
    if how != "agent":
        kill(before["lead"]["keeperPid"])
    if how != "keeper":
        kill(before["lead"]["pid"])
    sv.run("reconcile")
    if how == "keeper":
        assert {status(sv, n) for n in ("lead", "kid")} == {"running"}
    else:
        grace(sv, "kid")
    assert alive(before["kid"]["pid"])


def test_a_parent_that_hangs_is_lost_after_the_bound_and_has_its_child_back_when_it_goes_on(sv: Supervisor) -> None:
    """Its process was there all the time: the same process beats again, so nobody need adopt anything."""
    for key in ("heartbeat_ms", "watcher_poll_ms"):
        sv.run("settings", "set", f"processMatrix.{key}", "1000")
    before = a_family(sv, "c1")
    os.kill(before["lead"]["keeperPid"], signal.SIGSTOP)
    try:
        assert "has not beaten for" in grace(sv, "c1")["evidence"]
    finally:
        os.kill(before["lead"]["keeperPid"], signal.SIGCONT)
    wait_for(lambda: status(sv, "c1") == "running", "c1 under its own parent again")
    after = sv.row("c1")
    assert (after["pid"], after["parent"], after["orphan"]) == (before["c1"]["pid"], "lead", None)


def test_a_child_whose_parent_died_before_its_first_instruction_learns_it_all_the_same(sv: Supervisor) -> None:
    """P18."""
    lead = sv.demo("lead", "SLEEP: 1000")
    kill(lead["pid"])
    sv.ended("lead")
    words = ("launch", "--detach", "--name", "c1", "--parent-session", lead["sessionId"], "demo", "--", "SLEEP: 1000")
    sv.run(*words)
    assert "killed by KILL" in grace(sv, "c1")["evidence"]
