"""The serving side over real files: what becomes of asks from turn to turn, with a clock that is moved by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from supervisor.core.ask_age import asked
from supervisor.core.ask_wire import Request, build_request, encode_request
from supervisor.core.entry import Entry, KeeperRef
from supervisor.core.rules import Rule
from supervisor.runtime.answering import Answering
from supervisor.runtime.ask_facts import AskSettings, here_of
from supervisor.runtime.compose import Context, from_environment
from supervisor.runtime.deciding import mark
from supervisor.testing import FakeClock, make_entry

HOUR = 3600 * 1000


class World:
    """A session `p` with its keeper's serving side; its parent `root` serves when told so."""

    def __init__(self, context: Context) -> None:
        context.prepare()
        self.clock = FakeClock()
        self.parts = replace(context.parts, clock=self.clock)
        self.settings = AskSettings(mode="hold")
        self.asks = replace(context.asks, settings=lambda: self.settings)
        self.files = self.asks.files
        self.entry: Entry = make_entry(name="p", session_id="p", entry_id="e-p")
        me = self.parts.ref(os.getpid())
        assert me is not None
        self.me = me
        self.announced: list[str] = []
        self.keeper = self.serve()

    def serve(self) -> Answering:
        made = Answering(self.parts, self.asks, KeeperRef("k-1", self.me), on_terminal=False)
        made.announce = lambda request: self.announced.append(request.id)
        return made

    def beat(self, ms: int = 1000) -> None:
        """A second later: a beat and a turn."""
        self.clock.advance(ms)
        self.keeper.beat(self.parts.now(), [self.entry])
        self.keeper.turn(self.parts.now())

    def ask(self, ask_id: str = "perm-1", *, value: str = "echo hi", **ours: Any) -> Request:
        here = here_of(self.parts.now())
        request = build_request(
            ask_id,
            now=self.clock.wall_ms(),
            requester="c",
            target="p",
            agent_name="kid",
            tool="bash",
            value=value,
            cwd="/",
            ours={"asked": asked(here), "hops": [], **ours},
        )
        self.files.write_request("p", ask_id, encode_request(request))
        return request

    def foreign(self, ask_id: str, created_at: int) -> None:
        """As another program writes it: core fields only."""
        ours = {"id": ask_id, "createdAt": created_at, "requesterSessionId": "c", "targetSessionId": "p"}
        self.files.write_request("p", ask_id, json.dumps({**ours, "requesterAgentName": "kid"}).encode())

    def answer(self, ask_id: str = "perm-1") -> dict[str, Any] | None:
        data = self.files.read_response("p", ask_id)
        return json.loads(data) if data else None

    def code(self, ask_id: str = "perm-1") -> str | None:
        found = self.answer(ask_id)
        return found["supervisor"]["code"] if found else None

    def events(self, *only: str) -> list[str]:
        return [e["event"] for e in self.asks.review.read() if not only or e["event"] in only]


@pytest.fixture
def world(home: Path) -> World:
    return World(from_environment())


# Ages


@pytest.mark.parametrize("step", [-HOUR, HOUR])
def test_a_step_of_the_wall_clock_expires_no_ask(world: World, step: int) -> None:
    world.ask("perm-before")
    world.beat()
    world.clock.step_wall(step)
    world.ask("perm-after")
    world.beat()
    assert sorted(world.files.requests("p")) == ["perm-after", "perm-before"]
    world.clock.advance(world.settings.timeout_ms)
    world.beat()
    assert [world.code(i) for i in ("perm-before", "perm-after")] == ["expired", "expired"]


def test_a_foreign_ask_ages_by_the_monotonic_clock_once_it_was_seen(world: World) -> None:
    world.foreign("perm-1", world.clock.wall_ms() - 5_000)
    world.beat()
    world.clock.step_wall(HOUR)
    world.beat()
    assert world.code() is None
    world.clock.advance(world.settings.timeout_ms - 5_000)
    world.beat()
    assert world.code() == "expired"


def test_an_ask_from_the_future_waits_no_longer_than_any_other(world: World) -> None:
    world.foreign("perm-1", world.clock.wall_ms() + 1000 * HOUR)
    world.beat()
    world.clock.advance(world.settings.timeout_ms + 1)
    world.beat()
    assert world.code() == "expired"


def test_the_timeout_is_read_live(world: World) -> None:
    world.ask()
    world.beat()
    world.settings = replace(world.settings, timeout_ms=1_500)
    world.beat()
    assert world.code() == "expired"


# Rules and modes, read live


def test_a_rule_that_is_written_later_decides_the_next_ask(world: World) -> None:
    world.ask("perm-1")
    world.beat()
    world.settings = replace(world.settings, rules=(Rule(action="deny", tool="bash", reason="not now"),))
    world.ask("perm-2")
    world.beat()
    assert (world.answer("perm-1"), world.answer("perm-2")["denialReason"]) == (None, "not now")  # type: ignore[index]


def test_a_mode_that_is_set_later_holds_from_the_next_beat_on(world: World) -> None:
    world.settings = replace(world.settings, mode="attended")
    world.beat()
    assert world.files.read_beat("p") is None
    world.settings = replace(world.settings, mode="rules")
    world.ask()
    world.beat()
    assert (world.files.read_beat("p") is not None, world.code()) == (True, "no_rule")


# Litter


def test_an_ask_of_a_dead_asker_is_removed_and_never_put_to_a_person(world: World) -> None:
    here = world.parts.processes.machine()
    process = {"hostId": here.host_id, "bootId": here.boot_id, "pidNamespace": here.pid_namespace}
    world.ask(process={**process, "pid": os.getpid(), "startTicks": 1})
    world.beat()
    assert (list(world.files.requests("p")), world.answer(), world.announced) == ([], None, [])
    assert world.events("dropped", "prompted") == ["dropped"]


@pytest.mark.parametrize("process", [{}, {"hostId": ""}, {"bootId": "", "pid": 1, "startTicks": None}, {"pid": "x"}])
def test_an_asker_that_could_not_name_itself_is_believed(world: World, process: dict[str, Any]) -> None:
    here = world.parts.processes.machine()
    world.ask(process={"hostId": here.host_id, "pidNamespace": here.pid_namespace, **process})
    world.beat()
    assert list(world.files.requests("p")) == ["perm-1"]


# The log


def test_serving_starts_and_stops_once_and_not_at_each_beat(world: World) -> None:
    for _ in range(5):
        world.beat()
    world.settings = replace(world.settings, mode="attended")
    for _ in range(5):
        world.beat()
    assert world.events("serving_started", "serving_stopped") == ["serving_started", "serving_stopped"]


def test_the_first_mark_prunes_what_provably_dead_servers_left_and_nothing_else(world: World) -> None:
    from supervisor.core.serving import ServingBeat, encode_beat

    world.files.beat("dead", encode_beat(ServingBeat("dead", 2**30, world.clock.wall_ms())))
    stale = encode_beat(mark("stale", KeeperRef("k-2", world.me), world.parts.now()))
    world.files.beat("stale", stale)
    world.clock.advance(60_000)
    world.beat()
    assert world.files.read_beat("dead") is None
    assert world.files.read_beat("stale") is not None
    world.keeper.close()
    assert os.path.isdir(os.path.join(world.files.root, "serving"))


def test_an_ask_that_waits_for_a_person_is_announced_once(world: World) -> None:
    world.ask()
    for _ in range(3):
        world.beat()
    assert world.announced == ["perm-1"]
