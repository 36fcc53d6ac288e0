"""The tasks of one state root in one small file. Owns `<home>/tasks.json`."""

from __future__ import annotations

import os

import msgspec

from supervisor.adapters.atomic_file import locked, read_bounded, write_atomic
from supervisor.core.errors import BadState
from supervisor.core.tasks import Task, TaskStatus, with_task

_decoder = msgspec.json.Decoder(tuple[Task, ...])
_MAX_BYTES = 4 * 1024 * 1024


class TaskFile:
    """Read whole, written whole under a lock."""

    def __init__(self, home: str, locks: str) -> None:
        self._path = os.path.join(home, "tasks.json")
        self._lock = os.path.join(locks, "tasks")

    def all(self) -> tuple[Task, ...]:
        """Every task on record.

        Raises:
            BadState: the file cannot be read: which tasks are blocked is then not known.
        """
        try:
            data = read_bounded(self._path, _MAX_BYTES)
            return _decoder.decode(data) if data is not None else ()
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadState(
                f"the tasks in {self._path} cannot be read ({error})", hint="Mend or remove the file; then set them"
            ) from None

    def set(self, ref: str, status: TaskStatus, *, now: int) -> Task:
        """Set one, on stable storage.

        Raises:
            BadState, Refused, OSError.
        """
        with locked(self._lock):
            task = Task(ref=ref, status=status, at=now)
            data = msgspec.json.format(msgspec.json.encode(with_task(self.all(), task)), indent=1)
            write_atomic(self._path, data, durable=True)
        return task
