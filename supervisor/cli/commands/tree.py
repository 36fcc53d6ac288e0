"""`supervisor tree`: who is whose child, and who is alive."""

from __future__ import annotations

import click

from supervisor.cli.common import complete_agents, json_option, open_context, print_json


@click.command("tree", epilog="Example: supervisor tree lead --all")
@click.argument("agent_id", metavar="[ID]", required=False, shell_complete=complete_agents)
@click.option("--all", "-a", "show_all", is_flag=True, help="Also agents that have ended.")
@json_option
def command(agent_id: str | None, show_all: bool, as_json: bool) -> None:
    """Show the agents as a tree, or the part below one.

    An ended parent of live children stays visible, so that orphans are seen where they belong.
    """
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
        return
    from supervisor.cli.render import tree

    tree(nodes, by_id)
