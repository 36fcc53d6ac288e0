"""The table of orphans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from supervisor.runtime.views import Row


def table(rows: Sequence[Row], *, now: int) -> None:
    """One line an orphan: how long it may be adopted, its task, and why its parent is held to be gone."""
    import click

    from supervisor.cli.tables import print_table
    from supervisor.core.text import span

    if not rows:
        click.echo("no orphans")
        return
    left = [span(max(r.adoptable_until - now, 0)) if r.adoptable_until is not None else "-" for r in rows]
    print_table(
        ("NAME", "STATE", "VERDICT", "LEFT", "TASK", "PARENT"),
        [
            (r.name, r.status, r.verdict, until, r.task_ref or r.task_summary or "-", r.orphan or "")
            for r, until in zip(rows, left, strict=True)
        ],
    )
