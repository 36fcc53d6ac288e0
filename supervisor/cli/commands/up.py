"""`supervisor up`: a whole tree of agents from one file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from supervisor.cli.common import json_option, note, open_context, print_json, say
from supervisor.cli.tmux_launch import check_socket, tmux_socket_option

if TYPE_CHECKING:
    from supervisor.runtime.activation import Activated
    from supervisor.runtime.agent_request import AgentRequest
    from supervisor.runtime.compose import Context
    from supervisor.runtime.intents import Draft
    from supervisor.runtime.starting import Started
    from supervisor.runtime.trees import Tree


@click.command("up", epilog="Example: supervisor up team.toml")
@click.argument("file", required=False, type=click.Path(dir_okay=False))
@click.option("--wait", "wait_for", type=click.Choice(["spawned", "ready"]), help="Return when [default: ready].")
@click.option("--detach", is_flag=True, help="Return when all are up [default without a terminal].")
@click.option("--tmux", is_flag=True, help="Run them in one new tmux window, a pane each.")
@tmux_socket_option
@click.option("--dry-run", is_flag=True, help="Check the file, show the order of starts, and stop.")
@json_option
def command(
    file: str | None,
    wait_for: str | None,
    detach: bool,
    tmux: bool,
    tmux_socket: str | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Start a whole tree of agents from one TOML file [default: supervisor.toml].

    The file is checked whole before the first start. What runs already is left alone, so twenty `up` at once make one
    tree. On a terminal it then is the inbox of that tree, as `supervisor inbox TREE` is: q leaves it, the tree runs on.
    """
    from supervisor.cli.starting import tell_of_clis
    from supervisor.runtime.launching import Launcher
    from supervisor.runtime.scan import scan
    from supervisor.runtime.starting import start_detached
    from supervisor.runtime.trees import DEFAULT_FILE, load_tree, requests, running

    check_socket(tmux_socket, tmux=tmux)
    context = open_context()
    tree = load_tree(file or DEFAULT_FILE, cwd=context.cwd)
    if dry_run:
        seen = scan(context.parts)
        Launcher(context).drafts(requests(context, tree, seen.entries), seen.entries)
        return _dry_run(tree, as_json=as_json)

    if tmux:
        from supervisor.cli.tmux_launch import up_in_tmux

        return up_in_tmux(context, tree, as_json=as_json, socket=tmux_socket)

    def choose(activated: Activated) -> list[AgentRequest]:
        return requests(context, tree, activated.seen.entries)

    def tell(draft: Draft, what: str) -> None:
        if not as_json and what in ("ready", "ended"):
            say(f"{draft.entry.name}: {what}")

    sits = not (detach or wait_for or as_json) and _may_sit(context)
    activated, results = start_detached(
        context, choose, until="spawned" if sits or wait_for == "spawned" else "ready", tell=tell
    )
    before = running(activated.seen.entries, tree.tree_id)
    tell_of_clis(context, [r.entry for r in results])
    if as_json:
        started = [_started(r) for r in results]
        print_json({"tree": tree.tree_id, "alreadyRunning": sorted(before), "started": started})
    elif before:
        say(f"already running: {', '.join(sorted(before))}")
    code = _sit(context, tree.tree_id) if sits else 0
    failed = [r for r in results if not r.reached]
    for result in failed:
        _tell_failure(result)
    return 1 if failed else code


def _may_sit(context: Context) -> bool:
    """A person at a terminal that can show an inbox; what an agent starts is its own business."""
    import sys

    shows = context.env.get("TERM", "dumb") != "dumb" and sys.stdin.isatty() and sys.stdout.isatty()
    return shows and not context.env.get("SUPERVISOR_SESSION_ID")


def _sit(context: Context, tree: str) -> int:
    """The inbox of a tree; the exit code."""
    from supervisor.cli.inbox_view import agents_of, sit
    from supervisor.runtime.attending import Scope
    from supervisor.runtime.trees import running

    if not running(context.store.list(), tree):
        return 0
    code = sit(context, Scope(kind="tree", id=tree, title=f"tree {tree}"), once=False)
    entries = context.store.list()
    for line in agents_of(tree, entries, len(entries) + 3)[1:]:
        say(line)
    if running(entries, tree):
        say(f"The tree runs on. Its inbox: supervisor inbox {tree}; its end: supervisor down {tree}")
    return code


def _started(result: Started) -> dict[str, object]:
    entry = result.entry
    process = entry.generation.process
    return {
        "name": entry.name,
        "entryId": entry.entry_id,
        "sessionId": entry.session_id,
        "pid": process.key.pid if process else None,
        "reached": result.reached,
        "why": result.why,
    }


def _tell_failure(result: Started) -> None:
    from supervisor.core.ending import describe_early

    entry = result.entry
    if entry.hand_off:
        where = "why" if entry.hand_off.outcome == "not_started" else "logs"
        note(f"{entry.name} {describe_early(entry.hand_off)}; see: supervisor {where} {entry.name}")
    elif result.why == "timeout":
        note(f"{entry.name} has not proven itself up in time; see: supervisor why {entry.name}")
    else:
        note(f"{entry.name}: its keeper died while starting it. Run: supervisor reconcile")


def _dry_run(tree: Tree, *, as_json: bool) -> int:
    from supervisor.core.tree_file import start_order

    order = start_order(tree.spec)
    if as_json:
        print_json({"tree": tree.tree_id, "order": order})
    else:
        for name in order:
            spec = tree.spec.agents[name]
            say(f"{name}: {spec.profile}{f' (child of {spec.parent})' if spec.parent else ''}")
    return 0
