"""`supervisor ps`: the agents as a table."""

from __future__ import annotations

import click

from supervisor.cli.common import json_option, open_context, print_json


@click.command("ps", epilog="Example: supervisor ps --all --json")
@click.option("--all", "-a", "show_all", is_flag=True, help="Also agents that have ended.")
@json_option
def command(show_all: bool, as_json: bool) -> None:
    """Show the agents as a table: who is alive, by which evidence."""
    from supervisor.cli.seeing import seen_rows, tell_corrupt

    context = open_context(prepare=False)
    rows = seen_rows(context, ended=show_all)
    tell_corrupt(context)
    if as_json:
        print_json(rows)
        return
    from supervisor.cli.render import table

    table(rows)
