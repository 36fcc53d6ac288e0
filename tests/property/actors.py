"""Processes of ours that a test runs from port call to port call: each has a thread, and exactly one runs at a time.

Owns the baton. Whoever is killed gets nothing done any more: its ports raise `Killed`, as often as they are called.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from supervisor.core.identity import ProcessKey

_here = threading.local()


class Killed(BaseException):
    """The process that calls is gone."""


class Actor:
    """One process, stopped before each of its port calls."""

    def __init__(self, name: str, process: ProcessKey, run: Callable[[], None]) -> None:
        self.name = name
        self.process = process
        self.done = False
        self.killed = False
        self._run = run
        self._error: BaseException | None = None
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self._main, daemon=True).start()

    def step(self) -> None:
        """It goes on until its next port call, or its end. What it asserts in vain is raised here."""
        if self.done:
            return
        self._go.release()
        self._stopped.acquire()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def kill(self) -> None:
        """SIGKILL: it does nothing more, whatever it was about to do."""
        self.killed = True
        self.step()

    def pause(self) -> None:
        """In its own thread: the others have their turn."""
        self._hand_over()
        if self.killed:
            raise Killed

    def _hand_over(self) -> None:
        if self.killed:
            raise Killed
        self._stopped.release()
        self._go.acquire()

    def _main(self) -> None:
        self._go.acquire()
        _here.actor = self
        try:
            if not self.killed:
                self._run()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001  whatever it is: the test hears of it
            self._error = error
        self.done = True
        self._stopped.release()


def running() -> Actor | None:
    """The actor whose thread this is; None in the test's own."""
    return getattr(_here, "actor", None)


class Lock:
    """A lock as the kernel keeps it: shared by a forked child, free when all who hold it have let go or are dead."""

    def __init__(self, alive: Callable[[ProcessKey], bool], *, ignored: bool = False) -> None:
        self._alive = alive
        self._holders: set[ProcessKey] = set()
        self._ignored = ignored

    @contextmanager
    def held(self, process: ProcessKey, wait: Callable[[], None]) -> Iterator[None]:
        """For the length of a block; `wait` lets the others go on."""
        while not self._ignored and any(self._alive(h) for h in self._holders):
            wait()
        self._holders.add(process)
        try:
            yield
        finally:
            self._holders.discard(process)

    def share(self, child: ProcessKey) -> None:
        """A forked child holds it too."""
        self._holders.add(child)

    def let_go(self, process: ProcessKey) -> None:
        """It has closed its descriptor."""
        self._holders.discard(process)
