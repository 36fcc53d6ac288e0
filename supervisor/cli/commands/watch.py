"""`supervisor watch`: what happens, live on a terminal, one event a line when piped."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from supervisor.cli.common import complete_agents, json_option, open_context, print_json_line

if TYPE_CHECKING:
    from supervisor.core.events import Event
    from supervisor.runtime.compose import Context
    from supervisor.runtime.scan import Scan
    from supervisor.runtime.views import Row


@click.command("watch", epilog="Example: supervisor watch --json")
@click.argument("agent_id", metavar="[ID]", required=False, shell_complete=complete_agents)
@click.option("--all", "-a", "show_all", is_flag=True, help="Also agents that have ended.")
@click.option("--events", is_flag=True, help="One event per line, also on a terminal.")
@json_option
def command(agent_id: str | None, show_all: bool, events: bool, as_json: bool) -> int:
    """Follow what happens to all agents, or to one and what is below it.

    On a terminal a live tree, beneath it each tmux server that is gone, with what to do; piped, or with --json or
    --events, one event per line. Ends with Ctrl-C.
    """
    from supervisor.runtime.activation import activate

    context = open_context()
    activate(context)
    looks = _looks(context, agent_id)
    try:
        if as_json or events or not sys.stdout.isatty():
            _lines(context, looks, ended=show_all, as_json=as_json)
        else:
            _live(context, looks, ended=show_all)
    except KeyboardInterrupt:  # the usual way out of a live view
        return 130
    return 0


def _looks(context: Context, agent_id: str | None) -> Iterator[Scan]:
    """A scan at once, then whenever something changed, and at least at every heartbeat."""
    from supervisor.adapters.changes import FolderChanges
    from supervisor.core.resolve import resolve
    from supervisor.core.timing import HEARTBEAT_REFRESH_MS, TICK_MS
    from supervisor.core.tree import forest, subtree, walk
    from supervisor.runtime.scan import Scan, Sightings, scan

    folder = FolderChanges(context.places.matrix)
    sightings: Sightings = {}
    wanted = resolve(agent_id, context.store.list()).entry_id if agent_id else None
    try:
        while True:
            seen = scan(context.parts, sightings)
            if wanted is not None:
                node = subtree(forest(seen.entries), wanted)
                kept = [n.entry for _, n in walk([node])] if node else []
                seen = Scan(kept, seen.judgements, seen.beats)
            yield seen
            folder.wait((HEARTBEAT_REFRESH_MS if folder.watching else TICK_MS) / 1000)
    finally:
        folder.close()


def _news(context: Context, looks: Iterator[Scan]) -> Iterator[tuple[Scan, list[Row], list[Event]]]:
    """Each look as rows, and with what has happened since the one before; a tmux server that is gone is one event."""
    from supervisor.adapters.tmux import server_alive
    from supervisor.core.events import changes
    from supervisor.runtime.server_losses import ServerLosses
    from supervisor.runtime.views import rows

    before: dict[str, Row] | None = None
    losses = ServerLosses(lambda socket: server_alive(socket, env=context.env))
    for seen in looks:
        now, at = rows(context.parts, seen), context.clock.wall_ms()
        yield seen, now, losses.take(changes(before, now, now=at), seen.entries, now=at)
        before = {r.entry_id: r for r in now}


def _lines(context: Context, looks: Iterator[Scan], *, ended: bool, as_json: bool) -> None:
    from supervisor.core.events import has_ended
    from supervisor.core.text import one_line

    for _, now, events in _news(context, looks):
        over = {r.entry_id for r in now if has_ended(r)}
        for event in events:
            if event.what == "seen" and event.entry_id in over and not ended:
                continue
            if as_json:
                print_json_line(event)
            else:
                line = (event.what, event.name, event.status, event.verdict, str(event.pid or "-"), event.detail)
                sys.stdout.write("\t".join(one_line(c) for c in line) + "\n")
                sys.stdout.flush()


def _live(context: Context, looks: Iterator[Scan], *, ended: bool) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from supervisor.cli.render import rich_losses, rich_tree, tree_lines
    from supervisor.cli.seeing import with_tombstones
    from supervisor.core.tree import forest
    from supervisor.runtime.scan import Scan
    from supervisor.runtime.server_losses import still_gone
    from supervisor.runtime.views import rows

    gone: list[Event] = []
    with Live(refresh_per_second=4, screen=False) as live:
        for seen, _, events in _news(context, looks):
            gone = still_gone([*gone, *events], seen.entries)
            kept = seen.entries if ended else with_tombstones(seen.entries)
            by_id = {r.entry_id: r for r in rows(context.parts, Scan(kept, seen.judgements, seen.beats))}
            alive = sum(r.verdict == "alive" for r in by_id.values())
            head = Text(f"{alive} alive of {len(by_id)}", style="bold")
            live.update(Group(head, rich_tree(tree_lines(forest(kept), by_id)), *rich_losses(gone)))
