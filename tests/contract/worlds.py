"""The two worlds a port's contract is held in: one of fakes, one of real processes. Each can do the same things."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from supervisor.adapters.exit_watch import SystemExitWatch
from supervisor.adapters.process_table import system_process_table
from supervisor.adapters.signals import SystemSignals
from supervisor.adapters.spawn import SystemSpawner
from supervisor.core.identity import ProcessKey
from supervisor.core.ports import Exit, ExitWatch, ProcessTable, Signals, Spawned, Spawner, SpawnRequest
from supervisor.testing import FakeExitWatch, FakeProcessTable, FakeSignals, FakeSpawner

DEADLINE_S = 10.0  # only a broken machine needs it


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for it to become true."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.002)


class World(Protocol):
    """Processes as a contract test needs them. `me` is the process that looks, signals and spawns."""

    me: int
    processes: ProcessTable
    signals: Signals
    spawner: Spawner

    def child(self, *, env: Mapping[str, str] | None = None) -> ProcessKey:
        """A running child of `me`, in a session of its own, that waits for its end."""

    def end(self, key: ProcessKey) -> None:
        """It is killed, and a zombie now."""

    def reap(self, key: ProcessKey) -> None:
        """It is waited for, and gone."""

    def runs(self, key: ProcessKey) -> bool:
        """Whether it still does, by the world's own knowledge."""

    def exit_watch(self, *, poll_only: bool = False) -> ExitWatch:
        """A watch of ends."""

    def readable(self, watch: ExitWatch, fd: int) -> bool:
        """Whether a watched descriptor has something to say."""

    def program(self, exit_code: int) -> SpawnRequest:
        """A request for a program that ends with this code (`finish` lets it)."""

    def finish(self, key: ProcessKey, exit_code: int) -> None:
        """The program of `program` comes to its end; one that was killed (a negative code) is a zombie by then."""


class FakeWorld:
    """Everything in memory."""

    def __init__(self) -> None:
        self.table = FakeProcessTable()
        self.me = self.table.add(new_session=True, argv=("keeper",)).pid
        self.processes: ProcessTable = self.table
        self.signals: Signals = FakeSignals(self.table, me=self.me)
        self.spawner: Spawner = FakeSpawner(self.table, parent=self.me)

    def child(self, *, env: Mapping[str, str] | None = None) -> ProcessKey:
        return self.table.add(parent=self.me, new_session=True, env=env, argv=("sleep", "60"))

    def end(self, key: ProcessKey) -> None:
        self.table.end(key.pid, Exit(signal=9))

    def reap(self, key: ProcessKey) -> None:
        self.table.reap(key.pid)

    def runs(self, key: ProcessKey) -> bool:
        return self.table.alive(key)

    def exit_watch(self, *, poll_only: bool = False) -> ExitWatch:
        return FakeExitWatch(self.table, poll_only=poll_only)

    def readable(self, watch: ExitWatch, fd: int) -> bool:
        assert isinstance(watch, FakeExitWatch)
        return fd in watch.readable()

    def program(self, exit_code: int) -> SpawnRequest:
        return request("program")

    def finish(self, key: ProcessKey, exit_code: int) -> None:
        if exit_code >= 0:
            self.table.end(key.pid, Exit(code=exit_code))


class RealWorld:
    """The kernel's. Every child is killed and reaped by `close`."""

    def __init__(self) -> None:
        self.me = os.getpid()
        self.processes = system_process_table("host-1")
        self.signals: Signals = SystemSignals(self.processes)
        self.spawner: Spawner = SystemSpawner(self.processes)
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def child(self, *, env: Mapping[str, str] | None = None) -> ProcessKey:
        child = subprocess.Popen(["sleep", "60"], env={**os.environ, **(env or {})}, start_new_session=True)
        self._children[child.pid] = child
        until(lambda: self.processes.command(child.pid), "its exec is complete")  # a moment after Popen returns
        key = self.processes.identify(child.pid)
        assert key is not None
        return key

    def end(self, key: ProcessKey) -> None:
        self._children[key.pid].send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, key.pid, os.WEXITED | os.WNOWAIT)

    def reap(self, key: ProcessKey) -> None:
        self._children.pop(key.pid).wait()

    def runs(self, key: ProcessKey) -> bool:
        return self._children[key.pid].poll() is None

    def exit_watch(self, *, poll_only: bool = False) -> ExitWatch:
        return SystemExitWatch(self.processes, poll_only=poll_only)

    def readable(self, watch: ExitWatch, fd: int) -> bool:
        return bool(select.select([fd], [], [], 0)[0])

    def program(self, exit_code: int) -> SpawnRequest:
        return request("sh", "-c", f"exit {exit_code}")

    def finish(self, key: ProcessKey, exit_code: int) -> None:
        os.waitid(os.P_PID, key.pid, os.WEXITED | os.WNOWAIT)

    def close(self) -> None:
        """End what is left."""
        for child in self._children.values():
            child.kill()
            child.wait()


@contextmanager
def world_of(kind: str) -> Iterator[World]:
    """One of both."""
    if kind == "fake":
        yield FakeWorld()
        return
    real = RealWorld()
    try:
        yield real
    finally:
        real.close()


def request(*argv: str, **changes: object) -> SpawnRequest:
    """A spawn with nothing special."""
    plain: dict[str, object] = {
        "env": {"PATH": os.environ["PATH"]},
        "cwd": "/",
        "new_session": True,
        "stdin": "/dev/null",
        "output": "/dev/null",
    }
    return SpawnRequest(argv=argv, **{**plain, **changes})  # type: ignore[arg-type]


def started(outcome: object) -> ProcessKey:
    """The key of a spawn that succeeded."""
    assert isinstance(outcome, Spawned), outcome
    return outcome.key
