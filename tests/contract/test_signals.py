"""`Signals`: only to a process whose identity still matches."""

import os
import pwd
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from supervisor.core.identity import Gone, ProcessKey
from supervisor.testing import FakeProcessTable, FakeSignals
from tests.contract.worlds import FakeWorld, World, until, world_of

KILL = signal.SIGKILL


def test_a_matching_process_gets_the_signal(world: World) -> None:
    child = world.child()
    assert world.signals.send(child, KILL) is True
    until(lambda: isinstance(world.processes.probe(child.pid), Gone), "the child is gone")


def test_other_start_ticks_send_nothing(world: World) -> None:
    child = world.child()
    sent = world.signals.send(replace(child, start_ticks=child.start_ticks + 1), KILL)
    assert (sent, world.runs(child)) == (False, True)


def test_another_pidfd_sends_nothing(world: World) -> None:
    """A forced reuse of the pid in one tick: the start ticks are the same, the pidfd is not."""
    child = world.child()
    if child.pidfd_inode is None and not isinstance(world, FakeWorld):
        pytest.skip("this kernel has no pidfs")
    if isinstance(world, FakeWorld):
        world.table.row(child.pid).inode = 77
    sent = world.signals.send(replace(child, pidfd_inode=78), KILL)
    assert (sent, world.runs(child)) == (False, True)


def test_a_zombie_gets_nothing(world: World) -> None:
    child = world.child()
    world.end(child)
    assert world.signals.send(child, KILL) is False


def test_who_is_gone_gets_nothing(world: World) -> None:
    child = world.child()
    world.end(child)
    world.reap(child)
    assert world.signals.send(child, KILL) is False


@pytest.mark.parametrize("pid", [0, -1, -7])
def test_no_group_is_ever_signalled(world: World, pid: int) -> None:
    """kill(0), kill(-1) and kill(-n) mean groups: with signal 0 nothing happens even where it is sent."""
    assert world.signals.send(ProcessKey(pid, 0), 0) is False


def test_init_is_never_signalled(world: World) -> None:
    init = world.processes.identify(1)
    assert init is not None
    assert world.signals.send(init, 0) is False


def test_we_never_signal_ourselves(world: World) -> None:
    me = world.processes.identify(world.me)
    assert me is not None
    assert world.signals.send(me, 0) is False


def test_a_stopped_process_hears_when_it_is_continued(world: World) -> None:
    child = world.child()
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT):
        assert world.signals.send(child, number) is True
    until(lambda: isinstance(world.processes.probe(child.pid), Gone), "the child is gone")


# -- the fake alone


def test_the_fake_keeps_a_log_of_what_was_sent_and_refused() -> None:
    table = FakeProcessTable()
    key = table.add()
    signals = FakeSignals(table, me=99)
    signals.send(key, 15)
    signals.send(key, 9)
    assert ([s.signal for s in signals.sent], [s.signal for s in signals.refused]) == ([15], [9])


def test_a_fake_process_ignores_what_it_is_told_to() -> None:
    table = FakeProcessTable()
    key = table.add(ignores={signal.SIGTERM})
    FakeSignals(table, me=99).send(key, signal.SIGTERM)
    assert table.alive(key)


# -- the kernel alone

ACROSS_USERS = """
import os, sys
from supervisor.adapters.process_table import system_process_table
from supervisor.adapters.signals import SystemSignals
table = system_process_table("h")  # imported before: the other user may not read this checkout
os.setgid({gid}); os.setuid({uid})
key = table.identify(int(sys.argv[1]))
print(key is not None and SystemSignals(table).send(key, 0))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_users_process_is_told_apart_not_raised_over() -> None:
    """An agent may run `sudo`: what we may not signal is a survivor to be named, and no reason for a keeper to die."""
    nobody = pwd.getpwnam("nobody")
    code = ACROSS_USERS.format(uid=nobody.pw_uid, gid=nobody.pw_gid)
    root = Path(__file__).parents[2]
    with world_of("real") as world:
        done = subprocess.run(
            [sys.executable, "-c", code, str(world.child().pid)],
            env={**os.environ, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.stdout.strip() == "False", done.stderr[-600:]
