"""Sessions in one process: asks of in-process children, what `decide` may say, and whose end takes what away."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

import supervisor
from supervisor.adapters.clock import SystemClock
from supervisor.core.entry import Closed, is_live
from supervisor.core.errors import BadInput, Refused
from supervisor.core.timing import MS
from supervisor.library import registry
from supervisor.library.joining import open_session
from supervisor.library.serving import GATE_ERROR, Ask, Verdict, settle
from supervisor.library.session import Session
from supervisor.runtime.compose import Context
from supervisor.runtime.deciding import Desk

T = TypeVar("T")


class LeapingClock(SystemClock):
    """Half a second passes with every look at it."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def monotonic_ns(self) -> int:
        self.looks += 1
        return super().monotonic_ns() + self.looks * 500 * MS


class World:
    """A state root, and the sessions opened in it."""

    def __init__(self, root: Path) -> None:
        self.env = {"SUPERVISOR_HOME": str(root / "s"), "HOME": str(root), "XDG_CONFIG_HOME": str(root / "c")}
        self.opened: list[Session] = []

    def context(self) -> Context:
        return Context(self.env, cwd="/")

    def open(self, name: str | None = None, *, parent: str | None = None) -> Session:
        self.opened.append(open_session(self.context(), name=name, parent=parent))
        return self.opened[-1]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    for session in made.opened:
        session.close()


def test_an_in_process_child_is_allowed_by_its_parent(world: World) -> None:
    seen: list[Ask] = []
    parent = world.open("p")
    parent.serve(lambda ask: not seen.append(ask))  # type: ignore[func-returns-value]
    child = parent.child("c")
    decision = child.ask("bash", "ls", input={"command": "ls"})
    assert (True, "decided", parent.id, False) == (
        decision.approved,
        decision.code,
        decision.responder,
        decision.unavailable,
    )
    assert [("bash", "ls", "c", child.id, parent.id, {"command": "ls"})] == [
        (a.tool, a.value, a.agent, a.requester, a.session, a.input) for a in seen
    ]


def test_a_denial_brings_its_reason(world: World) -> None:
    parent = world.open()
    parent.serve(lambda ask: (False, f"not {ask.value}"))
    decision = parent.child("c").ask("bash", "rm")
    assert (
        decision.approved,
        decision.state,
        decision.reason,
        decision.unavailable,
    ) == (False, "denied_with_reason", "not rm", False)


def test_a_plain_denial_is_a_decision(world: World) -> None:
    parent = world.open()
    parent.serve(lambda _ask: False)
    decision = parent.child("c").ask("bash", "rm")
    assert (
        decision.approved,
        decision.state,
        decision.code,
        decision.unavailable,
    ) == (False, "denied", "decided", False)


def test_no_opinion_and_nobody_else_is_unavailable(world: World) -> None:
    parent = world.open()
    parent.serve(lambda _ask: None)
    decision = parent.child("c").ask("bash", "ls")
    assert (decision.approved, decision.code, decision.unavailable) == (False, "no_opinion", True)


def test_what_decide_raises_is_a_gate_error_and_never_an_allow(world: World) -> None:
    def broken(_ask: Ask) -> Verdict:
        raise RuntimeError("secret")

    parent = world.open()
    parent.serve(broken)
    decision = parent.child("c").ask("bash", "ls")
    assert (
        decision.approved,
        decision.reason,
        decision.code,
        decision.unavailable,
    ) == (False, "gate error", "gate_error", True)


@pytest.mark.parametrize("said", [1, "yes", (True,), (1, "x"), (True, 2), [True, "x"], object()])
def test_only_true_itself_allows(said: object) -> None:
    assert settle(said) == GATE_ERROR


def test_verdicts_are_taken_as_they_are_said() -> None:
    assert [settle(v) for v in (True, False, (False, "why"), None)] == [
        (True, None),
        (False, None),
        (False, "why"),
        None,
    ]


def test_without_a_server_an_ask_is_refused_after_two_seconds_of_the_clock(world: World) -> None:
    parent = world.open()
    child = parent.child("c")
    clock = parent._host.context.clock = LeapingClock()
    decision = child.ask("bash", "ls")
    assert (decision.approved, decision.code, decision.unavailable) == (False, "not_serving", True)
    assert parent.id in (decision.reason or "")
    assert clock.looks < 40


def test_the_registry_judges_an_in_process_target_not_the_heartbeat(world: World) -> None:
    parent = world.open()
    parent.serve(lambda _ask: True)
    assert registry.is_serving(parent.id)
    parent.serve(None)
    assert not registry.is_serving(parent.id)


def test_one_deliberation_blocks_no_other_ask(world: World) -> None:
    free = threading.Event()
    parent = world.open()
    parent.serve(lambda ask: free.wait(20) if ask.value == "slow" else True)
    slow, quick, said = parent.child("slow"), parent.child("quick"), []
    waiting = threading.Thread(target=lambda: said.append(slow.ask("bash", "slow").approved))
    waiting.start()
    assert quick.ask("bash", "quick").approved
    assert said == []
    free.set()
    waiting.join(20)
    assert said == [True]


def test_a_childs_end_leaves_its_parent_and_its_sibling(world: World) -> None:
    parent = world.open()
    parent.serve(lambda _ask: True)
    gone, sibling = parent.child("gone"), parent.child("sibling")
    gone.close()
    assert (registry.parent_of(gone.id), registry.parent_of(sibling.id)) == (None, parent.id)
    assert registry.is_serving(parent.id)
    assert sibling.ask("bash", "ls").approved
    assert gone.ask("bash", "ls").code == "closed"


def test_a_childs_own_authority_decides_for_its_children(world: World) -> None:
    parent = world.open()
    parent.serve(lambda _ask: (False, "parent"))
    child = parent.child("c")
    child.serve(lambda ask: True if ask.value == "mine" else None)
    grandchild = child.child("g")
    assert (grandchild.ask("bash", "mine").approved, grandchild.ask("bash", "other").reason) == (True, "parent")


def test_a_grandchilds_ask_passes_through_a_child_without_authority(world: World) -> None:
    hops: list[tuple[str, ...]] = []
    parent = world.open()
    parent.serve(lambda ask: not hops.append(ask.hops))  # type: ignore[func-returns-value]
    child = parent.child("c")
    assert child.child("g").ask("bash", "ls").approved
    assert [(child.id,)] == hops


def test_two_sessions_decide_each_for_its_own(world: World) -> None:
    first, second = world.open("one"), world.open("two")
    first.serve(lambda _ask: True)
    second.serve(lambda _ask: (False, "two"))
    assert (first.child("a").ask("x", "y").approved, second.child("b").ask("x", "y").reason) == (True, "two")
    first.close()
    assert (registry.is_serving(first.id), registry.is_serving(second.id)) == (False, True)
    assert second.child("c").ask("x", "y").reason == "two"


def test_a_worker_asks_its_recorded_parent(world: World) -> None:
    above = world.open("above")
    above.serve(lambda ask: ask.agent == "below")
    below = world.open("below", parent="above")
    assert below.ask("bash", "ls").approved


def test_nobody_allows_his_own_ask(world: World) -> None:
    session = world.open()
    session.serve(lambda _ask: True)
    decision = session.ask("bash", "ls")
    assert (decision.approved, decision.code, decision.unavailable) == (False, "self", True)


def test_an_input_that_is_no_json_is_a_denial(world: World) -> None:
    assert world.open().ask("bash", "ls", input=object()).code == "malformed"


def test_a_closed_session_is_on_record_with_its_hand_off_and_leaves_no_mark(world: World) -> None:
    session = world.open("s")
    session.serve(lambda _ask: True)
    (running,) = world.context().store.list()
    assert (True, "master", "s", session.id) == (is_live(running), running.role, running.name, running.session_id)
    session.close()
    (closed,) = world.context().store.list()
    assert isinstance(closed.state, Closed)
    assert (closed.state.hand_off.outcome, closed.state.hand_off.code) == ("exited", 0)
    places = world.context().places
    left = [
        *Path(places.heartbeats).iterdir(),
        *Path(places.bells).iterdir(),
        *Path(places.forwarding, "serving").iterdir(),
    ]
    assert left == []


def test_a_session_left_by_an_exception_has_failed(world: World) -> None:
    with pytest.raises(ZeroDivisionError), world.open():
        raise ZeroDivisionError
    (closed,) = world.context().store.list()
    assert closed.hand_off is not None
    assert (closed.hand_off.code, closed.hand_off.success) == (1, False)


def test_a_session_ends_with_the_last_who_holds_it(world: World) -> None:
    session = world.open()
    session.hold()
    session.close()
    assert not session.closed
    session.close()
    assert session.closed


def test_a_taken_name_is_refused_and_a_bad_one_too(world: World) -> None:
    session = world.open("one")
    with pytest.raises(Refused):
        world.open("one")
    with pytest.raises(BadInput):
        session.child("not a name")


def test_the_parents_end_ends_its_children(world: World) -> None:
    parent = world.open()
    child = parent.child("c")
    parent.close()
    assert (child.closed, registry.children_of(parent.id)) == (True, [])


@pytest.fixture
def joined_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The environment of this very process names a state root of the test's."""
    for name in ("SUPERVISOR_SESSION_ID", "SUPERVISOR_PARENT_SESSION", "SUPERVISOR_PARENT_PID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SUPERVISOR_HOME", str(tmp_path / "s"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))
    yield
    session = registry.shared()["joined"]
    while session is not None and not session.closed:
        session.close()


@pytest.mark.usefixtures("joined_here")
def test_joining_again_gives_the_same_session_until_all_have_left() -> None:
    first = supervisor.join("one")
    with supervisor.join("two", decide=lambda _ask: True) as second:
        assert second is first
        assert first.name == "one"
    assert first.child("c").ask("bash", "ls").approved
    first.close()
    assert first.closed
    with supervisor.join("three") as third:
        assert third.name == "three"


@pytest.mark.usefixtures("joined_here")
def test_a_reloaded_package_joins_the_same_session() -> None:
    from supervisor.library import joining

    first = supervisor.join()
    assert importlib.reload(joining).join() is first


def test_a_person_may_answer_what_a_program_thinks_about(world: World) -> None:
    free, said = threading.Event(), list[bool]()
    parent = world.open()
    parent.serve(lambda _ask: free.wait(20) and False)
    child = parent.child("c")
    asking = threading.Thread(target=lambda: said.append(child.ask("bash", "ls").approved))
    asking.start()
    context = world.context()
    desk = Desk(context.parts, context.asks)
    pending = until(lambda: desk.pending([parent.id]))
    assert desk.answer(pending[0], approved=True, who="me").what == "applied"
    asking.join(20)
    free.set()
    assert said == [True]
    until(lambda: not desk.pending([parent.id]))
    assert Path(context.places.forwarding, "sessions", parent.id, "responses").is_dir()
    assert until(lambda: not context.asks.files.responses(parent.id))  # the late verdict changes nothing


def until(condition: Callable[[], T]) -> T:
    """The first true value, within a deadline."""
    deadline = time.monotonic() + 10
    while not (value := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return value
