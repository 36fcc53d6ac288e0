"""`supervisor asks`: the asks that wait, or their history."""

from __future__ import annotations

import gc
import sys

import click

from supervisor.cli.common import complete_asks, json_option, open_context, print_json, print_json_line


@click.command("asks", epilog="Example: supervisor asks --json")
@click.argument("ask_id", metavar="[ASK]", required=False, shell_complete=complete_asks)
@click.option("--log", "history", is_flag=True, help="The history: what was asked, passed on, answered, abandoned.")
@json_option
def command(ask_id: str | None, history: bool, as_json: bool) -> None:
    """Show the asks that wait, oldest first; one of them in full; or, with --log, what became of earlier ones."""
    from supervisor.cli.asking import full_text, summary
    from supervisor.core.text import one_line, span
    from supervisor.runtime.deciding import Desk

    context = open_context()
    gc.disable()  # ten thousand asks live to the end of this process anyway
    if history:
        return _history(context.asks.review.read(), ask_id, as_json=as_json)
    desk = Desk(context.parts, context.asks)
    entries = context.store.list()
    if ask_id is not None:
        item = desk.find(ask_id)
        print_json(summary(item, entries)) if as_json else click.echo(full_text(item, entries))
        return None
    waiting = [p for p in desk.pending() if not p.asker_dead]
    if as_json:
        print_json([summary(p, entries) for p in waiting])
        return None
    for item in waiting:
        data = summary(item, entries)
        looked = "looked at" if item.looked_by else "waiting"
        cells = (item.request.id, span(item.age_ms), looked, " > ".join(data["lineage"]), data["tool"], data["value"])
        sys.stdout.write("\t".join(one_line(str(c), 160) for c in cells) + "\n")
    return None


def _history(events: object, ask_id: str | None, *, as_json: bool) -> None:
    from collections.abc import Iterable

    from supervisor.core.text import one_line
    from supervisor.runtime.ask_why import local_time

    assert isinstance(events, Iterable)
    for event in events:
        if ask_id is not None and not str(event.get("ask", "")).startswith(ask_id):
            continue
        if as_json:
            print_json_line(event)
        else:
            rest = {k: v for k, v in event.items() if k not in ("at", "event", "ask") and v not in (None, [], "")}
            detail = " ".join(f"{k}={_plain(v)}" for k, v in rest.items())
            cells = (local_time(event.get("at")), str(event.get("event", "")), str(event.get("ask", "-")), detail)
            sys.stdout.write("\t".join(one_line(c, 400) for c in cells) + "\n")


def _plain(value: object) -> str:
    """A field without the marks of its type: `user root`, `yes`, `a,b`."""
    if isinstance(value, dict):
        return " ".join(_plain(v) for k, v in value.items() if k != "reason" and v is not None)
    if isinstance(value, list):
        return ",".join(_plain(v) for v in value)
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
