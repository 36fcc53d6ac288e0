"""`up` and `down`: one tree from one file, checked whole, started once, stopped children first."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.processes import cmdline, gone, kill, wait_for
from tests.e2e.rig import Supervisor

SLEEPER = {"profile": "shell", "args": ["sleep", "1000"]}


def test_up_starts_parents_before_children_and_predecessors_first(sv: Supervisor) -> None:
    def note(name: str) -> dict[str, Any]:
        return {"profile": "shell", "args": ["/bin/sh", "-c", f"echo {name} >> order; exec sleep 1000"]}

    sv.tree_file(
        {
            "last": {**note("last"), "after": ["kid", "first"]},
            "kid": {**note("kid"), "parent": "lead"},
            "lead": {**note("lead"), "after": ["first"]},
            "first": note("first"),
        }
    )

    out = sv.run("up", "team.toml").out

    rows = sv.ps()
    assert {n: r["verdict"] for n, r in rows.items()} == dict.fromkeys(("last", "kid", "lead", "first"), "alive")
    assert (rows["kid"]["parent"], rows["kid"]["role"], rows["lead"]["role"]) == ("lead", "worker", "master")
    started = [r["startedAt"] for r in (rows["first"], rows["lead"], rows["kid"], rows["last"])]
    assert started == sorted(started)
    assert {line for line in out.splitlines() if line.endswith(": ready")} == {f"{n}: ready" for n in rows}
    wait_for(lambda: len((sv.work / "order").read_text().split()) == 4, "all four lines")
    assert rows["kid"]["parentSessionId"] == rows["lead"]["sessionId"]
    assert sv.record("kid")["parent"]["process"]["key"]["pid"] == rows["lead"]["pid"]


def test_after_waits_for_the_proof_and_not_for_the_spawn(sv: Supervisor) -> None:
    sv.profile("speaker", '[ready]\nwhen = "output"\n[prompt]\nheadless = "none"\nwords = "args"\n')
    script = "while [ ! -e go ]; do sleep 0.02; done; echo here; exec sleep 1000"
    sv.tree_file(
        {
            "first": {"profile": "speaker", "args": ["/bin/sh", "-c", script]},
            "second": {**SLEEPER, "after": ["first"]},
        }
    )
    going = sv.start("up", "team.toml")
    wait_for(lambda: "first" in (rows := sv.ps()) and rows["first"]["status"] == "running", "first running")
    assert sv.row("second")["status"] == "starting"

    (sv.work / "go").touch()

    assert going.wait(60) == 0
    assert sv.row("second")["status"] == "running"


def test_20_up_at_once_make_one_tree_and_nineteen_are_told(sv: Supervisor) -> None:
    """P14."""
    names = ["a0", "a1", "a2"]
    sv.tree_file(dict.fromkeys(names, SLEEPER))

    racing = [sv.start("up", "--json", "team.toml") for _ in range(20)]
    told = [json.loads(r.communicate(timeout=60)[0]) for r in racing]

    assert {r.returncode for r in racing} == {0}
    started = [sorted(s["name"] for s in t["started"]) for t in told if t["started"]]
    assert started == [names]
    assert sum(t["alreadyRunning"] == names for t in told) == 19
    sleepers = [p for p in sv.alive() if cmdline(p)[-2:] == ["sleep", "1000"] or cmdline(p)[-1:] == ["1000"]]
    assert len(sleepers) == 3
    assert len(sv.records()) == 3


def test_20_launches_of_one_name_at_once_start_one_agent(sv: Supervisor) -> None:
    racing = [sv.start("launch", "--detach", "--name", "a1", "shell", "--", "sleep", "1000") for _ in range(20)]
    told = [r.communicate(timeout=60)[1] for r in racing]

    assert sorted(r.returncode for r in racing) == [0] + [1] * 19
    assert sum(b"the name a1 is taken by a running agent" in t for t in told) == 19
    assert len(sv.records()) == 1


def test_up_again_starts_what_is_missing_and_leaves_the_rest_alone(sv: Supervisor) -> None:
    sv.tree_file({"a1": SLEEPER, "a2": {**SLEEPER, "parent": "a1"}})
    sv.run("up", "team.toml")
    before = sv.ps()
    sv.run("stop", "a2")

    done = sv.json("up", "team.toml")

    assert (done["alreadyRunning"], [s["name"] for s in done["started"]]) == (["a1"], ["a2"])
    after = sv.row("a2")
    assert sv.pid("a1") == before["a1"]["pid"]
    assert (after["parent"], after["verdict"]) == ("a1", "alive")
    assert sv.record("a2")["parent"]["process"]["key"]["pid"] == before["a1"]["pid"]


def test_up_tells_of_an_agent_that_dies_first_and_starts_the_others(sv: Supervisor) -> None:
    script = sv.script("young", "echo 'no licence'; exit 7")
    sv.profile(
        "young",
        f'[argv]\nbase = ["{script}"]\nstart = [["{{session_id}}"]]\n'
        '[session]\nid = "preset"\nfiles = ["$HOME/{session_id}.session"]\n[ready]\nwhen = "session_file"\n',
    )
    sv.tree_file({"a1": SLEEPER, "bad": {"profile": "young"}})

    done = sv.run("up", "team.toml", code=1)

    assert "bad exited with 7 before it was up" in done.err
    assert sv.row("a1")["verdict"] == "alive"


def test_down_stops_children_first_and_only_this_tree(sv: Supervisor) -> None:
    sv.tree_file({"lead": SLEEPER, "kid": {**SLEEPER, "parent": "lead"}, "g": {**SLEEPER, "parent": "kid"}})
    sv.tree_file({"other": SLEEPER}, name="other.toml")
    sv.run("up", "team.toml")
    sv.run("up", "other.toml")
    sv.launch("alone")

    told = sv.json("down", "team.toml")

    assert [(r["name"], r["result"]) for r in told] == [("g", "stopped"), ("kid", "stopped"), ("lead", "stopped")]
    assert {n: sv.row(n)["verdict"] for n in ("other", "alone")} == {"other": "alive", "alone": "alive"}


def test_down_stops_what_the_trees_agents_launched_themselves(sv: Supervisor) -> None:
    sv.tree_file({"lead": {"profile": "demo", "prompt": 'SPAWN: kid demo "SLEEP: 1000"\nSLEEP: 1000'}})
    sv.run("up", "team.toml")
    sv.wait_ready("lead", "kid")

    told = sv.json("down", "team.toml")

    assert [(r["name"], r["result"]) for r in told] == [("kid", "stopped"), ("lead", "stopped")]
    wait_for(lambda: not sv.alive(), "the end of all of it")


def test_an_up_while_the_tree_is_being_ended_makes_no_half_of_one(sv: Supervisor) -> None:
    """What is about to end does not count as running, and is no parent for what would be started."""
    stubborn = {"profile": "shell", "args": ["/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"]}
    sv.tree_file({"lead": stubborn, "kid": {**SLEEPER, "parent": "lead"}})
    sv.run("up", "team.toml")
    going = sv.start("stop", "lead", "--grace", "600")
    wait_for(lambda: sv.record("lead")["want"] == "down", "the wish to end")

    refused = sv.run("up", "team.toml", code=1)

    assert "are being ended: lead. First: supervisor wait lead" in refused.err
    sv.run("down", "--grace", "0", "team.toml")
    going.communicate()
    sv.run("up", "team.toml")
    assert {r["name"]: r["parent"] for r in sv.json("ps")} == {"lead": None, "kid": "lead"}
    sv.run("down", "--grace", "0", "team.toml")


def test_down_works_when_the_file_is_gone(sv: Supervisor) -> None:
    path = sv.tree_file({"a1": SLEEPER})
    sv.run("up", "team.toml")
    path.unlink()

    sv.run("down", "team.toml")

    assert sv.row("a1")["status"] == "closed"


def test_an_agent_of_a_tree_that_is_killed_is_started_again_by_its_policy_alone(sv: Supervisor) -> None:
    sv.tree_file({"stays": {**SLEEPER, "restart": "permanent"}, "goes": SLEEPER})
    sv.run("up", "team.toml")
    before = sv.ps()

    for name in ("stays", "goes"):
        kill(before[name]["pid"])

    wait_for(lambda: (r := sv.row("stays"))["ready"] and r["restarts"] == 1, "the next generation")
    assert sv.ended("goes")["signal"] == "KILL"
    assert gone(before["stays"]["pid"], before["goes"]["pid"])


def test_agents_whose_binary_has_vanished_back_off_and_the_others_run(sv: Supervisor) -> None:
    """P20."""
    script = sv.script("agent", "exec sleep 1000")
    sv.tree_file(
        {
            **{f"a{n}": {"profile": "shell", "args": ["./agent"], "restart": "permanent"} for n in range(10)},
            "good": {**SLEEPER, "restart": "permanent"},
        }
    )
    sv.run("up", "team.toml")
    good = sv.row("good")
    script.unlink()
    for number in range(10):
        kill(sv.pid(f"a{number}"))

    def third_try() -> bool:
        return all(len(sv.record(f"a{n}")["deaths"]) >= 4 for n in range(10))

    wait_for(third_try, "three tries to start each again")
    for number in range(10):
        times = [d["monotonicNs"] for d in sv.record(f"a{number}")["deaths"]]
        gaps = [b - a for a, b in zip(times[1:], times[2:], strict=False)]
        assert gaps == sorted(gaps), number
    assert (sv.row("good")["pid"], sv.row("good")["verdict"]) == (good["pid"], "alive")
    sv.run("down", "--grace", "0", "team.toml")
    assert {r["status"] for r in sv.ps().values()} == {"closed"}


def test_an_up_right_after_a_record_was_torn_starts_no_second_agent(sv: Supervisor) -> None:
    """I6: the record is set aside, and the keeper that lives writes it anew before anybody concludes anything."""
    sv.tree_file({"a1": SLEEPER, "a2": SLEEPER})
    sv.run("up", "team.toml")
    pids = {sv.pid("a1"), sv.pid("a2")}
    path = sv.record_path("a1")
    Supervisor.replace(path, path.read_bytes()[:200])

    told = sv.json("up", "team.toml")

    assert (sorted(told["alreadyRunning"]), told["started"]) == (["a1", "a2"], [])
    assert {row["pid"] for row in sv.json("ps")} == pids
    sv.run("down", "team.toml")


def test_a_tree_file_is_found_by_default(sv: Supervisor) -> None:
    sv.tree_file({"a1": SLEEPER}, name="supervisor.toml")

    sv.run("up")
    assert sv.row("a1")["verdict"] == "alive"
    sv.run("down")
    assert sv.row("a1")["status"] == "closed"


def test_a_dry_run_of_up_shows_the_order_and_starts_nothing(sv: Supervisor) -> None:
    sv.tree_file({"kid": {**SLEEPER, "parent": "lead"}, "lead": SLEEPER})

    assert sv.json("up", "--dry-run", "team.toml")["order"] == ["lead", "kid"]
    assert sv.traces() == []


def test_watch_in_a_pipe_tells_one_event_a_line(sv: Supervisor) -> None:
    watching = sv.start("watch", "--json")
    sv.launch("a1")
    sv.run("stop", "a1")

    seen: list[Any] = []
    for line in watching.stdout:
        seen.append(json.loads(line))
        if "closed" in json.dumps(seen[-1]):
            break

    assert any("a1" in json.dumps(event) for event in seen)
