"""`Bells`: wake-ups without content, in memory and as FIFOs."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supervisor.adapters.bells import BellFiles, drain
from supervisor.core.ports import Bells
from supervisor.testing import MemoryBells

ID = "0123456789ab"


class Tower:
    """Bells with somebody to listen: `listen`, then `heard` tells whether it was rung, once."""

    def __init__(self, bells: Bells, listen: Callable[[], Callable[[], bool]], close: Callable[[], None]) -> None:
        self.bells = bells
        self.listen = listen
        self.close = close


def memory() -> Tower:
    bells = MemoryBells()

    def listen() -> Callable[[], bool]:
        bells.listen(ID)
        return lambda: bells.drain(ID) > 0

    return Tower(bells, listen, lambda: bells.remove(ID))


def fifos(tmp: Path) -> Tower:
    bells = BellFiles(str(tmp))
    held: list[int] = []

    def listen() -> Callable[[], bool]:
        held.append(bells.listen(ID))
        return lambda: rung(held[-1])

    def close() -> None:
        while held:
            os.close(held.pop())

    return Tower(bells, listen, close)


def rung(fd: int) -> bool:
    try:
        found = bool(os.read(fd, 1))
    except BlockingIOError:
        return False
    drain(fd)
    return found


@pytest.fixture(params=["memory", "fifos"])
def tower(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tower]:
    tower = memory() if request.param == "memory" else fifos(tmp_path)
    yield tower
    tower.close()


def test_where_nobody_listens_nothing_rings(tower: Tower) -> None:
    assert tower.bells.ring(ID) is False


def test_a_listener_hears_the_bell(tower: Tower) -> None:
    heard = tower.listen()
    assert (tower.bells.ring(ID), heard()) == (True, True)


def test_without_ringing_there_is_silence(tower: Tower) -> None:
    heard = tower.listen()
    assert heard() is False


def test_many_rings_are_one_reason_to_look(tower: Tower) -> None:
    heard = tower.listen()
    for _ in range(3):
        tower.bells.ring(ID)
    assert (heard(), heard()) == (True, False)


def test_a_bell_that_nobody_answers_never_blocks(tower: Tower) -> None:
    heard = tower.listen()
    rings = {tower.bells.ring(ID) for _ in range(70_000)}  # a FIFO holds 64 KiB
    assert ({True}, True) == (rings, heard())


def test_a_ring_reaches_its_listener_alone(tower: Tower) -> None:
    heard = tower.listen()
    assert (tower.bells.ring("ba9876543210"), heard()) == (False, False)


def test_a_removed_bell_is_silent(tower: Tower) -> None:
    tower.listen()
    tower.bells.remove(ID)
    assert tower.bells.ring(ID) is False


def test_a_listener_that_is_gone_is_noticed(tower: Tower) -> None:
    tower.listen()
    tower.close()
    assert tower.bells.ring(ID) is False


def test_removing_no_bell_is_fine(tower: Tower) -> None:
    tower.bells.remove(ID)
    assert tower.bells.ring(ID) is False


def test_a_listener_may_come_back(tower: Tower) -> None:
    tower.listen()
    tower.close()
    heard = tower.listen()
    assert (tower.bells.ring(ID), heard()) == (True, True)


# -- FIFOs alone


def test_a_bell_is_its_owners_alone(tmp_path: Path) -> None:
    bells = BellFiles(str(tmp_path))
    before = os.umask(0)
    try:
        os.close(bells.listen(ID))
    finally:
        os.umask(before)
    mode = os.stat(bells.path(ID)).st_mode
    assert (stat.S_ISFIFO(mode), stat.S_IMODE(mode)) == (True, 0o600)


def test_ringing_leaves_no_descriptor(tmp_path: Path) -> None:
    bells = BellFiles(str(tmp_path))
    fd = bells.listen(ID)
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(20):
        bells.ring(ID)
        bells.ring("nobody")
    after = set(os.listdir("/proc/self/fd"))
    os.close(fd)
    assert before == after


def test_a_symlink_in_place_of_a_bell_is_not_rung(tmp_path: Path) -> None:
    bells = BellFiles(str(tmp_path))
    target = tmp_path / "target"
    target.write_text("mine")
    os.symlink(target, bells.path(ID))
    assert (bells.ring(ID), target.read_text()) == (False, "mine")


def test_a_keeper_id_cannot_lead_elsewhere(tmp_path: Path) -> None:
    assert str(tmp_path / "bells" / "..%2Fx") == BellFiles(str(tmp_path / "bells")).path("../x")
