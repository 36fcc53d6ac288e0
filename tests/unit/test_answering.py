"""The serving side over real files: what becomes of asks from turn to turn, with a clock that is moved by hand."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from supervisor.adapters.ask_files import AskFiles
from supervisor.core.ask_wire import Request, parse_request
from supervisor.core.entry import KeeperRef, ParentRef
from supervisor.core.errors import BadInput
from supervisor.core.rules import Approval, Rule
from supervisor.core.serving import ServingBeat, encode_beat
from supervisor.runtime.compose import from_environment
from supervisor.runtime.deciding import Desk
from supervisor.runtime.serving_marks import serving_beat
from supervisor.testing import make_entry
from tests.asks import World

HOUR = 3600 * 1000


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


def test_of_an_asker_that_died_before_it_took_its_answer_nothing_is_left(world: World) -> None:
    here = world.parts.processes.machine()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as asker:
        key = world.parts.processes.identify(asker.pid)
        assert key is not None
        process = {"hostId": here.host_id, "bootId": here.boot_id, "pidNamespace": here.pid_namespace}
        process |= {"pid": asker.pid, "startTicks": key.start_ticks}
        bell = world.parts.bells.path("ask-perm-1")
        os.close(world.parts.bells.listen("ask-perm-1"))
        world.settings = replace(world.settings, rules=(Rule(action="allow", tool="bash"),))
        world.ask(process=process, bell="ask-perm-1")
        world.beat()
        world.beat()
        assert (world.answer() is not None, os.path.lexists(bell)) == (True, True), "it lives, and will take it"
    world.beat()
    assert (world.answer(), os.path.lexists(bell)) == (None, False)


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
    world.files.beat("dead", encode_beat(ServingBeat("dead", 2**30, world.clock.wall_ms())))
    stale = encode_beat(serving_beat("stale", KeeperRef("k-2", world.me), world.parts.now()))
    world.files.beat("stale", stale)
    world.clock.advance(60_000)
    world.beat()
    assert world.files.read_beat("dead") is None
    assert world.files.read_beat("stale") is not None
    world.keeper.close()
    assert os.path.isdir(os.path.join(world.files.root, "serving"))


def test_a_pipe_among_the_marks_does_not_hold_the_keeper_up(world: World) -> None:
    path = os.path.join(world.files.root, "serving", "pipe.json")
    os.makedirs(os.path.dirname(path))
    os.mkfifo(path)
    world.beat()
    assert (os.path.exists(path), world.events("serving_started")) == (False, ["serving_started"])


def test_an_ask_that_waits_for_a_person_is_announced_once(world: World) -> None:
    world.ask()
    for _ in range(3):
        world.beat()
    assert world.announced == ["perm-1"]


# Adoption


def serve_as(world: World, session: str) -> None:
    world.files.beat(
        session, encode_beat(serving_beat(session, KeeperRef(f"k-{session}", world.me), world.parts.now()))
    )


def test_an_ask_that_was_passed_on_moves_to_the_new_parent_at_the_next_beat(world: World) -> None:
    world.entry = replace(world.entry, parent=ParentRef(session_id="old"))
    serve_as(world, "old")
    world.ask()
    world.beat()
    assert [sorted(world.files.requests(s)) for s in ("old", "new")] == [["perm-1"], []]
    serve_as(world, "new")
    world.entry = replace(world.entry, parent=ParentRef(session_id="new"))
    world.beat()
    assert [sorted(world.files.requests(s)) for s in ("old", "new")] == [[], ["perm-1"]]
    moved = parse_request(world.files.read_request("new", "perm-1") or b"", stem="perm-1")
    assert isinstance(moved, Request)
    assert (moved.target, moved.ours["hops"], world.events("moved")) == ("new", ["p"], ["moved"])


def test_an_ask_that_waits_for_a_person_moves_to_a_new_parent_once_that_serves(world: World) -> None:
    world.entry = replace(world.entry, parent=ParentRef(session_id="gone"))
    world.ask()
    world.beat()
    world.entry = replace(world.entry, parent=ParentRef(session_id="new"))
    world.beat()
    assert list(world.files.requests("new")) == []
    serve_as(world, "new")
    world.beat()
    assert sorted(world.files.requests("new")) == ["perm-1"]


def test_an_ask_that_somebody_looks_at_stays_on_their_screen(world: World) -> None:
    world.entry = replace(world.entry, parent=ParentRef(session_id="gone"))
    world.ask()
    world.beat()
    world.files.claim("p", "perm-1", encode_beat(serving_beat("p", KeeperRef("inbox", world.me), world.parts.now())))
    serve_as(world, "new")
    world.entry = replace(world.entry, parent=ParentRef(session_id="new"))
    world.beat()
    assert list(world.files.requests("new")) == []


def test_what_the_old_parent_had_allowed_for_ever_does_not_count_under_the_new_one(world: World) -> None:
    """A14: authority goes by the record's parent, from the session up to the root."""
    world.asks.approvals.add(Approval(granted_by="old", tool="bash", value="echo hi"))
    for name in ("old", "new"):
        world.parts.store.create(make_entry(name, session_id=name, entry_id=f"e-{name}"))
    world.entry = replace(world.entry, parent=ParentRef(session_id="old"))
    world.ask("perm-1")
    world.beat()
    world.entry = replace(world.entry, parent=ParentRef(session_id="new"))
    world.ask("perm-2")
    world.beat()
    assert (world.code("perm-1"), world.code("perm-2"), world.announced) == ("decided", None, ["perm-2"])


# Trouble with the disk


def test_an_answer_that_a_full_disk_does_not_take_is_written_at_the_next_look(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.settings = replace(world.settings, rules=(Rule(action="allow"),))
    full = [True]
    real = AskFiles.publish_response

    def publish(self: AskFiles, session: str, ask_id: str, data: bytes) -> bool:
        if full[0]:
            raise OSError(errno.ENOSPC, "no space left on device")
        return real(self, session, ask_id, data)

    monkeypatch.setattr(AskFiles, "publish_response", publish)
    world.ask()
    world.beat()
    world.beat()
    assert (list(world.files.requests("p")), world.answer(), world.events("auto_approved")) == (["perm-1"], None, [])
    full[0] = False
    world.beat()
    assert ((world.answer() or {})["approved"], world.events("auto_approved")) == (True, ["auto_approved"])


def test_answers_without_a_request_are_swept_at_the_first_mark_once_they_are_old(world: World) -> None:
    for ask_id in ("perm-old", "perm-asked", "perm-new"):
        world.files.publish_response("p", ask_id, b"{}")
    world.ask("perm-asked")
    before = world.clock.wall_ms() / 1000 - world.settings.timeout_ms / 1000 - 5
    for ask_id in ("perm-old", "perm-asked"):
        os.utime(os.path.join(world.files.root, "sessions", "p", "responses", f"{ask_id}.json"), (before, before))
    world.beat()
    assert sorted(world.files.responses("p")) == ["perm-asked", "perm-new"]


# A long deliberation


def test_nine_minutes_over_one_ask_hold_up_no_other(world: World) -> None:
    world.settings = replace(world.settings, timeout_ms=60_000)
    desk = Desk(world.parts, world.asks)
    world.ask("perm-long")
    world.beat()
    long = desk.find("perm-long")
    for second in range(9 * 60):
        desk.claim(long, KeeperRef("i-1", world.me), world.parts.now(), since=0)
        if second == 300:
            world.ask("perm-short")
        world.beat()
        if second == 310:
            assert desk.answer(desk.find("perm-short"), approved=True, who="ann").what == "applied"
            assert world.code("perm-short") == "decided"
    assert world.code("perm-long") is None
    assert desk.answer(long, approved=True, who="ann").what == "applied"


# What is remembered


def test_an_ask_that_is_not_exact_cannot_be_remembered(world: World) -> None:
    world.foreign("perm-1", world.clock.wall_ms())
    world.beat()
    desk = Desk(world.parts, world.asks)
    with pytest.raises(BadInput, match="cannot be remembered"):
        desk.answer(desk.find("perm-1"), approved=True, remember="session", who="ann")
    assert (world.answer(), list(world.asks.approvals.of("p"))) == (None, [])


def test_what_a_killed_keeper_had_passed_on_is_passed_on_anew_by_its_successor(world: World) -> None:
    root = serving_beat("root", KeeperRef("k-0", world.me), world.parts.now())
    world.entry = replace(world.entry, parent=ParentRef(session_id="root"))
    world.files.beat("root", encode_beat(root))
    world.ask("perm-open")
    world.ask("perm-gone")
    world.beat()
    assert sorted(world.files.requests("root")) == ["perm-gone", "perm-open"]
    world.files.remove_request("p", "perm-gone")  # its child gave up while nobody kept the session
    world.keeper = world.serve()
    world.beat()
    assert list(world.files.requests("root")) == ["perm-open"]


def test_an_inbox_that_is_full_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisor.runtime.answering.MAX_WAITING", 2)
    for number in range(3):
        world.ask(f"perm-{number}")
    world.beat()
    assert [world.code(f"perm-{n}") for n in range(3)] == [None, None, "inbox_full"]


def test_nobody_allows_what_a_rule_denies_however_quick(world: World) -> None:
    world.settings = replace(world.settings, rules=(Rule(action="deny", tool="bash"),))
    world.ask()
    desk = Desk(world.parts, world.asks)
    assert desk.answer(desk.find("perm-1"), approved=True, who="ann").what == "denied_by_rule"
    assert world.answer() is None
    assert desk.answer(desk.find("perm-1"), approved=False, who="ann").what == "applied"
