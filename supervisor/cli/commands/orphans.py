"""`supervisor orphans`: the live agents whose parent is gone."""

from __future__ import annotations

import click

from supervisor.cli.common import json_option, open_context, print_json


@click.command("orphans", epilog="Example: supervisor orphans --json")
@json_option
def command(as_json: bool) -> None:
    """List live agents whose parent is gone, with the evidence and how long they may be adopted. Changes nothing."""
    from supervisor.cli.seeing import seen_rows, tell_corrupt

    context = open_context(prepare=False)
    rows = [r for r in seen_rows(context, ended=True) if r.orphan is not None and r.verdict != "dead_pid"]
    tell_corrupt(context)
    if as_json:
        print_json(rows)
        return
    from supervisor.cli.orphans import table

    table(rows, now=context.clock.wall_ms())
