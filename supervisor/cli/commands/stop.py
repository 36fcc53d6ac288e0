"""`supervisor stop`: end agents with everything they started, verified."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from supervisor.cli.common import agent_argument, json_option, note, open_context, print_json

if TYPE_CHECKING:
    from supervisor.core.entry import Entry


@click.command("stop", epilog="Example: supervisor stop lead --cascade --grace 5")
@agent_argument(many=True)
@click.option("--cascade", is_flag=True, help="Also the agents that it launched, children first.")
@click.option(
    "--grace", type=click.FloatRange(0, 600), metavar="S", help="Seconds to end by itself [default: profile]."
)
@json_option
def command(ids: tuple[str, ...], cascade: bool, grace: float | None, as_json: bool) -> int:
    """Stop agents: the profile's stop signal, then, after the grace, everything that is left of the tree is killed.

    Survivors are named and the exit code is then 1. Agents launched by a stopped one live on as orphans, unless
    --cascade: `adopt` gives them a new parent, else they are ended after a grace.
    """
    from supervisor.cli.stopping import report, summary
    from supervisor.core.resolve import resolve
    from supervisor.runtime.activation import activate
    from supervisor.runtime.stopping import by_depth, levels, stop_in_order

    context = open_context()
    seen = activate(context).seen
    entries = seen.entries
    roots = [resolve(i, entries) for i in ids]
    groups = levels(entries, roots) if cascade else by_depth(roots)
    results = stop_in_order(
        context,
        groups,
        seen=seen,
        grace_ms=None if grace is None else int(grace * 1000),
        tell=(lambda _r: None) if as_json else report,
    )
    if as_json:
        print_json([summary(r) for r in results])
    elif not cascade:
        _tell_children(entries, {r.session_id for r in roots})
    return 0 if all(r.ok for r in results) else 1


def _tell_children(entries: Sequence[Entry], sessions: set[str]) -> None:
    from supervisor.core.entry import is_live

    left = [e.name for e in entries if is_live(e) and e.parent and e.parent.session_id in sessions]
    left = [n for n in left if n not in {e.name for e in entries if e.session_id in sessions}]
    if left:
        note(
            f"its children live on as orphans: {', '.join(left)} (`supervisor adopt` gives one a new parent, "
            "--cascade stops them too)"
        )
