"""Whether anybody still needs the answer: the CLI that asked, our deadline, an answer given elsewhere.

Looks at one parent, one descriptor and one transcript; signals nobody.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from supervisor.adapters.proc_stat import start_ticks

if TYPE_CHECKING:
    from supervisor.core.ports import Clock

Why = Literal["", "cli_gone", "elsewhere", "deadline"]


class Parent(NamedTuple):
    """The process that started us, by identity. No ticks: it cannot be seen (a pid namespace, or no /proc)."""

    pid: int
    ticks: int | None

    @classmethod
    def now(cls) -> Parent:
        """Whoever it is right now."""
        pid = os.getppid()
        return cls(pid, start_ticks(pid))

    def gone(self) -> bool:
        """Whether it has died. A zombie has; a number that is used again is somebody else."""
        return os.getppid() != self.pid or (self.ticks is not None and start_ticks(self.pid) != self.ticks)


def unread(fd: int) -> bool:
    """Whether nobody can read what is written there any more. Also true of a CLI that died before we looked at it."""
    poll = select.poll()
    poll.register(fd, 0)
    return any(seen & (select.POLLERR | select.POLLHUP) for _, seen in poll.poll(0))


class Ended:
    """Called at every look; `why` is the first reason that was found, and stays."""

    def __init__(
        self,
        *,
        gone: Callable[[], bool],
        deadline: int,
        clock: Clock,
        elsewhere: Callable[[], bool] = lambda: False,
    ) -> None:
        self._gone = gone
        self._deadline = deadline
        self._clock = clock
        self._elsewhere = elsewhere
        self.why: Why = ""

    def __call__(self) -> bool:
        """Whether the asking may end."""
        if not self.why:
            self.why = self._look()
        return bool(self.why)

    def _look(self) -> Why:
        if self._gone():
            return "cli_gone"
        if self._clock.monotonic_ns() >= self._deadline:
            return "deadline"
        return "elsewhere" if self._elsewhere() else ""
