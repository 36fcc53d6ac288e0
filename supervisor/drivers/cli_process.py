"""The CLI as a process of the driver: its streams read and written by threads, its end, and the end of what it leaves.

Owns the child and the pipes. Signals only what descends from this driver, by identity.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence

from supervisor.adapters.clock import pause
from supervisor.adapters.listeners import listens
from supervisor.adapters.spawn import SystemSpawner
from supervisor.core.ending import signal_name
from supervisor.core.identity import ProcessKey
from supervisor.core.ports import Exit, SpawnFailed
from supervisor.core.timing import KILL_WAIT_MS, MS
from supervisor.runtime.look import Look
from supervisor.runtime.parts import Parts
from supervisor.runtime.tree_end import kill_tree, names

MAX_LINE = 64 * 1024 * 1024
"""A longer line is no message: the rest of it is dropped."""

AHEAD = 256
"""Lines that may have been read and not handled: a CLI that talks faster than we listen is slowed down by its pipe."""

_CHUNK = 256 * 1024
_LAST_WORDS = 4096
_LOOK_S = 0.02

OnLine = Callable[[bytes | None], None]
"""Gets each line without its newline, and None at the end. Called from a thread; `taken` says that one was handled."""


class CliProcess:
    """`start` once, from the main thread."""

    def __init__(self, parts: Parts, spawner: SystemSpawner, *, entry_id: str) -> None:
        self._parts = parts
        self._spawner = spawner
        self._entry_id = entry_id
        self._out: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._ahead = threading.Semaphore(AHEAD)
        self._stderr = b""
        self._stderr_ended = threading.Event()
        self.key: ProcessKey | None = None
        self.exit: Exit | None = None

    def start(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: str, on_line: OnLine) -> str | None:
        """Start it; why not, when that fails."""
        started = self._spawner.spawn_piped(argv, env=env, cwd=cwd)
        if isinstance(started, SpawnFailed):
            return started.why
        self.key = started.key
        for target in (
            lambda: self._write_on(started.stdin),
            lambda: self._read_on(started.stdout, on_line),
            lambda: self._keep_last_words(started.stderr),
        ):
            threading.Thread(target=target, daemon=True).start()
        return None

    # -- its streams

    def write(self, data: bytes) -> None:
        """Queue bytes for its standard input. Never blocks, also when it does not read."""
        self._out.put(data)

    def end_input(self) -> None:
        """End its standard input, after what is queued."""
        self._out.put(None)

    def taken(self) -> None:
        """A line has been handled."""
        self._ahead.release()

    def last_words(self) -> str:
        """The end of its standard error."""
        self._stderr_ended.wait(0.5 if self.exit is not None else 0)
        return self._stderr.decode(errors="replace").strip()

    def _write_on(self, fd: int) -> None:
        with contextlib.suppress(OSError):  # it does not read any more: its end is heard elsewhere
            while (data := self._out.get()) is not None:
                while data:
                    data = data[os.write(fd, data) :]
        os.close(fd)

    def _read_on(self, fd: int, on_line: OnLine) -> None:
        rest = bytearray()
        with contextlib.suppress(OSError):
            while chunk := os.read(fd, _CHUNK):
                rest += chunk
                if b"\n" not in chunk and len(rest) <= MAX_LINE:
                    continue
                *lines, last = bytes(rest).split(b"\n")
                rest = bytearray(last[: MAX_LINE + 1])
                for line in lines:
                    self._ahead.acquire()
                    on_line(line)
        if rest:
            self._ahead.acquire()
            on_line(bytes(rest))
        os.close(fd)
        on_line(None)

    def _keep_last_words(self, fd: int) -> None:
        with contextlib.suppress(OSError):
            while chunk := os.read(fd, _CHUNK):
                self._stderr = (self._stderr + chunk)[-_LAST_WORDS:]
        os.close(fd)
        self._stderr_ended.set()

    def listens(self, port: int) -> bool:
        """Whether it, or something that it has started, listens on a loopback port."""
        return any(listens(key.pid, port) for key in self._left())

    # -- its end

    def reap(self) -> bool:
        """Take note of children that have ended, also of orphans of the CLI (we are their reaper)."""
        for pid, end in self._spawner.reap():
            if self.key is not None and pid == self.key.pid:
                self.exit = end
        return self.exit is not None

    def signal(self, number: int) -> None:
        """Signal the CLI itself, while it runs."""
        if self.key is not None and self.exit is None:
            self._parts.signals.send(self.key, number)

    def describe_end(self) -> str:
        """How the CLI has ended, for people."""
        end = self.exit
        if end is None:
            return "the CLI has not ended"
        return (
            f"the CLI was killed by {signal_name(end.signal)}" if end.signal else f"the CLI has exited with {end.code}"
        )

    def end_left(self) -> str:
        """Kill what still runs of it; what survived, for people.

        That is what descends from this very process and is no keeper, nor another agent: nothing else is looked for.
        """
        deadline = self._parts.clock.monotonic_ns() + KILL_WAIT_MS * MS
        while left := self._left():
            kill_tree(self._parts, self._look(), self._entry_id, self._leader, attached=False)
            self.reap()
            if self._parts.clock.monotonic_ns() >= deadline:
                return ", ".join(names(self._parts, left))
            pause(_LOOK_S)
        return ""

    @property
    def _leader(self) -> ProcessKey | None:
        return self.key if self.exit is None else None

    def _left(self) -> set[ProcessKey]:
        return self._look().tree(self._entry_id, self._leader, attached=False)

    def _look(self) -> Look:
        return Look(
            self._parts.processes,
            home=self._parts.home,
            me=os.getpid(),
            agents=frozenset,
            keepers=self._parts.beats.owners,
            subreaper=True,
            alone=True,
        )
