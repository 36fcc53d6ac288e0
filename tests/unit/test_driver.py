"""The driver's order of things: ready, prompt, asks, turns, follow-ups, and every way in which it can end."""

from __future__ import annotations

from typing import Any

from supervisor.adapters.driver_box import Request
from supervisor.core.ask_reasons import NO_TARGET
from supervisor.core.asks import abandoned
from supervisor.drivers.driver import OPEN_WAIT_MS
from supervisor.drivers.effects import Effects
from supervisor.drivers.parts import Decided, Posted, Rung, Told
from tests.unit.driving import ALLOWED, DENIED, ToySpeaker, World

READY = {"ready": "s-1"}
DONE = {"end": "done"}
ASK = {"ask": "touch MARK", "key": "a"}
PROMPT = {"prompt": "do it"}


def errors(world: World) -> str:
    return "\n".join(text for kind, text in world.said if kind == "error")


# -- a turn


def test_the_prompt_is_sent_when_it_is_ready_and_the_end_of_its_turn_is_the_end() -> None:
    world = World().says(READY, {"text": "fine"}, DONE)

    assert world.run() == 0
    assert world.sent == [{"say": "hello"}, PROMPT, {"say": "bye"}]
    assert ("text", "fine") in world.said


def test_the_session_is_proven_once() -> None:
    world = World().says(READY, READY, DONE)

    assert world.run() == 0
    assert world.proofs == [("s-1", "/s/file")]


def test_a_failed_turn_is_a_failure_that_says_why() -> None:
    world = World().says(READY, {"end": "failed", "why": "no money"})

    assert world.run() == 1
    assert "the turn has failed: no money" in errors(world)


def test_without_a_prompt_it_waits_for_one() -> None:
    world = World(prompt="").says(READY).idles()

    assert world.sent[:1] == [{"say": "hello"}]
    assert {"prompt": ""} not in world.sent


def test_a_message_that_came_another_way_than_as_a_line_counts_the_same() -> None:
    assert World().happens(Posted(READY), Posted(DONE)).run() == 0


# -- asks


def test_an_ask_is_answered_as_it_was_decided() -> None:
    for decision, allow in ((ALLOWED, True), (DENIED, False), (abandoned(NO_TARGET), False)):
        world = World().says(READY, ASK).happens(Decided("a", decision)).says(DONE)

        assert world.run() == 0
        assert {"answer": "a", "allow": allow} in world.sent


def test_asks_do_not_wait_for_each_other() -> None:
    world = World().says(READY, ASK, {"ask": "touch B", "key": "b"})
    world.happens(Decided("b", ALLOWED), Decided("a", DENIED)).says(DONE)

    assert world.run() == 0
    assert [m["answer"] for m in world.sent if "answer" in m] == ["b", "a"]


def test_what_is_not_understood_is_denied_without_asking() -> None:
    world = World().says(READY, {"ask": "bell\x07", "key": "a"})
    world.asks.at_once = abandoned(NO_TARGET)
    world.says(DONE)

    assert world.run() == 0
    assert {"answer": "a", "allow": False} in world.sent


def test_the_answer_to_a_withdrawn_ask_is_not_given() -> None:
    world = World().says(READY, ASK, {"withdraw": "a"}).happens(Decided("a", ALLOWED)).says(DONE)

    assert world.run() == 0
    assert [m for m in world.sent if "answer" in m] == []


def test_the_transcript_tells_the_ask_and_what_became_of_it() -> None:
    world = World().says(READY, ASK).happens(Decided("a", DENIED)).says(DONE)
    world.run()

    notes = [text for kind, text in world.said if kind == "note"]
    assert "asks for permission: bash touch MARK" in notes
    assert "denied by the user: no" in notes


# -- what it is told


def test_a_follow_up_amid_a_turn_is_the_next_turn() -> None:
    world = World().says(READY).told(Request("prompt", "more")).says(DONE, DONE)

    assert world.run() == 0
    assert [m for m in world.sent if "prompt" in m] == [PROMPT, {"prompt": "more"}]


def test_a_follow_up_at_the_last_moment_is_not_lost() -> None:
    world = World().says(READY)
    world.box.late = [Request("prompt", "more")]
    heard: list[bool] = []
    world.says(DONE).happens(lambda: heard.append(world.box.listens)).says(DONE)

    assert world.run() == 0
    assert heard == [True], "it listens again"
    assert [m for m in world.sent if "prompt" in m] == [PROMPT, {"prompt": "more"}]


def test_an_interrupted_turn_ends_and_the_agent_stays_for_the_next() -> None:
    world = World().says(READY).told(Request("interrupt")).says({"end": "failed", "why": "aborted"})
    world.told(Request("prompt", "instead")).says(DONE)

    assert world.run() == 0
    assert world.sent[1:] == [PROMPT, {"interrupt": True}, {"prompt": "instead"}, {"say": "bye"}]
    assert errors(world) == ""


def test_a_turn_that_was_done_when_the_interrupt_came_ends_nothing_either() -> None:
    World().says(READY).told(Request("interrupt")).says(DONE).idles()


def test_after_an_interrupt_it_waits() -> None:
    World().says(READY).told(Request("interrupt")).says({"end": "interrupted"}).idles()


def test_an_interrupt_without_a_turn_does_nothing() -> None:
    world = World(prompt="").says(READY).told(Request("interrupt")).idles()

    assert {"interrupt": True} not in world.sent


# -- ends


def test_term_ends_it_politely_and_says_so_in_the_exit_code() -> None:
    world = World().says(READY, ASK).happens(Told(15))

    assert world.run() == 143
    assert world.asks.closed
    assert world.sent[-1] == {"say": "bye"}
    assert world.cli.input_ended
    assert world.cli.signals == []
    assert world.cli.left_ended == 1
    assert not world.box.listens


def test_a_cli_that_does_not_end_by_itself_gets_term() -> None:
    world = World().says(READY).happens(Told(15))
    world.cli.ends_on_eof = False

    assert world.run() == 143
    assert world.cli.signals == [15]


def test_a_cli_that_ignores_all_is_killed_with_what_is_left_and_survivors_are_named() -> None:
    world = World().says(READY, DONE)
    world.cli.ends_on_eof = world.cli.ends_on_term = False
    world.cli.survivors = "pid 7 (rock)"

    assert world.run() == 0
    assert world.cli.left_ended == 1
    assert "still alive: pid 7 (rock)" in errors(world)


def test_a_second_signal_shortens_the_wait() -> None:
    world = World().says(READY).happens(Told(15), Told(15), Told(15))
    world.cli.ends_on_eof = world.cli.ends_on_term = False
    before = world.clock.monotonic_ns()

    assert world.run() == 143
    assert world.clock.monotonic_ns() == before


def test_a_cli_that_dies_is_a_failure_with_its_last_words() -> None:
    world = World().says(READY)
    world.happens(lambda: setattr(world.cli, "ended", True), Rung())

    assert world.run() == 1
    assert "the CLI has exited with 3: last words" in errors(world)


def test_a_request_to_a_driver_whose_cli_has_died_is_left_to_its_sender() -> None:
    world = World().says(READY)
    world.happens(lambda: setattr(world.cli, "ended", True)).told(Request("prompt", "more"))

    assert world.run() == 1
    assert world.box.take() == [Request("prompt", "more")]


def test_what_a_cli_said_before_it_died_counts() -> None:
    world = World().says(READY)
    world.happens(lambda: setattr(world.cli, "ended", True), Rung()).says(DONE, None)

    assert world.run() == 0


def test_the_end_of_its_output_is_a_failure() -> None:
    assert World().says(READY, None).run() == 1


def test_garbage_is_a_failure_and_nothing_is_answered() -> None:
    for garbage in (b"Segmentation fault", b'["list"]', b'{"half":', b"\xff\xfe{}", b"[" * 100_000):
        world = World().says(READY, garbage, ASK)

        assert world.run() == 1
        assert "no JSON object" in errors(world)
        assert world.asks.open == {}


def test_a_cli_that_says_nothing_is_not_waited_for_for_ever() -> None:
    world = World()
    before = world.clock.monotonic_ns()

    assert world.run() == 1
    assert "it was not ready within" in errors(world)
    assert world.clock.monotonic_ns() - before >= OPEN_WAIT_MS * 1_000_000
    assert PROMPT not in world.sent


def test_a_broken_opening_sends_no_prompt() -> None:
    class Refuses(ToySpeaker):
        def hear(self, message: Any) -> Effects:
            return (*super().hear({"unknown": 1}), *super().hear(message))

    world = World(speaker=Refuses()).says(READY)

    assert world.run() == 1
    assert PROMPT not in world.sent
    assert world.proofs == []
