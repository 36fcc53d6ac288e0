"""Each detector of a chaos run counts the fault that is planted for it, and nothing in the clean world beside it."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from supervisor.adapters.atomic_file import temp_name
from tests.chaos.__main__ import _moves
from tests.chaos.decoys import Decoys
from tests.chaos.injector import Injector
from tests.chaos.verdict import Found, Judge
from tests.chaos.witness import Witness
from tests.chaos.world import MARK, Proc, World
from tests.e2e.processes import stat_of, wait_for

NOBODY = {"key": {"pid": 1 << 22, "startTicks": 1}}
Process = dict[str, Any]


class Ended(NamedTuple):
    """A `subprocess.Popen` of a command that has ended so; None: it hangs."""

    code: int | None
    pid: int = 1 << 22

    def poll(self) -> int | None:
        return self.code


class Told:
    """A `Command` as the judge sees it."""

    def __init__(self, *words: str, code: int | None, output: str = "", hit: bool = False) -> None:
        self.words, self.process, self.hit, self.began = words, Ended(code), hit, 0.0
        self._output = output

    def output(self) -> str:
        return self._output


class Scene:
    """A world without a `supervisor`: its files are written, and its commands answered, by the test."""

    def __init__(self, root: Path) -> None:
        self.world = World(root)
        for folder in ("process-matrix", "locks", "logs"):
            (self.world.home / folder).mkdir(parents=True)
        self.decoys = Decoys(root, may_choose=False)
        self.injector = Injector(self.world, self.decoys, root / "faults.jsonl")
        self.witness = Witness(self.world)
        self.judge = Judge(self.world, self.injector, self.witness, self.decoys, lock_wait_s=0.05, end_wait_s=0.2)
        self.answers: dict[str, tuple[int, str]] = {}
        self.world.run = lambda *words, **_: self.answers.get(words[0], (0, ""))  # type: ignore[method-assign]
        self.shown: dict[int, Proc] = {}
        self.world.processes = lambda: dict(self.shown)  # type: ignore[method-assign]

    def record(self, name: str, state: dict[str, Any], *, process: Process = NOBODY, keeper: Process = NOBODY) -> Path:
        path = self.world.matrix / f"{name}.json"
        record = {
            "entryId": f"e-{name}",
            "name": name,
            "state": state,
            "generation": {"process": process},
            "keeper": {"process": keeper},
        }
        path.write_text(json.dumps(record))
        return path

    def agent(self, name: str, *, agent_id: str = "", session: str = "", pid: int | None = None) -> None:
        """A process that looks like an agent: one of ours that certainly lives."""
        pid = os.getpid() if pid is None else pid
        seen = stat_of(pid)
        assert seen is not None
        argv = ["python", "-m", "supervisor.demo", "--session-id", session or f"s-{name}"]
        env = {"SUPERVISOR_ENTRY_ID": f"e-{name}", "SUPERVISOR_AGENT_ID": agent_id or f"a-{name}"}
        self.shown[pid] = Proc(pid, seen.start_ticks, "S", argv, env)

    def log(self, *events: dict[str, Any]) -> None:
        (self.world.home / "logs" / "asks.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))

    def asked(self, tool: str, code: int | None) -> None:
        self.injector.asked[tool] = Told("ask", code=code)  # type: ignore[assignment]

    def done(self, *words: str, code: int | None, output: str = "", hit: bool = False) -> None:
        self.injector.done.append(Told(*words, code=code, output=output, hit=hit))  # type: ignore[arg-type]

    def calm(self) -> Found:
        return {name: cases for name, cases in self.judge.calm().items() if cases}

    def final(self) -> Found:
        return {name: cases for name, cases in self.judge.final().items() if cases}


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.decoys.end()


def me() -> Process:
    seen = stat_of(os.getpid())
    assert seen is not None
    return {"key": {"pid": os.getpid(), "startTicks": seen.start_ticks}}


RUNNING = {"status": "running"}
CLOSED = {"status": "closed", "handOff": {"code": 0}}
ASKED = {"event": "received", "ask": "perm-1", "tool": "other-1"}


def counted(found: Found) -> dict[str, int]:
    return {name: len(cases) for name, cases in found.items()}


def test_nothing_is_found_in_a_world_where_all_is_well(scene: Scene) -> None:
    scene.record("lives", RUNNING, process=me(), keeper=me())
    scene.record("ended", CLOSED)
    scene.record("starting", {"status": "starting"}, keeper=me())
    scene.agent("lives")
    (scene.world.home / "locks" / "00").touch()
    scene.log(ASKED, {"event": "answered", "ask": "perm-1", "approved": False})
    scene.asked("other-1", 1)
    scene.done("resume", code=5)
    calm = scene.calm()
    scene.shown.clear()  # stopped
    assert (calm, scene.final()) == ({}, {})


# -- lost hand-offs


def test_a_record_that_vanished_is_a_lost_hand_off(scene: Scene) -> None:
    path = scene.record("lead", CLOSED)
    scene.witness.look()
    path.unlink()
    assert counted(scene.calm()) == {"lost hand-offs": 1}


def test_one_that_a_fault_has_torn_is_lost_by_design_unless_its_keeper_lives(scene: Scene) -> None:
    for name, keeper in (("torn", NOBODY), ("kept", me())):
        path = scene.record(name, RUNNING, keeper=keeper)
        scene.witness.look()
        path.unlink()
        scene.injector.torn.add(f"e-{name}")
    assert counted(scene.calm()) == {"lost hand-offs": 1}
    assert scene.judge.lost_by_design == {"e-torn"}


@pytest.mark.parametrize("state", [{"status": "closed"}, {"status": "resumable", "handOff": None}])
def test_an_end_without_a_hand_off_is_a_lost_one(scene: Scene, state: dict[str, Any]) -> None:
    scene.record("lead", state)
    assert counted(scene.calm()) == {"lost hand-offs": 1}


@pytest.mark.parametrize(("process", "keeper"), [("gone", "lives"), ("lives", "gone"), ("gone", "gone")])
def test_a_record_that_says_running_of_what_is_gone_is_a_lost_hand_off(scene: Scene, process: str, keeper: str) -> None:
    refs = {"lives": me(), "gone": NOBODY}
    scene.record("lead", RUNNING, process=refs[process], keeper=refs[keeper])
    assert counted(scene.calm()) == {"lost hand-offs": 1}


# -- agents


def test_a_live_agent_without_a_record_is_unrecorded(scene: Scene) -> None:
    scene.agent("lead")
    assert counted(scene.calm()) == {"unrecorded live agents": 1}


def test_a_live_agent_whose_record_is_closed_is_unrecorded(scene: Scene) -> None:
    scene.record("lead", CLOSED, process=me())
    scene.agent("lead")
    assert counted(scene.calm()) == {"unrecorded live agents": 1}


def test_a_live_agent_whose_record_names_another_process_is_unrecorded(scene: Scene) -> None:
    scene.record("lead", RUNNING, process=me(), keeper=me())
    scene.agent("lead", pid=os.getppid())
    assert counted(scene.calm()) == {"unrecorded live agents": 1}


@pytest.mark.parametrize("same", ["agent", "entry", "session"])
def test_one_that_runs_twice_is_doubled(scene: Scene, same: str) -> None:
    scene.record("lead", RUNNING, process=me(), keeper=me())
    scene.agent("lead", agent_id="a", session="s")
    other = {"agent_id": "a" if same == "agent" else "b", "session": "s" if same == "session" else "t"}
    scene.agent("lead" if same == "entry" else "other", pid=os.getppid(), **other)
    assert [d.split()[0] for d in scene.calm()["doubled agents"]] == [same]


# -- locks


def test_a_lock_that_somebody_holds_for_ever_is_stuck(scene: Scene) -> None:
    path = scene.world.home / "locks" / "0a"
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert scene.calm() == {"stuck locks": ["0a"]}
    assert scene.calm() == {}


# -- asks

ALLOWED = {"event": "answered", "ask": "perm-1", "approved": True}
DENIED = {**ALLOWED, "approved": False}
EXPIRED = {"event": "expired", "ask": "perm-1"}


@pytest.mark.parametrize(
    ("code", "events"),
    [
        (None, [ASKED, ALLOWED]),  # it hangs
        (4, [ASKED]),  # nobody says why
        (0, [ASKED, DENIED]),  # it was told another thing than was decided
        (0, [ASKED, EXPIRED]),
        (1, [ASKED, EXPIRED]),  # nobody has decided, and that is no refusal
        (0, [ASKED, ALLOWED, DENIED]),  # two outcomes
        (70, [ASKED, ALLOWED]),
        (0, []),  # nobody has heard of it
    ],
)
def test_an_ask_without_one_outcome_is_counted(scene: Scene, code: int | None, events: list[dict[str, Any]]) -> None:
    scene.log(*events)
    scene.asked("other-1", code)
    assert counted(scene.calm())["asks without one outcome"] == 1


@pytest.mark.parametrize(("code", "event"), [(0, ALLOWED), (1, DENIED), (4, EXPIRED)])
def test_an_ask_with_one_outcome_is_not(scene: Scene, code: int, event: dict[str, Any]) -> None:
    scene.log(ASKED, event)
    scene.asked("other-1", code)
    assert scene.calm() == {}


def test_an_ask_that_a_fault_has_torn_needs_no_outcome_but_an_end(scene: Scene) -> None:
    scene.log(ASKED)
    scene.injector.torn_asks.add("perm-1")
    scene.asked("other-1", 4)
    before = scene.calm()
    scene.asked("other-1", None)
    assert (before, counted(scene.calm())["asks without one outcome"]) == ({}, 1)


# -- commands


@pytest.mark.parametrize(("code", "output"), [(None, ""), (70, ""), (0, "Traceback (most recent call last)")])
def test_a_command_that_hung_or_ended_wrongly_is_counted_unless_a_fault_has_hit_it(
    scene: Scene, code: int | None, output: str
) -> None:
    scene.done("resume", "lead", code=code, output=output, hit=True)
    before = scene.calm()
    scene.done("resume", "lead", code=code, output=output)
    assert (before, counted(scene.calm())) == ({}, {"commands that hung or ended wrongly": 1})


def test_a_stack_trace_of_a_keeper_is_counted(scene: Scene) -> None:
    (scene.world.home / "logs" / "keepers.log").write_text("all is well\nTraceback (most recent call last)\n")
    assert counted(scene.calm()) == {"commands that hung or ended wrongly": 1}


@pytest.mark.parametrize("command", ["ps", "reconcile", "launch"])
def test_a_command_that_a_torn_record_blocks_is_counted(scene: Scene, command: str) -> None:
    scene.answers[command] = (1, "a record is torn")
    assert counted(scene.calm()) == {"torn records that block others": 1}


def test_a_record_set_aside_that_the_doctor_keeps_to_itself_is_counted(scene: Scene) -> None:
    (scene.world.matrix / "lead.json.corrupt").touch()
    before = counted(scene.calm())
    scene.answers["doctor"] = (0, "set aside: lead.json.corrupt")
    assert (before, scene.calm()) == ({"torn records that block others": 1}, {})


# -- after the final stop


def test_a_temp_file_of_a_dead_writer_that_stays_is_counted(scene: Scene) -> None:
    Path(temp_name(str(scene.world.matrix), "lead.json")).touch()
    assert counted(scene.final()) == {"temp files of dead writers": 1}


def test_a_process_that_outlives_the_final_stop_is_a_survivor(scene: Scene) -> None:
    del scene.world.processes  # the real ones
    process = subprocess.Popen(["sleep", "1000"], env={MARK: scene.world.mark, "PATH": os.environ["PATH"]})
    try:
        wait_for(lambda: process.pid in scene.world.processes(), "its mark")
        found = scene.final()
        process.wait(20)
        assert (counted(found), counted(scene.final())) == ({"survivors of the final stop": 1}, {})
    finally:
        process.kill()
        process.wait()


def test_a_final_stop_that_fails_is_counted(scene: Scene) -> None:
    scene.record("lead", RUNNING, process=me(), keeper=me())
    scene.answers["stop"] = (1, "lead survived")
    assert counted(scene.final()) == {"survivors of the final stop": 1}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL])
def test_a_signal_that_reaches_a_stranger_is_counted(scene: Scene, number: signal.Signals) -> None:
    scene.decoys.anywhere()
    (pid,) = scene.decoys.pids
    before = scene.final()
    os.kill(pid, number)
    found: Found = wait_for(scene.final, "the signal seen")
    assert (before, counted(found)) == ({}, {"signals to strangers": 1})


# -- not settled


@pytest.mark.parametrize(
    ("state", "process", "moves"),
    [
        (CLOSED, NOBODY, False),
        (RUNNING, NOBODY, True),
        ({"status": "winding_down"}, "me", True),
        (RUNNING, "me", False),
    ],
)
def test_what_still_moves_is_not_settled(scene: Scene, state: dict[str, Any], process: Any, moves: bool) -> None:
    scene.record("lead", state, process=me() if process == "me" else process, keeper=me())
    (record,) = scene.world.records()
    assert _moves(scene.world, record) == moves
