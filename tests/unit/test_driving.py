"""Telling a running driver something: taken by it, or told plainly that it is not."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from supervisor.adapters.driver_box import DriverBox, Request
from supervisor.core.entry import Entry
from supervisor.core.errors import BadInput, Refused
from supervisor.runtime import driving
from supervisor.runtime.compose import Context
from supervisor.testing import make_entry, make_plan

ENTRY = "b03a054629d3"


class World:
    """A state root, an agent on record, and a driver that takes what it is told while it is told to."""

    def __init__(self, home: Path) -> None:
        self.context = Context({"SUPERVISOR_HOME": str(home)}, cwd=str(home))
        self.box = DriverBox(str(home), ENTRY)
        self.taken: list[Request] = []
        self._stop = threading.Event()

    def entry(self, **plan: Any) -> Entry:
        return replace(make_entry("kid"), entry_id=ENTRY, plan=make_plan(**{"driven": True, **plan}))

    def drive(self) -> None:
        fd = self.box.listen()

        def take() -> None:
            while not self._stop.wait(0.01):
                self.taken += self.box.take()
            os.close(fd)

        self._thread = threading.Thread(target=take)
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        if hasattr(self, "_thread"):
            self._thread.join()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.end()


def test_a_driver_takes_what_it_is_told(world: World) -> None:
    world.drive()

    driving.follow_up(world.context, world.entry(), "more")
    driving.interrupt(world.context, world.entry())

    assert world.taken == [Request("prompt", "more"), Request("interrupt")]


def test_nobody_there_is_a_refusal(world: World) -> None:
    with pytest.raises(Refused, match="kid is not ready to be told anything"):
        driving.follow_up(world.context, world.entry(), "more")


def test_a_driver_that_takes_nothing_never_gets_it_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fd = world.box.listen()
    monkeypatch.setattr(driving, "TAKE_WAIT_MS", 50)

    with pytest.raises(Refused, match="it was taken back"):
        driving.interrupt(world.context, world.entry())
    assert world.box.take() == []
    os.close(fd)


def test_an_agent_without_a_driver_is_told_of_as_such(world: World) -> None:
    with pytest.raises(Refused, match="is not spoken to by a driver"):
        driving.follow_up(world.context, world.entry(driven=False), "more")


def test_an_ended_agent_cannot_be_told(world: World) -> None:
    ended = replace(world.entry(), state=make_entry("kid", status="closed").state)

    with pytest.raises(Refused, match="kid does not run"):
        driving.follow_up(world.context, ended, "more")


@pytest.mark.parametrize("text", ["", " \n", "x" * (driving.MAX_TEXT + 1)])
def test_a_follow_up_has_a_text_that_fits(world: World, text: str) -> None:
    with pytest.raises(BadInput):
        driving.follow_up(world.context, world.entry(), text)
