"""Tasks: goals that agents work on, and whether they are still to be worked on. Pure.

A task that nobody has spoken of is open. Only what is `blocked` or `done` keeps its agents from being recovered by
themselves, so only that has to be remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from supervisor.core.entry import MAX_TASK_REF, Entry, Resumable, is_live
from supervisor.core.errors import BadInput, Refused
from supervisor.core.text import is_text, one_line

TaskStatus = Literal["open", "blocked", "done"]

MAX_TASKS = 1_000
"""Of the open ones the oldest are forgotten past it: to be open is the default anyway."""


class Task(Struct, frozen=True, kw_only=True, rename="camel"):
    """One task as it was last set; `at` in epoch ms."""

    ref: str
    status: TaskStatus
    at: int


def task_ref(raw: str) -> str:
    """A checked task reference.

    Raises:
        BadInput: empty, over 512 characters, not printable.
    """
    if not raw.strip() or len(raw) > MAX_TASK_REF or not is_text(raw) or not raw.isprintable():
        raise BadInput(f"{raw[:60]!r} is no task reference", hint=f"1 to {MAX_TASK_REF} printable characters")
    return raw


def status_of(ref: str | None, tasks: Iterable[Task]) -> TaskStatus:
    """What is on record about a task; `open` when nothing is."""
    return next((t.status for t in tasks if t.ref == ref), "open")


def held_back(entry: Entry, tasks: Iterable[Task] | None) -> str | None:
    """Why an agent would not be recovered by itself, as far as its task says; `tasks` None: they cannot be read."""
    ref = entry.task_ref
    if ref is None or entry.parent is None or not (is_live(entry) or isinstance(entry.state, Resumable)):
        return None
    if tasks is None:
        return "Whether its task is blocked or done cannot be read: it is not recovered by itself."
    status = status_of(ref, tasks)
    return None if status == "open" else f"Its task {one_line(ref, 80)} is {status}: it is not recovered by itself."


def with_task(tasks: Sequence[Task], task: Task) -> tuple[Task, ...]:
    """The tasks with this one set, bounded.

    Raises:
        Refused: as many are blocked or done already as can be remembered.
    """
    others = [t for t in tasks if t.ref != task.ref]
    while len(others) >= MAX_TASKS:
        idle = min((t for t in others if t.status == "open"), key=lambda t: t.at, default=None)
        if idle is None:
            raise Refused(
                f"{MAX_TASKS} tasks are blocked or done already", hint="Set some to open: they are then forgotten"
            )
        others.remove(idle)
    return (*others, task)
