"""A pi child's asks in its keeper, over real files: passed on, answered, withdrawn; hostile files do no harm."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from supervisor.core.answering import by_person
from supervisor.core.ask_wire import Request, encode_response, parse_request, parse_response
from supervisor.core.entry import Entry, Generation, KeeperRef, ParentRef
from supervisor.core.serving import encode_beat, parse_beat
from supervisor.core.timing import HEARTBEAT_STALE_MS
from supervisor.runtime.compose import Context
from supervisor.runtime.pi_children import PiChildren
from supervisor.runtime.serving_marks import serving_beat
from supervisor.testing import FakeClock, make_entry, make_plan

LEAD, KID = "s-lead", "s-kid"
ASK = "1796038106742-zi4qghxm-9046"
SECOND_MS = 1000


class World:
    """A lead, its pi child, and the keeper of the child; a clock that the test moves."""

    def __init__(self, tmp: Path) -> None:
        context = Context({"SUPERVISOR_HOME": str(tmp / "state"), "HOME": str(tmp)}, cwd=str(tmp))
        context.prepare()
        self.asks, self.clock = context.asks, FakeClock()
        self.parts = replace(context.parts, clock=self.clock)
        self.folder = tmp / "pi" / "sessions" / "permission-forwarding"
        self.store = context.store
        me = self.parts.ref(os.getpid())
        assert me is not None
        self.me = me
        self.put("lead", LEAD, interactive=False, folder=False)
        self.kid = self.put("kid", KID, parent=ParentRef(session_id=LEAD))
        self.children = self.keeper("k-kid")
        self.serve()

    def put(self, name: str, session: str, *, folder: bool = True, interactive: bool = False, **changes: Any) -> Entry:
        plan = make_plan(
            profile="pi", cwd="/work", mode="interactive" if interactive else "headless",
            asks_folder=str(self.folder) if folder else None,
        )  # fmt: skip
        entry = make_entry(
            name=name, session_id=session, plan=plan, generation=Generation(nonce=name, process=self.me), **changes
        )
        self.store.create(entry)
        return entry

    def keeper(self, keeper_id: str) -> PiChildren:
        return PiChildren(self.parts, self.asks, KeeperRef(keeper_id, self.me))

    def serve(self, session: str = LEAD) -> None:
        beat = serving_beat(session, KeeperRef("k-lead", self.me), self.parts.now())
        self.asks.files.beat(session, encode_beat(beat))

    def beat(self, *entries: Entry) -> None:
        self.children.beat(self.parts.now(), entries or (self.kid,))

    def look(self, ms: int = 0) -> int | None:
        """A beat and a turn, some time later."""
        self.clock.advance(ms)
        self.beat()
        return self.children.turn(self.parts.now())

    def raw(self, data: bytes, *, name: str = ASK, at: str = LEAD) -> Path:
        path = self.folder / "sessions" / at / "requests" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def ask(self, *, name: str = ASK, at: str = LEAD, **changes: Any) -> Path:
        body = {
            "id": name,
            "createdAt": self.clock.wall_ms(),
            "requesterSessionId": KID,
            "targetSessionId": at,
            "requesterAgentName": "unknown",
            "message": "Current agent requested bash command 'echo x'. Allow this command?",
            "source": "tool_call",
            "surface": "bash",
            "value": "echo x",
            "sessionApproval": {"surface": "bash", "patterns": ["echo *"]},
            **changes,
        }
        return self.raw(json.dumps(body).encode(), name=name, at=at)

    def passed_on(self, ask_id: str = ASK, *, at: str = LEAD) -> Request | None:
        data = self.asks.files.read_request(at, ask_id)
        read = parse_request(data, stem=ask_id) if data else None
        return read if isinstance(read, Request) else None

    def response(self, name: str = ASK, *, at: str = LEAD) -> Any:
        path = self.folder / "sessions" / at / "responses" / f"{name}.json"
        return parse_response(path.read_bytes()) if path.exists() else None

    def answer(self, *, approved: bool, reason: str | None = None, at: str = LEAD) -> None:
        said = by_person(approved=approved, reason=reason, remember=None, session=at, who="me", now=1)
        self.asks.files.publish_response(at, ASK, encode_response(said))

    def mark(self, asked: str = LEAD) -> str | None:
        """Who serves an id in pi's folder."""
        path = self.folder / "serving" / f"{asked}.json"
        beat = parse_beat(path.read_bytes()) if path.exists() else None
        return beat.keeper_id if beat else None

    def everything(self) -> list[str]:
        return sorted(str(p.relative_to(self.folder.parents[1])) for p in self.folder.parents[1].rglob("*.json"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


# -- there and back


def test_an_ask_goes_to_the_parent_and_its_answer_to_pi(world: World) -> None:
    path = world.ask()
    assert world.look() is not None

    asked = world.passed_on()
    assert asked is not None
    assert (asked.target, asked.requester, asked.agent_name, asked.value) == (LEAD, KID, "kid", "echo x")
    assert asked.ours["bell"] == "k-kid"
    assert asked.ours["process"]["pid"] == os.getpid()
    assert world.response() is None

    world.answer(approved=True)
    world.look()
    assert (world.response().approved, world.response().state) == (True, "approved")
    assert not path.exists()
    assert (world.passed_on(), world.asks.files.has_response(LEAD, ASK)) == (None, False)


def test_an_agent_that_proves_its_session_while_it_asks_is_the_same_agent(world: World) -> None:
    world.ask()
    world.look()
    world.kid = replace(world.kid, generation=replace(world.kid.generation, session=KID))
    world.look()
    world.answer(approved=True)
    world.look()
    assert world.response().approved


def test_a_restarted_agent_leaves_no_ask_of_its_last_life(world: World) -> None:
    path = world.ask()
    world.look()
    world.kid = replace(world.kid, generation=replace(world.kid.generation, nonce="next"))
    world.look()
    assert (world.passed_on(), path.exists()) == (None, False)


def test_a_denial_comes_with_its_reason(world: World) -> None:
    world.ask()
    world.look()
    world.answer(approved=False, reason="no")
    world.look()
    assert (world.response().approved, world.response().state, world.response().reason) == (
        False, "denied_with_reason", "no",
    )  # fmt: skip


def test_an_answer_that_was_given_to_an_earlier_keeper_counts(world: World) -> None:
    world.ask()
    world.answer(approved=True)
    world.look()
    world.look()
    assert world.response().approved
    assert world.passed_on() is None


def test_what_pi_withdraws_nobody_is_asked_any_more(world: World) -> None:
    path = world.ask()
    world.look()
    path.unlink()
    world.look()
    assert world.passed_on() is None


def test_an_adopted_child_asks_its_new_parent(world: World) -> None:
    world.ask()
    world.look()
    world.kid = replace(world.kid, parent=ParentRef(session_id="s-new"))
    world.serve("s-new")
    world.look()
    world.look()
    assert world.passed_on() is None
    asked = world.passed_on(at="s-new")
    assert asked is not None
    assert asked.target == "s-new"
    world.answer(approved=True, at="s-new")
    world.look()
    assert world.response(at=LEAD).approved, "pi waits where it has asked"


def test_a_master_asks_its_own_session_under_another_id(world: World) -> None:
    world.kid = world.put("one", "s-one")
    world.serve("s-one")
    agent = world.kid.agent.agent_id
    world.ask(at=agent, requesterSessionId="s-one")
    world.look()
    asked = world.passed_on(at="s-one")
    assert asked is not None
    assert (world.mark(agent), asked.target) == ("k-kid", "s-one")


# -- nobody serves


def test_the_mark_is_up_while_the_parent_serves(world: World) -> None:
    world.look()
    assert world.mark() == "k-kid"
    world.look(HEARTBEAT_STALE_MS)
    assert world.mark() is None


def test_nobody_serving_is_told_after_two_seconds(world: World) -> None:
    world.asks.files.stop_serving(LEAD)
    path = world.ask()
    world.look()
    world.look(1999)
    assert world.response() is None
    world.look(1)
    assert world.response().reason.startswith(f"not decided: session '{LEAD}' is not serving")
    assert not path.exists()
    assert world.passed_on() is None


def test_a_step_of_the_wall_clock_refuses_no_ask_of_a_living_agent(world: World) -> None:
    world.ask(createdAt=world.clock.wall_ms() - 3_600_000)
    world.look()
    assert world.passed_on() is not None


def test_an_old_ask_is_not_put_before_anybody(world: World) -> None:
    world.ask(createdAt=world.clock.wall_ms() - 3_600_000, requesterSessionId="s-stranger")
    world.look()
    assert world.passed_on() is None
    assert world.response().ours["code"] == "expired"


# -- ends


def test_an_agent_that_has_ended_leaves_nothing(world: World) -> None:
    world.ask()
    world.ask(name="other", requesterSessionId="s-stranger")
    world.look()
    world.children.beat(world.parts.now(), ())
    assert (world.passed_on(), world.mark()) == (None, None)
    assert world.everything() == [f"sessions/permission-forwarding/sessions/{LEAD}/requests/other.json"], "not its own"
    assert (world.folder / "sessions" / LEAD / "responses").parent.exists(), "folders stay"


def test_an_answer_that_was_never_fetched_goes_with_the_agent(world: World) -> None:
    world.ask()
    world.look()
    world.answer(approved=True)
    world.look()
    world.children.close()
    assert world.everything() == []


def test_one_that_is_told_to_end_is_not_kept_waiting(world: World) -> None:
    world.ask()
    world.look()
    world.kid = replace(world.kid, want="down")
    world.look()
    assert world.response().ours["code"] == "withdrawn"
    assert world.passed_on() is None


# -- others who serve


def test_of_two_keepers_one_has_the_mark_and_each_takes_its_own(world: World) -> None:
    sibling = world.put("sib", "s-sib", parent=ParentRef(session_id=LEAD))
    other = world.keeper("k-sib")
    world.look()
    other.beat(world.parts.now(), (sibling,))
    assert world.mark() == "k-kid"

    world.ask(name="a")
    world.ask(name="b", requesterSessionId="s-sib")
    world.ask(name="c", requesterSessionId="s-stranger")
    world.look()
    assert [world.passed_on(n) is not None for n in "abc"] == [True, False, True]
    other.beat(world.parts.now(), (sibling,))
    other.turn(world.parts.now())
    assert [(r := world.passed_on(n)) and r.ours["bell"] for n in "abc"] == ["k-kid", "k-sib", "k-kid"]

    world.children.close()
    other.beat(world.parts.now(), (sibling,))
    assert world.mark() == "k-sib"


def test_a_pi_that_serves_is_left_to_it(world: World) -> None:
    serving = world.folder / "serving" / f"{LEAD}.json"
    serving.parent.mkdir(parents=True)
    serving.write_text(json.dumps({"sessionId": LEAD, "pid": os.getpid(), "updatedAt": world.clock.wall_ms()}))
    path = world.ask()
    world.look()
    assert (world.passed_on(), world.mark(), path.exists()) == (None, None, True)


def test_a_parent_that_is_a_pi_with_a_screen_is_left_to_it(world: World) -> None:
    world.put("tui", "s-tui", interactive=True)
    world.kid = replace(world.kid, parent=ParentRef(session_id="s-tui"))
    world.serve("s-tui")
    path = world.ask(at="s-tui")
    world.look()
    assert (world.mark("s-tui"), path.exists()) == (None, True)
    assert not (path.parents[1] / "responses").exists()


def test_a_pi_with_a_screen_asks_nobody_else(world: World) -> None:
    world.kid = world.put("tui", "s-tui", interactive=True, parent=ParentRef(session_id=LEAD))
    world.look()
    assert (world.mark(), world.everything()) == (None, [])


# -- hostile


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"id":7}', b"[" * 5000, b'{"id":NaN}',
        b'{"id":"x","createdAt":"now","requesterSessionId":"s-kid","targetSessionId":"s-lead","requesterAgentName":""}',
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_at_once(world: World, data: bytes) -> None:
    path = world.raw(data, name="x")
    world.look()
    assert world.response("x").ours["code"] == "malformed"
    assert not world.response("x").approved
    assert not path.exists()


def test_a_huge_one_is_refused_unread(world: World) -> None:
    world.ask(value="x" * (1024 * 1024))
    world.look()
    assert world.response().ours["code"] == "malformed"


def test_one_that_grows_too_large_on_its_way_is_refused(world: World) -> None:
    world.ask(value="x" * (1024 * 1024 - 700))
    world.look()
    assert world.response().ours["code"] in ("too_large", "malformed")
    assert world.passed_on() is None


@pytest.mark.parametrize("ask_id", ["../../../../pwned", "a/b", "x\u0000y", ".", "..", "other"])
def test_an_id_leads_nowhere_else(world: World, tmp_path: Path, ask_id: str) -> None:
    before = world.ask(name="x", id=ask_id)
    world.look()
    assert not before.exists()
    assert world.response("x").ours["code"] == "malformed"
    assert list(tmp_path.rglob("*pwned*")) == []
    assert world.passed_on("x") is None


def test_a_file_whose_name_is_no_id_is_removed_and_answers_nothing(world: World) -> None:
    path = world.ask(name="-" + "x" * 200)
    world.look()
    assert not path.exists()
    assert not (path.parents[1] / "responses").exists()


def test_a_request_for_another_session_is_refused(world: World) -> None:
    world.ask(targetSessionId="s-other")
    world.look()
    assert world.response().ours["code"] == "misaddressed"


def test_anothers_pending_ask_is_not_changed_under_the_eyes_of_who_answers_it(world: World) -> None:
    world.asks.files.write_request(LEAD, ASK, world.ask(requesterSessionId="s-victim").read_bytes())
    world.ask(value="rm -rf /")
    world.look()
    assert world.response().ours["code"] == "malformed"
    there = world.passed_on()
    assert there is not None
    assert (there.requester, there.value) == ("s-victim", "echo x")


def test_a_link_in_place_of_a_request_is_not_followed(world: World, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(world.ask().read_bytes())
    path = world.ask(name="x")
    path.unlink()
    path.symlink_to(secret)
    world.look()
    assert secret.exists()
    assert world.passed_on("x") is None
