"""The waiting: one selector over a signal wake-up, a bell and exit watches, until one deadline. Owns the descriptors.

No thread, no asyncio: `signal.set_wakeup_fd` turns signals into bytes, everything else is a descriptor.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
from collections.abc import Iterable

from supervisor.core.ports import Clock
from supervisor.core.timing import MS

HEARD = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


class Loop:
    """`wait` returns what has happened: signal numbers, and descriptors that became readable."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(os, "pipe2") else _pipe()
        self._selector.register(self._reader, selectors.EVENT_READ)
        self._before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        # a handler, not SIG_IGN: an ignored signal would stay ignored in our children
        self._handlers = {number: signal.signal(number, _heard) for number in HEARD}

    def watch(self, fd: int) -> None:
        """Wake when readable. One process may be watched for two reasons, by one descriptor: then once is enough."""
        with contextlib.suppress(KeyError):
            self._selector.register(fd, selectors.EVENT_READ)

    def forget(self, fd: int) -> None:
        """Do not wake for it any more; closing it is its owner's."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(fd)

    def wait(self, until_ns: int | None) -> tuple[set[int], set[int]]:
        """Sleep until something happens or the monotonic time comes."""
        timeout = None if until_ns is None else max(until_ns - self._clock.monotonic_ns(), 0) / (1000 * MS)
        signals: set[int] = set()
        readable: set[int] = set()
        for key, _ in self._selector.select(timeout):
            if key.fd == self._reader:
                signals.update(_bytes(self._reader))
            else:
                readable.add(key.fd)
        return signals, readable

    def close(self) -> None:
        """Give signals back and close what is ours."""
        signal.set_wakeup_fd(self._before)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._selector.close()
        os.close(self._reader)
        os.close(self._writer)


def _heard(_number: int, _frame: object) -> None:
    """Python needs a handler to write to the wake-up descriptor; the loop does the rest."""


def _pipe() -> tuple[int, int]:
    pair = os.pipe()
    for fd in pair:
        os.set_blocking(fd, False)
    return pair


def _bytes(fd: int) -> Iterable[int]:
    data = b""
    with contextlib.suppress(BlockingIOError):
        while more := os.read(fd, 4096):
            data += more
    return data
