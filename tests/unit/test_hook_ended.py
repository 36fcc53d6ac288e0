"""When the hook stops waiting, and for which reason."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from supervisor.adapters.proc_stat import start_ticks
from supervisor.core.timing import MS
from supervisor.hook.ended import Ended, Parent, unread
from supervisor.testing.clock import FakeClock


class World:
    """What can be looked at, to be changed by a test; `looks` counts those at the transcript."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.gone = self.elsewhere = False
        self.looks = 0

    def ended(self, *, after_ms: int = 1000) -> Ended:
        deadline = self.clock.monotonic_ns() + after_ms * MS
        return Ended(gone=lambda: self.gone, deadline=deadline, clock=self.clock, elsewhere=self._look)

    def _look(self) -> bool:
        self.looks += 1
        return self.elsewhere


def test_it_waits_while_the_cli_lives_and_nobody_has_answered() -> None:
    ended = World().ended()
    assert (ended(), ended.why) == (False, "")


def test_it_ends_with_its_cli() -> None:
    world = World()
    ended = world.ended()
    world.gone = True
    assert (ended(), ended.why) == (True, "cli_gone")


def test_it_ends_when_the_answer_was_given_elsewhere() -> None:
    world = World()
    ended = world.ended()
    world.elsewhere = True
    assert (ended(), ended.why) == (True, "elsewhere")


def test_it_ends_at_its_deadline_and_not_before() -> None:
    world = World()
    ended = world.ended(after_ms=1000)
    world.clock.advance(999)
    assert not ended()
    world.clock.advance(1)
    assert (ended(), ended.why) == (True, "deadline")


def test_a_step_of_the_wall_clock_moves_no_deadline() -> None:
    world = World()
    ended = world.ended()
    world.clock.step_wall(86_400_000)
    assert not ended()


def test_the_first_reason_stays_and_nothing_is_looked_at_again() -> None:
    world = World()
    ended = world.ended()
    world.elsewhere = True
    assert ended()
    world.gone = True
    assert (ended(), ended.why, world.looks) == (True, "elsewhere", 1)


def test_our_own_parent_lives() -> None:
    assert not Parent.now().gone()


def test_a_parent_with_another_pid_or_other_start_ticks_is_gone() -> None:
    here = Parent.now()
    assert here._replace(pid=here.pid + 1).gone()
    assert here.ticks is not None
    assert here._replace(ticks=here.ticks + 1).gone()


def test_a_parent_that_cannot_be_seen_is_judged_by_its_number_alone() -> None:
    assert not Parent(os.getppid(), None).gone()
    assert start_ticks(0) is None


@pytest.fixture(params=["pipe", "socket"])
def channel(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """Node and Bun give their children sockets, others pipes: (the reader's end, ours)."""
    if request.param == "pipe":
        theirs, ours = os.pipe()
    else:
        a, b = socket.socketpair()
        theirs, ours = a.detach(), b.detach()
    yield theirs, ours
    for fd in (theirs, ours):
        try:
            os.close(fd)
        except OSError:
            pass


def test_an_output_is_unread_once_its_reader_is_gone(channel: tuple[int, int]) -> None:
    theirs, ours = channel
    assert not unread(ours)
    os.close(theirs)
    assert unread(ours)


def test_a_file_or_a_closed_descriptor_says_nothing_about_readers(tmp_path: object) -> None:
    fd = os.open(os.devnull, os.O_WRONLY)
    assert not unread(fd)
    os.close(fd)
    assert not unread(fd)
