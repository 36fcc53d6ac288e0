"""The seams: what the runtime needs of the outside, each as small as its callers. Leaves; no behaviour.

Every protocol has a fake in `supervisor.testing` that passes the same contract tests as the real adapter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from supervisor.core.entry import Entry
from supervisor.core.identity import Machine, ProcessKey, Seen
from supervisor.core.liveness import Beat


class Clock(Protocol):
    """Wall and system-wide monotonic time."""

    def wall_ms(self) -> int: ...
    def monotonic_ns(self) -> int: ...


class Exit(Struct, frozen=True):
    """How a process ended: a code, or a signal number; neither when nobody could learn it."""

    code: int | None = None
    signal: int | None = None


class Process(Struct, frozen=True):
    """One row of a process table snapshot."""

    pid: int
    parent_pid: int
    session: int
    start_ticks: int
    state: str


class ProcessTable(Protocol):
    """Looks at processes; never signals."""

    def machine(self) -> Machine: ...
    def probe(self, pid: int) -> Seen: ...
    def identify(self, pid: int) -> ProcessKey | None: ...
    def children(self, pid: int) -> Sequence[int] | None: ...
    def snapshot(self) -> Mapping[int, Process]: ...
    def environment(self, pid: int) -> Mapping[str, str]: ...
    def command(self, pid: int) -> Sequence[str]: ...
    def parent_of(self, pid: int) -> int | None: ...


class Signals(Protocol):
    """Sends a signal to a process whose identity still matches; False when it is gone or another's."""

    def send(self, key: ProcessKey, signal: int) -> bool: ...


class SpawnRequest(Struct, frozen=True, kw_only=True):
    """Everything a child gets, explicitly. `output` and `stdin` are paths; None inherits the launcher's."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    new_session: bool
    stdin: str | None
    output: str | None


class Spawned(Struct, frozen=True):
    """The child exists (its exec has succeeded)."""

    key: ProcessKey


class SpawnFailed(Struct, frozen=True):
    """Nothing was started."""

    why: str


class Spawner(Protocol):
    """Starts children of this process and learns their ends."""

    def spawn(self, request: SpawnRequest) -> Spawned | SpawnFailed: ...
    def reap(self) -> Sequence[tuple[int, Exit]]: ...


class Conflict(Struct, frozen=True):
    """A conditional write lost: what is there now (None: removed)."""

    current: Entry | None


class EntryStore(Protocol):
    """The process matrix by `Entry.key`. Writes are atomic; `sync` makes those since the last one durable.

    `want_down` is `replace_if_unchanged` by the same entry wanted down (`transitions.wanted_down`), and cheaper.
    `touch` renews `heartbeatAt` in place (None: it is not the expected record any more); it is no new revision.
    `stamp` is when any record was last written (epoch ns, 0: unknown); `changed` names those of `entries` whose records
    are no longer what this store read or wrote last. `removed`: what was written into was removed (not moved away), and
    is not there again.
    """

    def list(self) -> Sequence[Entry]: ...
    def read(self, key: str) -> Entry | None: ...
    def create(self, entry: Entry) -> Conflict | None: ...
    def replace_if_unchanged(self, expected: Entry, after: Entry) -> Entry | Conflict: ...
    def want_down(self, expected: Entry, *, grace_ms: int | None) -> Entry | Conflict: ...
    def touch(self, expected: Entry, heartbeat_at: int) -> Entry | None: ...
    def remove_if_unchanged(self, expected: Entry) -> bool: ...
    def stamp(self) -> int: ...
    def changed(self, entries: Iterable[Entry]) -> Sequence[str]: ...
    def removed(self) -> bool: ...
    def sync(self) -> None: ...


class Heartbeats(Protocol):
    """Who beats. `beat` writes in place and makes a removed file anew; `owners` are the keepers
    that files name, pid → start ticks."""

    def beat(self, beat: Beat) -> None: ...
    def read(self, keeper_id: str) -> Beat | None: ...
    def remove(self, keeper_id: str) -> None: ...
    def owners(self) -> Mapping[int, int]: ...
    def misplaced(self, keeper_id: str) -> bool: ...


class Bells(Protocol):
    """Wake-ups without content. `ring` is False when nobody listens there.

    A stop mark is a wish that a full disk cannot refuse: an empty file beside the bells.
    """

    def ring(self, keeper_id: str) -> bool: ...
    def mark_stop(self, entry_id: str) -> None: ...
    def stop_marked(self, entry_id: str) -> bool: ...
    def unmark_stop(self, entry_id: str) -> None: ...
    def remove(self, keeper_id: str) -> None: ...


class ExitWatch(Protocol):
    """Learns of the death of a process that is not our child."""

    def watch(self, key: ProcessKey) -> int | None: ...
    def status(self, key: ProcessKey) -> Exit | None: ...
    def forget(self, key: ProcessKey) -> None: ...
