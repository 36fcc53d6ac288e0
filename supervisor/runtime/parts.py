"""What the runtime is made of: the ports and places that `compose` (or a test) hands in. Owns nothing itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from supervisor.core.identity import ProcessRef
from supervisor.core.liveness import Now
from supervisor.core.ports import (
    Bells,
    Clock,
    EntryStore,
    ExitWatch,
    Heartbeats,
    ProcessTable,
    Signals,
    Spawner,
)


class Transcripts(Protocol):
    """What the keeper does with transcripts."""

    def path(self, entry_id: str) -> str: ...
    def create(self, path: str) -> None: ...
    def size(self, path: str) -> int | None: ...
    def head(self, path: str, start: int = 0) -> bytes: ...
    def tail(self, path: str) -> bytes: ...
    def cap(self, path: str, limit: int) -> bool: ...
    def append(self, path: str, line: str) -> None: ...
    def free_bytes(self) -> int: ...
    def remove(self, entry_id: str) -> None: ...


class SessionFiles(Protocol):
    """Finds an agent's own session file by the patterns of its profile."""

    def find(self, patterns: tuple[str, ...], env: Mapping[str, str], session: str | None) -> str | None: ...
    def modified_ms(self, path: str) -> int: ...


class Proofs(Protocol):
    """What hooks and drivers have written about the sessions of their CLIs.

    `stirred` is whether any may have been written since the last call: one look for all agents.
    """

    def stirred(self) -> bool: ...
    def stamp(self, entry_id: str) -> int: ...
    def read(self, entry_id: str) -> bytes: ...
    def remove(self, entry_id: str) -> None: ...


class Watches(Protocol):
    """The seam to the loop: descriptors to wake for."""

    def watch(self, fd: int) -> None: ...
    def forget(self, fd: int) -> None: ...


class Limits(Struct, frozen=True, kw_only=True):
    """The settings a keeper works by."""

    heartbeat_ms: int
    watcher_poll_ms: int
    adoption_grace_ms: int
    transcript_bytes: int


class Parts(Struct, frozen=True, kw_only=True):
    """One process's ports."""

    home: str
    clock: Clock
    processes: ProcessTable
    signals: Signals
    spawner: Spawner
    exit_watch: ExitWatch
    store: EntryStore
    beats: Heartbeats
    bells: Bells
    transcripts: Transcripts
    session_files: SessionFiles
    proofs: Proofs
    limits: Limits

    def now(self) -> Now:
        """The observer as `core` wants it."""
        return Now(self.processes.machine(), self.clock.wall_ms(), self.clock.monotonic_ns())

    def ref(self, pid: int) -> ProcessRef | None:
        """A process of this machine as a record holds it; None when it is gone."""
        key = self.processes.identify(pid)
        return ProcessRef(self.processes.machine(), key) if key else None
