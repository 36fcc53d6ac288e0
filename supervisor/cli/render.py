"""Rows for people: rich tables and trees on a terminal, tab-separated lines when piped. Strips control bytes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from supervisor.core.text import one_line, span

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from supervisor.core.events import Event
    from supervisor.core.tree import Node
    from supervisor.runtime.views import Row

COLUMNS = ("NAME", "ROLE", "STATE", "VERDICT", "PROFILE", "PID", "AGE", "BEAT", "TASK", "EVIDENCE")
COLOURS = {"alive": "green", "stale": "yellow", "dead_pid": "red", "unknown": "magenta", "absent": "dim"}


def cells(row: Row) -> tuple[str, ...]:
    """One row's cells, harmless and on one line."""
    state = row.status if row.want == "up" or row.status not in ("running", "starting") else f"{row.status}↓"
    if row.status == "running" and not row.ready:
        state = "running (not ready)"
    if row.adoptable_until is not None:
        state = "resumable (orphan)"
    return (
        one_line(row.name, 64),
        row.role,
        state,
        row.verdict,
        one_line(row.profile, 32),
        str(row.pid or "-"),
        span(row.age_ms),
        span(row.beat_age_ms) if row.beat_age_ms is not None else "-",
        one_line(row.task_ref or row.task_summary or "-", 40),
        one_line(row.end or (f"orphan ({row.orphan}); {row.evidence}" if row.orphan else row.evidence), 140),
    )


def table(rows: Sequence[Row]) -> None:
    """The table of `ps`."""
    if not sys.stdout.isatty():
        for line in (COLUMNS, *map(cells, rows)):
            sys.stdout.write("\t".join(line) + "\n")
        return
    from rich.console import Console

    Console().print(rich_table(rows))


def rich_table(rows: Sequence[Row]) -> Table:
    """The same with colours."""
    from rich.table import Table
    from rich.text import Text

    out = Table(box=None, pad_edge=False, header_style="bold")
    for column in COLUMNS:
        out.add_column(column, no_wrap=column != "EVIDENCE", overflow="ellipsis" if column != "EVIDENCE" else "fold")
    for row in rows:
        values = cells(row)
        out.add_row(*(Text(v, style=COLOURS.get(row.verdict, "") if i == 3 else "") for i, v in enumerate(values)))
    return out


def tree_lines(nodes: Sequence[Node], rows: dict[str, Row]) -> list[tuple[str, Row]]:
    """(indented name, row) in order; the branches drawn with plain line characters."""
    out: list[tuple[str, Row]] = []

    def walk(node: Node, prefix: str, branch: str, below: str) -> None:
        row = rows[node.entry.entry_id]
        out.append((prefix + branch + one_line(row.name, 64), row))
        for number, child in enumerate(node.children):
            last = number == len(node.children) - 1
            walk(child, prefix + below, "└─ " if last else "├─ ", "   " if last else "│  ")

    for node in nodes:
        walk(node, "", "", "")
    return out


def tree(nodes: Sequence[Node], rows: dict[str, Row]) -> None:
    """The tree of `tree`."""
    lines = tree_lines(nodes, rows)
    if not sys.stdout.isatty():
        for name, row in lines:
            sys.stdout.write("\t".join((name, *cells(row)[1:])) + "\n")
        return
    from rich.console import Console

    Console().print(rich_tree(lines))


def rich_tree(lines: Sequence[tuple[str, Row]]) -> Table:
    """The tree as an aligned, coloured grid."""
    from rich.table import Table
    from rich.text import Text

    out = Table(box=None, pad_edge=False, show_header=False)
    for name, row in lines:
        _, role, state, verdict, profile, pid, age, beat, task, evidence = cells(row)
        out.add_row(
            Text(name, style="bold"),
            Text(verdict, style=COLOURS.get(verdict, "")),
            Text(state),
            Text(profile, style="cyan"),
            Text(f"pid {pid}"),
            Text(age, style="dim"),
            Text("" if task == "-" else task),
            Text(evidence, style="dim"),
        )
    return out


def rich_losses(gone: Sequence[Event]) -> list[Text]:
    """The tmux servers that are gone, a line each, with what to do."""
    from rich.text import Text

    return [Text(f"{e.name}: {e.detail}", style="bold red") for e in gone]
