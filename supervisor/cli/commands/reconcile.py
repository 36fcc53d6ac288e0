"""`supervisor reconcile`: apply the reconcile plan once, and say what it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from supervisor.cli.common import json_option, open_context, print_json, say

if TYPE_CHECKING:
    from supervisor.core.entry import Entry


@click.command("reconcile", epilog="Example: supervisor reconcile")
@json_option
def command(as_json: bool) -> None:
    """Repair the records once.

    Live agents whose keeper is gone get a new one, records of processes that are provably dead are closed or made
    resumable, and what nobody needs any more is removed. No process is signalled. Running it twice is running it once.
    """
    from supervisor.cli.seeing import tell_corrupt
    from supervisor.core.reconcile import Change
    from supervisor.runtime.activation import activate
    from supervisor.runtime.ask_sweep import sweep_dead
    from supervisor.runtime.panes import sweep_requests

    context = open_context()
    sweep_requests(context)
    sweep_dead(context.parts, context.asks)
    done = activate(context)
    tell_corrupt(context)
    lines: list[tuple[str, Entry, str]] = [("attached", a.entry, a.why) for a in done.attached]
    for action in done.changed:
        what = str(action.after.status) if isinstance(action, Change) else "removed"
        lines.append((what, action.entry, action.why))
    if as_json:
        print_json([{"what": w, "name": e.name, "entryId": e.entry_id, "why": why} for w, e, why in lines])
        return
    for what, entry, why in lines:
        say(f"{entry.name}: {what} ({why})")
    if not lines:
        click.echo("nothing to repair")
