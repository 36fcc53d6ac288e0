"""`ProcessTable`: what a look at a pid gives, in the fake table and in the kernel's."""

import os
import sys
from pathlib import Path

import pytest

from supervisor.core.identity import Gone, ProcessKey, same_process
from tests.contract.worlds import FakeWorld, World

NO_PID = 2**22 + 7  # above what Linux hands out


def test_we_see_ourselves(world: World) -> None:
    seen = world.processes.probe(world.me)
    assert isinstance(seen, ProcessKey)
    assert world.me == seen.pid


def test_two_looks_see_the_same_process(world: World) -> None:
    first, second = world.processes.probe(world.me), world.processes.identify(world.me)
    assert isinstance(first, ProcessKey)
    assert second is not None
    assert same_process(first, second)


def test_a_running_child_is_seen_as_itself(world: World) -> None:
    child = world.child()
    assert child == world.processes.probe(child.pid)


def test_two_processes_are_never_the_same(world: World) -> None:
    one, two = world.child(), world.child()
    assert not same_process(one, two)


def test_a_zombie_is_gone(world: World) -> None:
    child = world.child()
    world.end(child)
    assert Gone() == world.processes.probe(child.pid)


def test_a_zombie_child_still_has_its_identity(world: World) -> None:
    child = world.child()
    world.end(child)
    zombie = world.processes.identify(child.pid)
    assert zombie is not None
    assert same_process(child, zombie)


def test_a_reaped_process_is_gone(world: World) -> None:
    child = world.child()
    world.end(child)
    world.reap(child)
    assert (Gone(), None) == (world.processes.probe(child.pid), world.processes.identify(child.pid))


@pytest.mark.parametrize("pid", [NO_PID, -1, -(2**31)])
def test_a_pid_of_nobody_is_gone(world: World, pid: int) -> None:
    assert (Gone(), None) == (world.processes.probe(pid), world.processes.identify(pid))


@pytest.mark.parametrize("pid", [2**31, 2**40, 2**63 - 1])
def test_a_pid_that_no_kernel_has_is_gone(world: World, pid: int) -> None:
    """A record may hold any number: one bad record must not stop a scan."""
    assert (Gone(), None) == (world.processes.probe(pid), world.processes.identify(pid))


def test_pid_0_is_no_process(world: World) -> None:
    assert Gone() == world.processes.probe(0)


def test_a_snapshot_holds_parents_and_sessions(world: World) -> None:
    child = world.child()
    row = world.processes.snapshot()[child.pid]
    assert (world.me, child.pid, child.start_ticks) == (row.parent_pid, row.session, row.start_ticks)


def test_a_snapshot_holds_no_zombies(world: World) -> None:
    child = world.child()
    world.end(child)
    assert child.pid not in world.processes.snapshot()


def test_children_are_listed_or_said_not_to_be_known(world: World) -> None:
    child = world.child()
    children = world.processes.children(world.me)
    assert children is None or child.pid in children


def test_a_process_without_children_has_none(world: World) -> None:
    assert world.processes.children(world.child().pid) in ([], None)


def test_an_environment_is_the_one_of_the_start(world: World) -> None:
    child = world.child(env={"SUPERVISOR_ENTRY_ID": "entry-1", "ODD": "a=b\nc"})
    found = world.processes.environment(child.pid)
    assert (found["SUPERVISOR_ENTRY_ID"], found["ODD"]) == ("entry-1", "a=b\nc")


def test_a_command_is_its_arguments(world: World) -> None:
    assert list(world.processes.command(world.child().pid)) == ["sleep", "60"]


def test_the_dead_have_no_environment_and_no_command(world: World) -> None:
    child = world.child(env={"SUPERVISOR_ENTRY_ID": "entry-1"})
    world.end(child)
    found = world.processes
    assert (len(found.environment(child.pid)), len(found.command(child.pid))) == (0, 0)


def test_parents_lead_to_init(world: World) -> None:
    pid: int | None = world.child().pid
    chain: list[int] = []
    while pid is not None and len(chain) < 100:
        chain.append(pid)
        pid = world.processes.parent_of(pid)
    assert (world.me, 1) == (chain[1], chain[-1])


def test_nobody_has_no_parent(world: World) -> None:
    assert world.processes.parent_of(NO_PID) is None


def test_the_machine_stays_the_same(world: World) -> None:
    assert world.processes.machine() == world.processes.machine()


# -- the fake alone: what no kernel does on request


def test_a_reused_pid_has_another_identity() -> None:
    world = FakeWorld()
    child = world.child()
    stranger = world.table.reuse(child.pid)
    assert (child.pid, False, stranger) == (
        stranger.pid,
        same_process(child, stranger),
        world.processes.probe(child.pid),
    )


def test_an_orphan_goes_to_the_nearest_subreaper() -> None:
    world = FakeWorld()
    world.table.subreapers.add(world.me)
    parent = world.child()
    grandchild = world.table.add(parent=parent.pid)
    world.end(parent)
    assert world.me == world.processes.parent_of(grandchild.pid)


def test_without_a_subreaper_an_orphan_goes_to_init() -> None:
    world = FakeWorld()
    parent = world.child()
    grandchild = world.table.add(parent=parent.pid)
    world.end(parent)
    assert world.processes.parent_of(grandchild.pid) == 1


def test_init_reaps_at_once() -> None:
    world = FakeWorld()
    orphan = world.table.add(parent=1)
    world.table.end(orphan.pid)
    assert world.processes.identify(orphan.pid) is None


# -- the kernel alone


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_name_with_brackets_and_blanks_does_not_shift_the_fields(tmp_path: Path) -> None:
    """`/proc/<pid>/stat` holds the name in brackets; a program may be called `a) R 1 (`."""
    import shutil

    from supervisor.adapters.procfs import ProcFs
    from tests.contract.worlds import RealWorld, request, started

    program = tmp_path / "a) R 1 ("
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    program.chmod(0o700)
    world = RealWorld()
    key = started(world.spawner.spawn(request(str(program), "60")))
    try:
        row = ProcFs("host-1").snapshot()[key.pid]
        assert (os.getpid(), key.start_ticks) == (row.parent_pid, row.start_ticks)
    finally:
        world.signals.send(key, 9)
        os.waitid(os.P_PID, key.pid, os.WEXITED | os.WNOWAIT)
        world.spawner.reap()
