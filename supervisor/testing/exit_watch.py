"""Exit watching over a fake process table. Owns the numbers it hands out as descriptors."""

from __future__ import annotations

from supervisor.core.identity import ProcessKey
from supervisor.core.ports import Exit
from supervisor.testing.processes import FakeProcessTable

_FIRST_FD = 10_000  # no real descriptor: whoever reads it makes a mistake


class FakeExitWatch:
    """`ExitWatch`. `tells`: the kernel gives the status of a reaped process; `poll_only`: there are no descriptors."""

    def __init__(self, processes: FakeProcessTable, *, tells: bool = True, poll_only: bool = False) -> None:
        self._processes = processes
        self._poll_only = poll_only
        self._fds: dict[ProcessKey, int] = {}
        self._next = _FIRST_FD
        self.tells = tells

    def watch(self, key: ProcessKey) -> int | None:
        """A descriptor for a running process; None: poll it."""
        if self._poll_only or not self._processes.alive(key):
            return None
        self._next += 1
        self._fds[key] = self._next
        return self._next

    def status(self, key: ProcessKey) -> Exit | None:
        """How it ended, once it has been reaped; None: not (yet) known."""
        return self._processes.end_of(key) if self.tells and key in self._fds else None

    def forget(self, key: ProcessKey) -> None:
        """Close what `watch` opened."""
        self._fds.pop(key, None)

    def readable(self) -> set[int]:
        """The descriptors whose processes have ended."""
        return {fd for key, fd in self._fds.items() if not self._processes.alive(key)}

    @property
    def open(self) -> int:
        """How many descriptors are held."""
        return len(self._fds)
