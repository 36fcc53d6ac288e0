"""Plain tables for people: aligned and coloured on a terminal, tab-separated lines when piped. Strips control bytes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from supervisor.core.text import one_line

_WIDEST = 400  # a path is at most 4096 bytes, but nobody reads that in a table


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, colours: Mapping[str, str] | None = None
) -> None:
    """One line per row. `colours` by the whole text of a cell; no header line when `columns` are empty."""
    lines = [[one_line(cell, _WIDEST) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for line in [list(columns), *lines] if columns else lines:
            sys.stdout.write("\t".join(line) + "\n")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = max((len(line) for line in lines), default=len(columns))
    out = Table(box=None, pad_edge=False, header_style="bold", show_header=bool(columns))
    for number in range(width):
        last = number == width - 1
        out.add_column(columns[number] if columns else "", no_wrap=not last and number != width - 2, overflow="fold")
    for line in lines:
        out.add_row(*(Text(cell, style=(colours or {}).get(cell, "")) for cell in line))
    Console().print(out)
