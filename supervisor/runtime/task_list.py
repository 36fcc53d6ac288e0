"""The tasks as `task list` shows them: what was set, and what agents on record work on. Reads only."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from supervisor.core.errors import BadState
from supervisor.core.tasks import Task, TaskStatus, status_of
from supervisor.runtime.compose import Context


class TaskRow(Struct, frozen=True, kw_only=True, rename="camel"):
    """One task; `at` (epoch ms) is None where nobody has set it."""

    ref: str
    status: TaskStatus
    at: int | None
    agents: tuple[str, ...]


def tasks_or_none(context: Context) -> Sequence[Task] | None:
    """The tasks on record; None when they cannot be read."""
    try:
        return context.tasks.all()
    except BadState:
        return None


def task_rows(context: Context) -> list[TaskRow]:
    """Every task, by its name.

    Raises:
        BadState: the tasks cannot be read.
    """
    if not context.places.exists():
        return []
    tasks = context.tasks.all()
    agents: dict[str, set[str]] = {t.ref: set() for t in tasks}
    for entry in context.store.list():
        if entry.task_ref is not None:
            agents.setdefault(entry.task_ref, set()).add(entry.name)
    times = {t.ref: t.at for t in tasks}
    return [
        TaskRow(ref=ref, status=status_of(ref, tasks), at=times.get(ref), agents=tuple(sorted(names)))
        for ref, names in sorted(agents.items())
    ]
