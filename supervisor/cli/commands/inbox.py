"""`supervisor inbox`: answer asks as they come; one event a line when piped."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from supervisor.cli.common import complete_agents, json_option, open_context, print_json_line

if TYPE_CHECKING:
    from supervisor.core.entry import Entry
    from supervisor.runtime.attending import Scope
    from supervisor.runtime.compose import Context
    from supervisor.runtime.deciding import Pending


@click.command("inbox", epilog="Example: supervisor inbox lead")
@click.argument("wanted", metavar="[ID|TREE]", required=False, shell_complete=complete_agents)
@click.option("--once", is_flag=True, help="Handle what waits now, then leave.")
@json_option
def command(wanted: str | None, once: bool, as_json: bool) -> int:
    """Answer the asks of all agents, of one agent's children, or of one tree, as they come.

    While it is open, agents know that somebody is there to decide, and their asks wait. The oldest ask is on the
    screen: a allows, d denies, r denies with a reason, ? shows all keys, q leaves. Without a terminal, or with --json,
    it prints a line for each ask that appears or goes, and answers nothing.
    """
    from supervisor.core.errors import Refused
    from supervisor.runtime.activation import activate

    context = open_context()
    activate(context)
    scope = _scope(context, wanted)
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return _lines(context, scope, once=once)
    if context.env.get("TERM", "dumb") == "dumb":
        raise Refused(
            "this terminal (TERM=dumb) cannot show an inbox",
            hint="Use: supervisor asks, and supervisor answer ID allow|deny",
        )
    from supervisor.cli.inbox_view import sit
    from supervisor.runtime.agent_answers import calling_agent

    caller = calling_agent(context, context.store.list())
    if caller is not None:
        raise Refused(
            f"an inbox is a person's, and this terminal is inside agent {caller.name}",
            hint="It may answer its descendants by: supervisor answer ID allow|deny",
        )
    return sit(context, scope, once=once)


def _scope(context: Context, wanted: str | None) -> Scope:
    """An agent by its exact name or id, else a tree, else an agent by a prefix."""
    from supervisor.core.entry import is_live
    from supervisor.core.errors import NotFound, Refused
    from supervisor.core.resolve import resolve
    from supervisor.runtime.attending import Scope

    if wanted is None:
        return Scope()
    entries = context.store.list()
    exact = any(wanted in (e.name, e.session_id, e.entry_id) for e in entries)
    tree = None if exact else _tree(context, wanted)
    if tree is not None:
        return Scope(kind="tree", id=tree, title=f"tree {tree}")
    try:
        entry = resolve(wanted, entries)
    except NotFound as error:
        raise NotFound(f"{error.message}, and no running tree", hint=error.hint) from None
    if not is_live(entry):
        raise Refused(f"{entry.name} has ended, nobody asks it", hint="See: supervisor ps")
    return Scope(kind="agent", id=entry.entry_id, title=entry.name, session=entry.session_id)


def _tree(context: Context, wanted: str) -> str | None:
    from supervisor.core.errors import NotFound
    from supervisor.runtime.trees import find_running

    try:
        members = find_running(context.store.list(), wanted, cwd=context.cwd)
    except NotFound:
        return None
    return members[0].tree if members else None


def _lines(context: Context, scope: Scope, *, once: bool) -> int:
    from supervisor.cli.asking import summary
    from supervisor.runtime.inbox import follow

    def tell(event: str, item: Pending, entries: Sequence[Entry], why: str) -> None:
        print_json_line({"event": event, **summary(item, entries), **({"why": why} if why else {})})

    return follow(context.parts, context.asks, scope, tell, once=once, out=sys.stdout.fileno())
