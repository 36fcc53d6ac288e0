"""A pi with a screen beside inboxes: what waits is shown, whoever is first has answered, nothing stays behind."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from supervisor.core.answering import by_person
from supervisor.core.ask_wire import Request, build_request, encode_request, encode_response, parse_response
from supervisor.core.entry import Entry, Generation
from supervisor.runtime.compose import Context
from supervisor.runtime.pi_screens import WHO, PiScreens
from supervisor.testing import FakeClock, make_entry, make_plan

S, ASK = "s-pi", "perm-1"


class World:
    """A pi of ours on a terminal, and asks that wait at its session."""

    def __init__(self, tmp: Path) -> None:
        context = Context({"SUPERVISOR_HOME": str(tmp / "state")}, cwd=str(tmp))
        context.prepare()
        self.asks = context.asks
        self.parts = replace(context.parts, clock=FakeClock())
        self.folder = tmp / "pi"
        self.waiting: dict[str, Request] = {}
        self.screens = PiScreens(self.parts, self.asks)
        self.lead = self.entry()
        self.screens.beat([self.lead])

    def entry(self, **plan: Any) -> Entry:
        made = make_plan(**{"mode": "interactive", "asks_folder": str(self.folder), **plan})
        process = self.parts.ref(os.getpid())
        return make_entry(session_id=S, plan=made, generation=Generation(nonce="n", process=process))

    def ask(self, ask_id: str = ASK) -> None:
        request = build_request(
            ask_id, now=1, requester="kid", target=S, agent_name="kid", tool="bash", value="echo hi", cwd="/",
            ours={"nonce": "1"},
        )  # fmt: skip
        self.asks.files.write_request(S, ask_id, encode_request(request))
        self.waiting[ask_id] = request

    def turn(self) -> int | None:
        return self.screens.turn({S: self.waiting}, self.parts.now())

    def answered_elsewhere(self) -> None:
        said = by_person(approved=True, reason=None, remember=None, session=S, who="me", now=1)
        self.asks.files.publish_response(S, ASK, encode_response(said))
        self.asks.files.remove_request(S, ASK)
        self.waiting.clear()

    def pi_answers(self, **body: Any) -> Path:
        path = self.folder / "sessions" / S / "responses" / f"{ASK}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"responderSessionId": S, **body}))
        return path

    def shown(self) -> list[str]:
        return sorted(p.stem for p in (self.folder / "sessions" / S / "requests").glob("*.json"))

    def answer(self) -> Any:
        data = self.asks.files.read_response(S, ASK)
        return parse_response(data) if data else None


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_what_waits_is_shown_and_the_folder_of_answers_is_left_to_pi(world: World) -> None:
    assert world.turn() is None
    world.ask()
    assert world.turn() is not None
    assert world.shown() == [ASK]
    assert not (world.folder / "sessions" / S / "responses").exists()


@pytest.mark.parametrize(
    ("body", "approved", "state", "reason"),
    [
        ({"approved": True, "state": "approved"}, True, "approved", None),
        ({"approved": True, "state": "approved_for_session"}, True, "approved_for_session", None),
        ({"approved": False, "state": "denied"}, False, "denied", None),
        ({"approved": False, "state": "denied_with_reason", "denialReason": "no"}, False, "denied_with_reason", "no"),
    ],
)
def test_its_persons_answer_is_the_answer(
    world: World, body: dict[str, Any], approved: bool, state: str, reason: str | None
) -> None:
    world.ask()
    world.turn()
    path = world.pi_answers(**body)
    world.turn()
    said = world.answer()
    assert (said.approved, said.state, said.reason, said.ours["by"]) == (approved, state, reason, WHO)
    assert (world.shown(), path.exists(), world.asks.files.has_request(S, ASK)) == ([], False, False)
    remembered = [a.child for a in world.asks.approvals.of(S)]
    assert remembered == (["kid"] if state == "approved_for_session" else [])


def test_an_answer_from_elsewhere_takes_it_from_the_screen_and_pis_late_one_changes_nothing(world: World) -> None:
    world.ask()
    world.turn()
    world.answered_elsewhere()
    assert world.turn() is None
    assert world.shown() == []
    path = world.pi_answers(approved=False, state="denied")
    world.turn()
    world.screens.beat([world.lead])
    assert not path.exists()
    assert world.answer().approved


@pytest.mark.parametrize("body", [{}, {"approved": True, "state": "denied"}, {"approved": "yes", "state": "approved"}])
def test_an_unclear_answer_is_none_and_inboxes_keep_the_ask(world: World, body: dict[str, Any]) -> None:
    world.ask()
    world.turn()
    world.pi_answers(**body)
    world.turn()
    assert world.answer() is None
    assert world.asks.files.has_request(S, ASK)
    world.turn()
    assert world.shown() == [], "and it is not put before the person again and again"


def test_an_end_leaves_nothing(world: World) -> None:
    world.ask()
    world.turn()
    world.screens.beat([])
    assert list(world.folder.rglob("*.json")) == []


def test_one_without_a_screen_shows_nothing(world: World) -> None:
    world.screens.beat([world.entry(mode="headless")])
    world.ask()
    assert world.turn() is None
    assert world.shown() == []


def test_a_folder_that_takes_nothing_leaves_the_ask_to_inboxes(world: World) -> None:
    world.folder.write_text("no folder")
    world.ask()
    assert world.turn() is None
    assert world.turn() is None
    assert world.asks.files.has_request(S, ASK)
