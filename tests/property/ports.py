"""The ports of one process of the simulated machine: each call gives the others their turn, each effect is audited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from supervisor.core.entry import Entry, WindingDown, unconfirmed
from supervisor.core.identity import ProcessKey
from supervisor.core.ports import Conflict, Spawned, SpawnFailed, SpawnRequest
from supervisor.testing import FakeSignals, FakeSpawner, MemoryStore

if TYPE_CHECKING:
    from tests.property.machines import World


class Fault(Struct, frozen=True):
    """What is planted, to see that the invariants can fail.

    A store that ignores the revision, signals that ignore whose pid it is, a lock that keeps nobody out.
    """

    stale_writes: bool = False
    careless_signals: bool = False
    open_lock: bool = False


class SimStore(MemoryStore):
    """The matrix as one process sees it."""

    def __init__(self, world: World, process: ProcessKey) -> None:
        super().__init__()
        self._world, self._process = world, process
        self._disk = world.disk._disk

    def list(self) -> Any:
        self._world.port(self._process)
        return super().list()

    def create(self, entry: Entry) -> Conflict | None:
        self._world.port(self._process)
        return super().create(entry)

    def replace_if_unchanged(self, expected: Entry, after: Entry) -> Entry | Conflict:
        self._world.port(self._process)
        base = self._world.disk.read(expected.key)
        careless = self._world.fault.stale_writes and base is not None
        result = super().replace_if_unchanged(cast(Entry, base) if careless else expected, after)
        if isinstance(result, Entry):
            self._world.audit.wrote(base, expected, result, self._process)
        return result

    def remove_if_unchanged(self, expected: Entry) -> bool:
        self._world.port(self._process)
        removed = super().remove_if_unchanged(expected)
        if removed:
            self._world.audit.removed(expected)
        return removed


class SimSignals(FakeSignals):
    """Signals; an agent hears one only when its record says why, and nobody else ever does."""

    def __init__(self, world: World, process: ProcessKey) -> None:
        super().__init__(world.processes, me=process.pid)
        self._world, self._process = world, process

    def send(self, key: ProcessKey, signal: int) -> bool:
        self._world.port(self._process)
        env = self._world.processes.environment(key.pid)
        if not self._world.fault.careless_signals:
            if not super().send(key, signal):
                return False
        elif self._world.processes.identify(key.pid) is not None:
            self._world.processes.deliver(key.pid, signal)
        entry = next((e for e in self._world.disk.list() if e.entry_id == env.get("SUPERVISOR_ENTRY_ID")), None)
        assert entry is not None, f"a signal to {key}, which is no recorded agent"
        marked = isinstance(entry.state, WindingDown) and entry.state.reason != "parent_lost"
        resumed = unconfirmed(entry) is not None or entry.generation.nonce != env.get("SUPERVISOR_GENERATION")
        assert entry.want == "down" or marked or resumed, f"{entry.name} is signalled while it is {entry.status}"
        return True


class SimSpawner(FakeSpawner):
    """Starts agents, which behave as the world is minded to."""

    def __init__(self, world: World, process: ProcessKey) -> None:
        super().__init__(world.processes, parent=process.pid)
        self._world, self._process = world, process

    def spawn(self, request: SpawnRequest) -> Spawned | SpawnFailed:
        self._world.port(self._process)
        result = super().spawn(request)
        if isinstance(result, Spawned):
            self._world.born(result.key, request)
        self._world.port(self._process)
        return result
