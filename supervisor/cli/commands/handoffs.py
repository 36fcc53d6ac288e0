"""`supervisor handoffs`: ends of agents that their parents have not been told of."""

from __future__ import annotations

import click

from supervisor.cli.common import json_option, open_context, print_json


@click.command("handoffs", epilog="Example: supervisor handoffs")
@json_option
def command(as_json: bool) -> None:
    """Show the ends that wait to be delivered: each to the session that launched the agent, when that is resumed."""
    from supervisor.cli.tables import print_table
    from supervisor.core.ending import describe
    from supervisor.core.handoffs import undelivered
    from supervisor.core.text import span

    context = open_context(prepare=False)
    entries = context.store.list() if context.places.exists() else ()
    names = {e.session_id: e.name for e in entries}
    now = context.clock.wall_ms()
    waiting = undelivered(entries)
    if as_json:
        print_json(
            [
                {
                    "name": e.name,
                    "entryId": e.entry_id,
                    "sessionId": e.session_id,
                    "parentSessionId": e.parent.session_id if e.parent else None,
                    "parent": names.get(e.parent.session_id) if e.parent else None,
                    "handOff": e.hand_off,
                }
                for e in waiting
            ]
        )
        return
    rows = [
        (
            e.name,
            names.get(e.parent.session_id, e.parent.session_id) if e.parent else "",
            span(now - e.hand_off.observed_at),
            describe(e.hand_off),
        )
        for e in waiting
        if e.hand_off
    ]
    print_table(("NAME", "FOR", "AGO", "END"), rows)
