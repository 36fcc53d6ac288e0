"""`supervisor adopt`: a new parent for an agent that has lost its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from supervisor.cli.common import agent_argument, complete_agents, json_option, open_context, print_json, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from supervisor.core.entry import Entry
    from supervisor.runtime.compose import Context


@click.command("adopt", epilog="Example: supervisor adopt tests --as lead")
@agent_argument()
@click.option(
    "--as",
    "by",
    metavar="SESSION",
    shell_complete=complete_agents,
    help="The new parent: name or id of a running agent [default: the agent that this runs in].",
)
@json_option
def command(agent_id: str, by: str | None, as_json: bool) -> None:
    """Become the parent of a live orphan.

    Nothing is started or ended. Asks that wait move to the new parent; what the old one had allowed does not count any
    more. Of several who adopt one wins, and the others are told.
    """
    from supervisor.core.entry import Adopted, Entry
    from supervisor.core.fences import refusal
    from supervisor.core.resolve import resolve
    from supervisor.runtime.activation import activate
    from supervisor.runtime.adopting import adopt, await_taken_up

    context = open_context()
    seen = activate(context).seen
    orphan = resolve(agent_id, seen.entries)
    parent = _parent(context, by, seen.entries)
    result = adopt(context.parts, orphan, parent, seen=seen)
    if not isinstance(result, Entry):
        raise refusal(result, f"can't adopt {orphan.name}")
    entry = await_taken_up(context.parts, result)
    if as_json:
        print_json(entry)
        return
    say(f"{entry.name}: its parent is now {parent.name}")
    if isinstance(entry.state, Adopted):
        say(f"{entry.name}: its keeper (pid {entry.keeper.process.key.pid}) has not taken that up yet")


def _parent(context: Context, by: str | None, entries: Sequence[Entry]) -> Entry:
    from supervisor.core.errors import UsageError
    from supervisor.core.resolve import resolve
    from supervisor.runtime.parentage import from_environment

    if by is not None:
        return resolve(by, entries)
    found = from_environment(context, entries)
    if found.inside is None:
        raise UsageError("say who adopts it: this command runs inside no agent", hint="Give --as NAME")
    return found.inside
