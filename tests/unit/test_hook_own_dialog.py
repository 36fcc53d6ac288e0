"""When a CLI's own dialog has its turn: once nobody else could decide."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from supervisor.adapters.inbox_files import InboxFiles
from supervisor.adapters.proc_stat import boot_id, pid_namespace, start_ticks
from supervisor.core.serving import ServingBeat
from supervisor.core.timing import MS
from supervisor.hook.own_dialog import ALONE_MS, OwnDialog
from supervisor.testing import FakeClock

MASTER: dict[str, Any] = {"sessionId": "s-1", "plan": {"mode": "interactive", "asksMode": None}, "tree": "t"}


class World:
    """A state root, and one ask that waits."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.clock = FakeClock()
        self.env = {"SUPERVISOR_HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")}
        self.inboxes = InboxFiles(str(home / "run" / "inboxes"))

    def attend(self, session: str) -> None:
        pid = os.getpid()
        self.inboxes.attend(
            "i-1",
            ServingBeat(
                session, pid, self.clock.wall_ms(), start_ticks(pid), boot_id(), "", pid_namespace(),
                self.clock.monotonic_ns(), None,
            ),
        )  # fmt: skip

    def after(self, ms: int, **changes: Any) -> bool:
        dialog = OwnDialog({**MASTER, **changes}, self.env, clock=self.clock)
        assert not dialog()
        self.clock.advance_to(self.clock.monotonic_ns() + ms * MS)
        return dialog()


@pytest.fixture
def world(home: Path) -> World:
    return World(home)


def test_with_nobody_else_the_dialog_has_its_turn_after_a_second(world: World) -> None:
    assert [world.after(ALONE_MS - 1), world.after(ALONE_MS)] == [False, True]


@pytest.mark.parametrize(("session", "turn"), [("s-1", False), ("*", False), ("t", False), ("s-2", True)])
def test_an_open_inbox_keeps_it_waiting(world: World, session: str, turn: bool) -> None:
    world.attend(session)
    assert world.after(ALONE_MS) is turn


def test_an_inbox_that_is_gone_or_dead_does_not(world: World) -> None:
    world.attend("*")
    assert world.after(60_000), "its mark is stale"


def test_an_inbox_that_is_closed_while_it_waits_gives_the_dialog_its_turn(world: World) -> None:
    dialog = OwnDialog(MASTER, world.env, clock=world.clock)
    world.attend("*")
    seen = []
    for _ in range(3):
        world.clock.advance_to(world.clock.monotonic_ns() + ALONE_MS * MS)
        world.attend("*")
        seen.append(dialog())
    world.inboxes.leave("i-1")
    world.clock.advance_to(world.clock.monotonic_ns() + ALONE_MS * MS)
    assert (seen, dialog()) == ([False] * 3, True)


def test_who_has_a_parent_waits_for_it(world: World) -> None:
    assert not world.after(600_000, parent={"sessionId": "lead"})


@pytest.mark.parametrize("of", ["plan", "settings"])
def test_who_is_to_hold_waits(world: World, of: str) -> None:
    if of == "settings":
        (world.home / "settings.toml").write_text('[asks]\nmode = "hold"\n')
    plan = {"mode": "interactive", "asksMode": "hold" if of == "plan" else None}
    assert not world.after(600_000, plan=plan)


@pytest.mark.parametrize("text", ["[asks", "asks = 7\n", '[asks]\nmode = "attended"\n'])
def test_other_settings_change_nothing(world: World, text: str) -> None:
    (world.home / "settings.toml").write_text(text)
    assert world.after(ALONE_MS)


def test_a_record_that_is_odd_changes_nothing(world: World) -> None:
    assert world.after(ALONE_MS, plan=None, parent=7, tree=[], sessionId=None)
