"""`ExitWatch`: learning of an end, and never inventing how it was."""

import os

import pytest
from msgspec.structs import replace

from supervisor.core.ports import Exit
from tests.contract.worlds import FakeWorld, RealWorld, World, until


def test_a_running_process_is_quiet(world: World) -> None:
    watch = world.exit_watch()
    child = world.child()
    fd = watch.watch(child)
    assert fd is not None
    assert not world.readable(watch, fd)
    watch.forget(child)


def test_an_end_is_heard(world: World) -> None:
    watch = world.exit_watch()
    child = world.child()
    fd = watch.watch(child)
    assert fd is not None
    world.end(child)
    until(lambda: world.readable(watch, fd), "the descriptor is readable")
    watch.forget(child)


def test_without_descriptors_the_process_is_to_be_polled(world: World) -> None:
    assert world.exit_watch(poll_only=True).watch(world.child()) is None


def test_who_is_gone_cannot_be_watched(world: World) -> None:
    child = world.child()
    world.end(child)
    world.reap(child)
    assert world.exit_watch().watch(child) is None


def test_a_zombie_cannot_be_watched(world: World) -> None:
    child = world.child()
    world.end(child)
    assert world.exit_watch().watch(child) is None


def test_a_stranger_with_the_pid_is_not_watched_in_its_place(world: World) -> None:
    child = world.child()
    assert world.exit_watch().watch(replace(child, start_ticks=child.start_ticks + 1)) is None


def test_a_running_process_has_no_status(world: World) -> None:
    watch = world.exit_watch()
    child = world.child()
    watch.watch(child)
    assert watch.status(child) is None
    watch.forget(child)


def test_the_status_of_a_reaped_process_is_the_truth_or_not_known(world: World) -> None:
    watch = world.exit_watch()
    child = world.child()
    watch.watch(child)
    world.end(child)
    world.reap(child)
    found = watch.status(child)
    watch.forget(child)
    assert found in (Exit(signal=9), None)


def test_a_process_that_was_never_watched_has_no_status(world: World) -> None:
    child = world.child()
    world.end(child)
    world.reap(child)
    assert world.exit_watch().status(child) is None


def test_a_forgotten_process_has_no_status(world: World) -> None:
    watch = world.exit_watch()
    child = world.child()
    watch.watch(child)
    watch.forget(child)
    world.end(child)
    world.reap(child)
    assert watch.status(child) is None


def test_forgetting_who_was_never_watched_does_nothing(world: World) -> None:
    world.exit_watch().forget(world.child())


@pytest.mark.parametrize("tells", [True, False])
def test_a_fake_kernel_tells_or_does_not(tells: bool) -> None:
    world = FakeWorld()
    watch = world.exit_watch()
    watch.tells = tells  # type: ignore[attr-defined]
    child = world.child()
    watch.watch(child)
    world.end(child)
    world.reap(child)
    assert (Exit(signal=9) if tells else None) == watch.status(child)


def test_forgetting_closes_what_watching_opened() -> None:
    world = RealWorld()
    watch = world.exit_watch()
    child = world.child()
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(5):
        watch.watch(child)
        watch.forget(child)
    after = set(os.listdir("/proc/self/fd"))
    world.close()
    assert before == after
