"""A spawner that starts fake processes. Owns the log of requests and the scripted failures."""

from __future__ import annotations

from collections.abc import Sequence

from supervisor.core.ports import Exit, Spawned, SpawnFailed, SpawnRequest
from supervisor.testing.processes import FakeProcessTable


class FakeSpawner:
    """`Spawner`. Children appear in the process table below `parent`; ends come from there."""

    def __init__(self, processes: FakeProcessTable, *, parent: int) -> None:
        self._processes = processes
        self._parent = parent
        self._failing: dict[str, str] = {}
        self.requests: list[SpawnRequest] = []
        self.started: list[int] = []

    def fail(self, program: str, why: str) -> None:
        """From now on `program` (its `argv[0]`) cannot be started."""
        self._failing[program] = why

    def allow(self, program: str) -> None:
        """It can be started again."""
        self._failing.pop(program, None)

    def spawn(self, request: SpawnRequest) -> Spawned | SpawnFailed:
        """Start a child, or fail as scripted."""
        self.requests.append(request)
        why = self._failing.get(request.argv[0])
        if why is not None:
            return SpawnFailed(why)
        key = self._processes.add(
            parent=self._parent, new_session=request.new_session, env=request.env, argv=request.argv
        )
        self.started.append(key.pid)
        return Spawned(key)

    def reap(self) -> Sequence[tuple[int, Exit]]:
        """Every child that has ended, also adopted orphans."""
        return [(pid, self._processes.reap(pid)) for pid in self._processes.zombies_of(self._parent)]
