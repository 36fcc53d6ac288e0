"""Asks on their way: each in a thread of its own, a denial on every doubt."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from supervisor.core.asks import Decision
from supervisor.drivers.relay import AT_ONCE, Relay, decide_by_asking
from supervisor.runtime.tool_use import PermissionAsk, Unclear, tool_use

DEADLINE = 30.0
ALLOWED = Decision(True, "approved")


def wanted(command: str = "touch MARK") -> PermissionAsk:
    found = tool_use("Bash", {"command": command}, "/work")
    assert isinstance(found, PermissionAsk)
    return found


class World:
    """A relay whose decider waits for the test, one gate for each command."""

    def __init__(self) -> None:
        self.decided: queue.SimpleQueue[tuple[str, Decision]] = queue.SimpleQueue()
        self.gates: dict[str, threading.Event] = {}
        self.relay = Relay(self._decide, lambda key, decision: self.decided.put((key, decision)))

    def _decide(self, ask: PermissionAsk, ended: Callable[[], bool]) -> Decision:
        gate = self.gates.get(ask.value)
        while gate is not None and not gate.wait(0.01):
            if ended():
                return Decision(False, "denied", "withdrawn")
        return ALLOWED


def test_none_waits_for_another() -> None:
    world = World()
    world.gates["slow"] = threading.Event()

    assert world.relay.put("1", wanted("slow")) is None
    assert world.relay.put("2", wanted("quick")) is None
    assert world.decided.get(timeout=DEADLINE) == ("2", ALLOWED)
    world.gates["slow"].set()
    assert world.decided.get(timeout=DEADLINE) == ("1", ALLOWED)


def test_a_withdrawn_ask_ends_and_is_not_settled() -> None:
    world = World()
    world.gates["slow"] = threading.Event()
    world.relay.put("1", wanted("slow"))

    assert world.relay.withdraw("1")
    assert not world.relay.withdraw("1")
    key, _ = world.decided.get(timeout=DEADLINE)
    assert not world.relay.settle(key)


def test_closing_ends_all_and_waits_for_it() -> None:
    world = World()
    world.gates["slow"] = threading.Event()
    world.relay.put("1", wanted("slow"))
    world.relay.put("2", wanted("slow"))

    world.relay.close()

    assert sorted(world.decided.get(timeout=DEADLINE)[0] for _ in range(2)) == ["1", "2"]
    assert [t.name for t in threading.enumerate() if t.name.startswith("ask ")] == []


def test_what_is_unclear_asked_twice_or_too_much_is_denied_at_once() -> None:
    world = World()
    world.gates["slow"] = threading.Event()

    unclear = world.relay.put("1", Unclear("its command is missing"))
    assert unclear is not None
    assert (unclear.approved, unclear.unavailable, unclear.code) == (False, True, "malformed")
    for number in range(AT_ONCE):
        assert world.relay.put(f"k{number}", wanted("slow")) is None
    twice, too_many = world.relay.put("k1", wanted("slow")), world.relay.put("more", wanted("slow"))
    assert twice is not None and not twice.approved
    assert too_many is not None and (too_many.approved, too_many.code) == (False, "too_many")
    world.relay.close()


def test_a_decider_that_fails_denies() -> None:
    decided: queue.SimpleQueue[Decision] = queue.SimpleQueue()

    def fails(_ask: PermissionAsk, _ended: Callable[[], bool]) -> Decision:
        raise RuntimeError("boom")

    Relay(fails, lambda _key, decision: decided.put(decision)).put("1", wanted())

    decision = decided.get(timeout=DEADLINE)
    assert (decision.approved, decision.unavailable, decision.code) == (False, True, "driver_failed")


def test_outside_of_a_supervisor_nobody_can_be_asked() -> None:
    decision = decide_by_asking({})(wanted(), lambda: False)

    assert (decision.approved, decision.code) == (False, "no_target")
