"""`supervisor tree`: who is whose child, and who is alive."""

from __future__ import annotations

import click

from supervisor.cli.common import complete_agents, json_option, open_context, print_json, say


@click.command("tree", epilog="Example: supervisor tree lead --all")
@click.argument("agent_id", metavar="[ID]", required=False, shell_complete=complete_agents)
@click.option("--all", "-a", "show_all", is_flag=True, help="Also agents that have ended.")
@click.option("--discover", is_flag=True, help="Show agent processes that nobody launched through supervisor instead.")
@json_option
def command(agent_id: str | None, show_all: bool, discover: bool, as_json: bool) -> None:
    """Show the agents as a tree, or the part below one.

    An ended parent of live children stays visible, so that orphans are seen where they belong.
    """
    if discover:
        return _discover(agent_id, as_json=as_json)
    from supervisor.cli.seeing import look, tell_corrupt, with_tombstones
    from supervisor.core.errors import NotFound
    from supervisor.core.resolve import resolve
    from supervisor.core.tree import Node, forest, subtree
    from supervisor.runtime.scan import Scan
    from supervisor.runtime.views import Row, rows

    context = open_context(prepare=False)
    seen = look(context)
    tell_corrupt(context)
    kept = seen.entries if show_all else with_tombstones(seen.entries)
    nodes = forest(kept)
    if agent_id is not None:
        wanted = resolve(agent_id, seen.entries)
        node = subtree(forest(seen.entries), wanted.entry_id) if wanted not in kept else subtree(nodes, wanted.entry_id)
        if node is None:
            raise NotFound(f"there is no agent {agent_id!r}")
        nodes, kept = (node,), seen.entries
    by_id = {r.entry_id: r for r in rows(context.parts, Scan(kept, seen.judgements, seen.beats))} if kept else {}
    if as_json:

        def data(node: Node) -> dict[str, object]:
            import msgspec

            row: Row = by_id[node.entry.entry_id]
            return {**msgspec.to_builtins(row), "children": [data(c) for c in node.children]}

        print_json([data(n) for n in nodes])
        return None
    from supervisor.cli.render import tree

    return tree(nodes, by_id)


def _discover(agent_id: str | None, *, as_json: bool) -> None:
    """Processes of this user that run an agent's program and are no recorded agent's. Looks only."""
    from supervisor.core.errors import UsageError
    from supervisor.runtime.discovering import discover

    if agent_id is not None:
        raise UsageError("--discover takes no ID")
    context = open_context(prepare=False)
    found = discover(context, context.store.list())
    if as_json:
        import msgspec

        print_json([{**msgspec.to_builtins(f), "toDo": f"supervisor enroll --pid {f.pid}"} for f in found])
        return
    for agent in found:
        say(f"{agent.profile} · pid {agent.pid} · {agent.program} · in {agent.cwd or '(unreadable)'}")
        click.echo(f"  to have its children recorded below it: supervisor enroll --pid {agent.pid}")
    if not found:
        click.echo("every agent process of yours is on record, or none runs")
