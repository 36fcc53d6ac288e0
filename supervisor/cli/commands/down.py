"""`supervisor down`: stop a tree, children first."""

from __future__ import annotations

import click

from supervisor.cli.common import json_option, open_context, print_json


@click.command("down", epilog="Example: supervisor down team.toml")
@click.argument("file", required=False, metavar="[FILE|TREE]")
@click.option(
    "--grace", type=click.FloatRange(0, 600), metavar="S", help="Seconds to end by itself [default: profile]."
)
@json_option
def command(file: str | None, grace: float | None, as_json: bool) -> int:
    """Stop a tree that `up` started, with everything its agents launched, children first.

    FILE may be gone meanwhile; the tree's name serves as well. Survivors are named, the exit code is then 1.
    """
    from supervisor.cli.stopping import report, summary
    from supervisor.runtime.activation import activate
    from supervisor.runtime.stopping import levels, stop_in_order
    from supervisor.runtime.trees import DEFAULT_FILE, find_running

    context = open_context()
    seen = activate(context).seen
    entries = seen.entries
    members = find_running(entries, file or DEFAULT_FILE, cwd=context.cwd)
    results = stop_in_order(
        context,
        levels(entries, members),
        seen=seen,
        grace_ms=None if grace is None else int(grace * 1000),
        tell=(lambda _r: None) if as_json else report,
    )
    if as_json:
        print_json([summary(r) for r in results])
    elif not results:
        click.echo("nothing of it is running")
    return 0 if all(r.ok for r in results) else 1
