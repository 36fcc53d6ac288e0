"""One open inbox among others, over real files: what is put before a person, claims that are not ours, and answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from supervisor.core.answering import by_person
from supervisor.core.ask_wire import Request, build_request, encode_request, encode_response
from supervisor.core.entry import KeeperRef
from supervisor.core.inbox import Answer
from supervisor.core.serving import encode_beat
from supervisor.core.timing import HEARTBEAT_STALE_MS
from supervisor.runtime.attending import ABANDONED_MS, Attending, Scope
from supervisor.runtime.compose import Context, from_environment
from supervisor.runtime.deciding import Desk, Pending
from supervisor.runtime.parts import Parts
from supervisor.runtime.serving_marks import serving_beat
from supervisor.testing import FakeClock, make_entry

LEAD, MID = "s-lead", "s-mid"


class World:
    """A state root with one inbox open, and a clock that stands still."""

    def __init__(self, context: Context) -> None:
        context.prepare()
        self.context, self.asks, self.clock = context, context.asks, FakeClock()
        self.parts: Parts = replace(context.parts, clock=self.clock)
        for session, name in ((LEAD, "lead"), (MID, "mid")):
            context.store.create(make_entry(name=name, session_id=session, entry_id=f"e-{name}", tree="team"))
        self.serve(LEAD, MID)
        self.inbox = self.open()

    def open(self, scope: Scope = Scope()) -> Attending:  # noqa: B008
        inbox = Attending(self.parts, self.asks, scope)
        inbox.open()
        return inbox

    def serve(self, *sessions: str) -> None:
        me = self.parts.ref(os.getpid())
        assert me is not None
        for session in sessions:
            self.asks.files.beat(session, encode_beat(serving_beat(session, KeeperRef("k", me), self.parts.now())))

    def ask(self, ask_id: str = "perm-1", value: str = "echo hi", *, session: str = LEAD, **ours: Any) -> Request:
        request = build_request(
            ask_id,
            now=self.clock.wall_ms(),
            requester="s-kid",
            target=session,
            agent_name="kid",
            tool="bash",
            value=value,
            cwd="/",
            ours={"nonce": "n", "hops": [], **ours},
        )
        self.asks.files.write_request(session, ask_id, encode_request(request))
        return request

    def looked(self, inbox: Attending | None = None) -> list[Pending]:
        """What waits now, looked at again."""
        inbox = inbox or self.inbox
        self.clock.advance(1000)
        self.serve(LEAD, MID)
        inbox.look(self.parts.now())
        return list(inbox.waiting.values())

    def only(self) -> int:
        self.looked()
        (key,) = self.inbox.waiting
        return key

    def response(self, session: str = LEAD, ask_id: str = "perm-1") -> bytes | None:
        return self.asks.files.read_response(session, ask_id)

    def claims(self) -> set[str]:
        return {s for s in (LEAD, MID) if self.asks.files.read_claim(s, "perm-1") is not None}


@pytest.fixture
def world(home: Path) -> World:
    return World(from_environment())


# What is put before a person


def test_asks_come_oldest_first(world: World) -> None:
    world.ask("perm-b")
    world.clock.advance(10)
    world.ask("perm-a")
    assert [p.request.id for p in world.looked()] == ["perm-b", "perm-a"]


def test_nothing_is_looked_at_again_while_nothing_changes(world: World) -> None:
    world.ask()
    assert world.inbox.look(world.parts.now()) == {}
    world.clock.advance(250)
    assert world.inbox.look(world.parts.now()) is None


def test_a_dead_asker_s_ask_is_litter(world: World) -> None:
    here = world.parts.processes.machine()
    process = {"hostId": here.host_id, "bootId": here.boot_id, "pidNamespace": here.pid_namespace}
    world.ask(process={**process, "pid": os.getpid(), "startTicks": 1})
    assert world.looked() == []


def test_one_older_than_its_timeout_is_litter_unless_somebody_looks_at_it(world: World) -> None:
    world.ask()
    key = world.only()
    world.clock.advance(600_001)
    world.inbox.claim(key, world.parts.now())
    assert len(world.looked()) == 1
    world.inbox.unclaim(key)
    assert world.looked() == []


def test_a_stepped_wall_clock_ages_nothing(world: World) -> None:
    world.ask()
    key = world.only()
    world.clock.step_wall(3_600_000)
    assert len(world.looked()) == 1
    item = world.inbox.item(key, world.parts.now())
    assert item is not None
    assert item.age_ms == 2000


def test_what_a_session_that_ended_left_is_litter(world: World) -> None:
    world.ask()
    world.looked()
    world.asks.files.stop_serving(LEAD)
    world.clock.advance(ABANDONED_MS)
    world.inbox.look(world.parts.now())
    assert not world.inbox.waiting


def test_a_session_that_does_not_serve_yet_may_still_begin(world: World) -> None:
    world.asks.files.stop_serving(LEAD)
    world.ask()
    world.clock.advance(HEARTBEAT_STALE_MS)
    world.inbox.look(world.parts.now())
    assert len(world.inbox.waiting) == 1


@pytest.mark.parametrize(
    ("scope", "seen"),
    [
        (Scope(), {"one", "two"}),
        (Scope(kind="agent", id="e-mid"), {"two"}),
        (Scope(kind="agent", id="e-gone", session=LEAD), {"one"}),
        (Scope(kind="tree", id="team"), {"one", "two"}),
        (Scope(kind="tree", id="other"), set()),
    ],
)
def test_the_scope_says_whose_asks(world: World, scope: Scope, seen: set[str]) -> None:
    world.ask("perm-1", "one", session=LEAD)
    world.ask("perm-2", "two", session=MID)
    assert {p.request.value for p in world.looked(world.open(scope))} == seen


@pytest.mark.parametrize(
    ("scope", "name"), [(Scope(), "*"), (Scope(kind="agent", id="e-mid"), MID), (Scope(kind="tree", id="team"), "team")]
)
def test_the_mark_names_what_is_attended(world: World, scope: Scope, name: str) -> None:
    inbox = world.open(scope)
    assert name in {m.session_id for m in world.asks.inboxes.marks() if m.keeper_id == inbox.me.keeper_id}
    inbox.leave()
    assert inbox.me.keeper_id not in {m.keeper_id for m in world.asks.inboxes.marks()}


# The same ask, or another


def test_an_ask_that_is_passed_on_stays_the_same(world: World) -> None:
    request = world.ask(session=MID)
    key = world.only()
    passed = request._replace(target=LEAD, ours={**request.ours, "hops": [MID], "bell": "other"})
    world.asks.files.write_request(LEAD, "perm-1", encode_request(passed))
    assert [p.session_id for p in world.looked()] == [LEAD]
    assert list(world.inbox.waiting) == [key]


CHANGES: list[Callable[[Request], Request]] = [
    lambda r: r._replace(value="rm -rf /"),
    lambda r: r._replace(surface="write"),
    lambda r: r._replace(agent_name="lead"),
    lambda r: r._replace(requester="s-other"),
    lambda r: r._replace(access_intent={"requesterCwd": "/etc"}),
    lambda r: r._replace(ours={**r.ours, "nonce": "m"}),
    lambda r: r._replace(ours={**r.ours, "input": {"command": "x"}}),
]


@pytest.mark.parametrize("change", CHANGES)
def test_an_ask_whose_words_change_is_another_and_gets_no_answer_meant_for_the_first(
    world: World, change: Callable[[Request], Request]
) -> None:
    request = world.ask()
    key = world.only()
    world.asks.files.write_request(LEAD, "perm-1", encode_request(change(request)))
    assert world.inbox.answer(Answer(key, True)).what == "other_ask"
    assert world.response() is None
    assert world.only() != key


# Answers


@pytest.mark.parametrize("approved", [True, False])
def test_an_answer_is_given_once(world: World, approved: bool) -> None:
    world.ask()
    key = world.only()
    assert world.inbox.answer(Answer(key, approved)).what == "applied"
    assert world.response() is not None
    assert world.inbox.answer(Answer(key, approved)).what == "already_answered"


def test_an_answer_to_one_that_has_gone_changes_nothing(world: World) -> None:
    world.ask()
    key = world.only()
    world.asks.files.remove_request(LEAD, "perm-1")
    assert world.inbox.answer(Answer(key, True)).what == "gone"
    assert world.inbox.answer(Answer(key + 1, True)).what == "gone"
    assert world.response() is None


def test_an_answer_that_cannot_be_written_says_so_and_the_ask_waits_on(world: World) -> None:
    world.ask()
    key = world.only()
    responses = Path(world.asks.files.root, "sessions", LEAD, "responses")
    responses.rmdir()
    responses.write_text("")
    told = world.inbox.answer(Answer(key, True))
    assert (told.what, told.detail) == ("failed", "the answer could not be written (File exists)")
    assert len(world.looked()) == 1


def test_an_approval_that_cannot_be_remembered_is_an_answer_all_the_same(world: World) -> None:
    world.ask()
    key = world.only()
    Path(world.context.places.approvals).write_text("")
    told = world.inbox.answer(Answer(key, True, remember="session"))
    assert told.what == "applied"
    assert "could not be remembered" in told.detail


# Claims


def test_a_claim_lies_wherever_the_ask_does_and_goes_with_us(world: World) -> None:
    world.ask(session=MID)
    world.ask(session=LEAD, hops=[MID, "..", "s-unknown"])
    key = world.only()
    world.inbox.claim(key, world.parts.now())
    assert world.claims() == {LEAD, MID}
    sessions = {n.name for n in Path(world.asks.files.root, "sessions").iterdir()}
    assert sessions == {LEAD, MID}
    world.inbox.leave()
    assert world.claims() == set()


def test_another_inbox_s_claim_is_left_to_it(world: World) -> None:
    world.ask()
    first, second = world.inbox, world.open()
    key = world.only()
    first.claim(key, world.parts.now())
    world.looked(second)
    (other,) = second.waiting
    second.claim(other, world.parts.now())
    item = second.item(other, world.parts.now())
    assert second.other(item) == f"in another inbox (pid {os.getpid()})"
    second.leave()
    assert world.claims() == {LEAD}
    first.leave()
    assert world.claims() == set()


def test_an_ask_that_went_is_not_claimed_again(world: World) -> None:
    world.ask()
    key = world.only()
    world.asks.files.remove_request(LEAD, "perm-1")
    world.inbox.claim(key, world.parts.now())
    assert world.claims() == set()


# Why it has gone


def test_an_answer_that_still_lies_there_says_who(world: World) -> None:
    world.ask()
    items = world.looked()
    response = by_person(approved=False, reason="no", remember=None, session=LEAD, who="eva", now=1)
    world.asks.files.publish_response(LEAD, "perm-1", encode_response(response))
    assert world.inbox.why_gone(items) == {"perm-1": "already answered, eva has denied it"}


def test_else_the_log_says_who(world: World) -> None:
    world.ask()
    items = world.looked()
    Desk(world.parts, world.asks).answer(items[0], approved=True, who="eva")
    world.asks.files.remove_response(LEAD, "perm-1")
    assert world.inbox.why_gone(items) == {"perm-1": "already answered, eva has allowed it"}


def test_what_nobody_decided_is_not_called_an_answer(world: World) -> None:
    world.ask()
    by = {"kind": "unavailable", "reason": "too old"}
    world.asks.review.append("expired", {"ask": "perm-1", "approved": False, "by": by}, at=1)
    assert world.inbox.why_gone(world.looked()) == {"perm-1": "given up, too old"}


@pytest.mark.parametrize("by", [None, "eva", {"kind": 7}])
def test_a_strange_log_line_harms_nothing(world: World, by: object) -> None:
    world.ask()
    world.asks.review.append("answered", {"ask": "perm-1", "approved": True, "by": by}, at=1)
    assert "has allowed it" in world.inbox.why_gone(world.looked())["perm-1"]


def test_one_without_a_trace_was_withdrawn(world: World) -> None:
    world.ask()
    assert world.inbox.why_gone(world.looked()) == {"perm-1": "withdrawn"}


# Presence


def test_a_dead_inbox_s_mark_is_swept_and_a_strange_one_harms_nothing(world: World) -> None:
    folder = Path(world.context.places.inboxes)
    live = world.asks.inboxes.marks()[0]
    (folder / "9-dead.json").write_bytes(encode_beat(live._replace(keeper_id="9-dead", start_ticks=1)))
    (folder / "x.json").write_bytes(encode_beat(live._replace(keeper_id="../../host-id", start_ticks=1)))
    (folder / "y.json").write_bytes(b"{")
    world.open()
    assert not (folder / "9-dead.json").exists()
    assert Path(world.context.places.home, "host-id").exists()


def test_a_root_that_was_moved_away_does_not_come_back_empty(world: World) -> None:
    home = Path(world.context.places.home)
    home.rename(f"{home}-moved")
    world.clock.advance(1000)
    world.inbox.renew(world.parts.now())
    assert "agents do not see this inbox" in world.inbox.trouble
    assert not home.exists()
    Path(f"{home}-moved").rename(home)
    world.clock.advance(1000)
    world.inbox.renew(world.parts.now())
    assert world.inbox.trouble == ""
