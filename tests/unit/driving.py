"""A driver without processes: a speaker that does as it is told, and fakes of what a driver works with."""

from __future__ import annotations

import json
import queue
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from supervisor.adapters.driver_box import Request
from supervisor.core.asks import Decision
from supervisor.drivers.driver import Driver
from supervisor.drivers.effects import (
    Ask,
    Broken,
    Effects,
    Proven,
    Ready,
    Say,
    Send,
    TurnEnded,
    Withdraw,
)
from supervisor.drivers.links import Around, JsonLines
from supervisor.drivers.parts import Event, Heard, Rung
from supervisor.runtime.tool_use import tool_use
from supervisor.testing.clock import FakeClock

ALLOWED = Decision(True, "approved", decided_by={"kind": "user"})
DENIED = Decision(False, "denied", "no", decided_by={"kind": "user"})


class ToySpeaker:
    """A protocol of one word a message: the CLI says what shall happen."""

    ends_on_eof = True

    def command(self) -> Sequence[str]:
        return ("toy",)

    def open(self) -> Effects:
        return (Send({"say": "hello"}),)

    def hear(self, message: Any) -> Effects:
        match message:
            case {"ready": session}:
                return (Proven(session, "/s/file"), Ready())
            case {"ask": command, "key": key}:
                return (Ask(key, tool_use("Bash", {"command": command}, "/work")),)
            case {"withdraw": key}:
                return (Withdraw(key),)
            case {"text": text}:
                return (Say("text", text),)
            case {"end": how}:
                return (TurnEnded(how, message.get("why", "")),)
        return (Broken("not understood"),)

    def garbled(self, why: str) -> Effects:
        return (Broken(why),)

    def prompt(self, text: str) -> Effects:
        return (Send({"prompt": text}),)

    def answer(self, key: str, decision: Decision) -> Effects:
        return (Send({"answer": key, "allow": decision.approved is True}),)

    def interrupt(self) -> Effects:
        return (Send({"interrupt": True}),)

    def close(self) -> Effects:
        return (Send({"say": "bye"}),)


class FakeCli:
    """A CLI that has ended when `ended` says so."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.signals: list[int] = []
        self.input_ended = False
        self.ended = False
        self.ends_on_eof = True
        self.ends_on_term = True
        self.survivors = ""
        self.left_ended = 0

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def end_input(self) -> None:
        self.input_ended = True
        self.ended = self.ended or self.ends_on_eof

    def taken(self) -> None:
        return

    def last_words(self) -> str:
        return "last words"

    def reap(self) -> bool:
        return self.ended

    def signal(self, number: int) -> None:
        self.signals.append(number)
        self.ended = self.ended or self.ends_on_term

    def describe_end(self) -> str:
        return "the CLI has exited with 3"

    def end_left(self) -> str:
        self.left_ended += 1
        return self.survivors


class FakeAsks:
    """Asks that wait until the test decides."""

    def __init__(self) -> None:
        self.open: dict[str, Any] = {}
        self.at_once: Decision | None = None
        self.closed = False

    def put(self, key: str, wanted: Any) -> Decision | None:
        if self.at_once is None:
            self.open[key] = wanted
        return self.at_once

    def settle(self, key: str) -> bool:
        return self.open.pop(key, None) is not None

    def withdraw(self, key: str) -> bool:
        return self.open.pop(key, None) is not None

    def close(self) -> None:
        self.closed = True


class FakeBox:
    """A box; `late` is put at the very last moment."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.late: list[Request] = []
        self.listens = True

    def take(self) -> list[Request]:
        taken, self.requests = self.requests, []
        return taken

    def leave(self) -> list[Request]:
        self.listens = False
        taken, self.late = self.late, []
        return taken

    def listen_again(self) -> None:
        self.listens = True

    def close(self) -> None:
        self.listens = False


def around(
    *,
    write: Callable[[bytes], None] = lambda _data: None,
    post: Callable[[Any], None] = lambda _message: None,
    listens: Callable[[int], bool] = lambda _port: True,
    wait: Callable[[int], None] = lambda _ms: None,
    note: Callable[[str], None] = lambda _text: None,
) -> Around:
    """What a link may use, where a test does not say otherwise."""
    return Around(write, post, listens, wait, note)


class WaitsForEver(AssertionError):
    """Nothing more happens, and the driver has not ended: for an idle one that is what it is to do."""


class ScriptedInbox:
    """Events and steps of the test, in order; when there are none left, time passes."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.script: deque[Event | Callable[[], None]] = deque()

    def get(self, timeout: float | None = None) -> Event:
        while self.script:
            item = self.script.popleft()
            if not callable(item):
                return item
            item()
        if timeout is None:
            raise WaitsForEver
        self._clock.advance(timeout * 1000)
        raise queue.Empty


class World:
    """One driver and what it works with. What shall happen is put before it runs."""

    def __init__(self, prompt: str = "do it", speaker: Any = None) -> None:
        self.cli, self.asks, self.box = FakeCli(), FakeAsks(), FakeBox()
        self.said: list[tuple[str, str]] = []
        self.proofs: list[tuple[str, str | None]] = []
        self.clock = FakeClock()
        self.inbox = ScriptedInbox(self.clock)
        link = JsonLines()
        assert link.start(around(write=self.cli.write)) is None
        self.driver = Driver(
            speaker or ToySpeaker(),
            link,
            cli=self.cli,
            asks=self.asks,
            box=self.box,
            inbox=self.inbox,
            prompt=prompt,
            say=lambda kind, text: self.said.append((kind, text)),
            prove=self._prove,
            clock=self.clock,
        )

    def _prove(self, session: str, file: str | None) -> str | None:
        self.proofs.append((session, file))
        return None

    @property
    def sent(self) -> list[Any]:
        """What the CLI was sent."""
        return [json.loads(line) for line in self.cli.sent]

    def says(self, *messages: Any) -> World:
        """Lines of the CLI: JSON, or bytes as they are."""
        lines = [m if isinstance(m, bytes) or m is None else json.dumps(m).encode() for m in messages]
        self.inbox.script += [Heard(line) for line in lines]
        return self

    def happens(self, *steps: Event | Callable[[], None]) -> World:
        self.inbox.script += steps
        return self

    def told(self, *requests: Request) -> World:
        """Put into the box, and rung."""
        return self.happens(lambda: self.box.requests.extend(requests), Rung())

    def run(self) -> int:
        return self.driver.run()

    def idles(self) -> World:
        """Run until nothing more happens, which must not be the end."""
        with pytest.raises(WaitsForEver):
            self.run()
        return self
