"""`supervisor task`: say whether a task is still to be worked on."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from supervisor.cli.common import json_option, open_context, print_json

if TYPE_CHECKING:
    from supervisor.core.tasks import TaskStatus


@click.group("task", epilog="Example: supervisor task set GOAL-7 blocked")
def command() -> None:
    """Tasks that agents were launched for (`launch --task-ref`): a blocked or done one is not resumed by itself."""


@command.command("set", epilog="Example: supervisor task set GOAL-7 done")
@click.argument("ref")
@click.argument("status", type=click.Choice(["open", "blocked", "done"]))
def set_task(ref: str, status: str) -> None:
    """Set the status of a task.

    While it is blocked or done, `recover` adopts and resumes none of its agents by itself. Running ones go on.
    """
    from supervisor.core.tasks import task_ref

    context = open_context()
    wanted = cast("TaskStatus", status)
    context.tasks.set(task_ref(ref), wanted, now=context.clock.wall_ms())


@command.command("list", epilog="Example: supervisor task list --json")
@json_option
def list_tasks(as_json: bool) -> None:
    """Show the tasks that have been set, and those of agents on record, with their agents."""
    from supervisor.cli.tables import print_table
    from supervisor.runtime.task_list import task_rows

    rows = task_rows(open_context(prepare=False))
    if as_json:
        print_json(rows)
        return
    print_table(("TASK", "STATUS", "AGENTS"), [(r.ref, r.status, ", ".join(r.agents)) for r in rows])
