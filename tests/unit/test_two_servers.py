"""One session, two servers: its keeper, and a program that decides for it. They never contradict each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from supervisor.adapters.clock import pause
from supervisor.core.entry import KeeperRef, ParentRef
from supervisor.core.rules import Approval, Rule
from supervisor.core.serving import encode_beat
from supervisor.library.serving import Ask, Deciding, Verdict
from supervisor.runtime.compose import from_environment
from supervisor.runtime.deciding import Desk
from supervisor.runtime.serving_marks import serving_beat
from tests.asks import World


class Both(World):
    """The keeper of `p`, and a program of another process that decides for `p` when told to."""

    def both(self, decide: Callable[[Ask], Verdict]) -> None:
        self.decided = threading.Event()
        self.program = Deciding(self.parts, self.asks, KeeperRef("k-2", self.me), wake=self.decided.set)
        self.program.elsewhere = {"p": self.entry.plan.asks_mode}
        self.program.decides["p"] = decide
        self.program.beat(self.parts.now(), [self.entry])

    def beat(self, ms: int = 1000) -> None:
        """The keeper is the first to look."""
        super().beat(ms)
        if hasattr(self, "program"):
            self.program.beat(self.parts.now(), [self.entry])
            self.program.turn(self.parts.now())

    def take(self) -> None:
        """What the program has decided."""
        assert self.decided.wait(30)
        pause(0)
        self.program.take_outcomes(self.parts.now())

    def serve_root(self) -> None:
        self.entry = replace(self.entry, parent=ParentRef(session_id="root"))
        self.files.beat("root", encode_beat(serving_beat("root", KeeperRef("k-0", self.me), self.parts.now())))


@pytest.fixture
def world(home: Path) -> Iterator[Both]:
    made = Both(from_environment())
    made.settings = replace(made.settings, mode="attended")
    yield made
    made.program.close()


@pytest.mark.parametrize("mode", ["attended", "rules", "hold"])
def test_what_no_rule_covers_is_the_programs_to_decide_in_every_mode(world: Both, mode: str) -> None:
    world.settings = replace(world.settings, mode=mode)  # type: ignore[arg-type]
    world.both(lambda ask: (False, "not today"))
    world.ask()
    world.beat()
    world.take()
    found = world.answer()
    assert found is not None and (found["approved"], found["denialReason"]) == (False, "not today")
    assert world.announced == []


def test_the_keeper_asks_nobody_above_while_the_program_decides(world: Both) -> None:
    world.both(lambda ask: True)
    world.serve_root()
    world.ask()
    world.beat()
    assert list(world.files.requests("root")) == []
    world.take()
    assert (world.answer() or {})["approved"] is True


def test_what_the_program_leaves_open_goes_on_once(world: Both) -> None:
    world.both(lambda ask: None)
    world.serve_root()
    world.ask()
    world.beat()
    world.take()
    world.beat()
    assert list(world.files.requests("root")) == ["perm-1"]
    assert world.events("escalated") == ["escalated"]


def test_what_a_killed_program_had_before_it_is_taken_anew(world: Both) -> None:
    world.both(lambda ask: None)
    world.settings = replace(world.settings, mode="rules")
    world.ask()
    world.beat()
    world.asks.inboxes.leave("k-2")
    World.beat(world)
    assert world.code() == "no_rule"


def test_a_rule_decides_the_same_at_both_and_once(world: Both) -> None:
    world.both(lambda ask: True)
    world.settings = replace(world.settings, rules=(Rule(action="deny", tool="bash"),))
    world.ask()
    world.beat()
    assert (world.answer() or {})["approved"] is False
    assert world.events("auto_denied", "auto_approved", "decided", "too_late") == ["auto_denied"]


def test_a_deny_that_is_written_while_the_program_thinks_is_final(world: Both) -> None:
    world.both(lambda ask: True)
    world.ask()
    world.beat()
    world.settings = replace(world.settings, rules=(Rule(action="deny", tool="bash", reason="stop"),))
    world.beat()
    world.take()
    assert (world.answer() or {})["denialReason"] == "stop"


def test_what_is_remembered_holds_at_both(world: Both) -> None:
    world.both(lambda ask: False)
    world.asks.approvals.add(Approval(granted_by="p", tool="bash", value="echo hi", child="c"))
    world.ask()
    world.beat()
    assert (world.answer() or {})["decidedBy"]["kind"] == "session_approval"


def test_the_first_answer_stands_and_the_log_tells_no_second_one(world: Both) -> None:
    world.both(lambda ask: True)
    world.ask()
    world.beat()
    desk = Desk(world.parts, world.asks)
    request = world.files.read_request("p", "perm-1")
    desk.answer(desk.find("perm-1"), approved=False, who="ann")
    assert request is not None
    world.files.write_request("p", "perm-1", request)  # it has not seen that it is gone
    world.take()
    assert (world.answer() or {})["approved"] is False
    assert world.events("answered", "decided", "too_late") == ["answered", "too_late"]
