"""`--tmux` of `launch`, `up` and `resume`: the keeper is the pane's command, the agent inherits the pane's terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from supervisor.cli.common import note

if TYPE_CHECKING:
    from supervisor.runtime.activation import Activated
    from supervisor.runtime.agent_request import Request
    from supervisor.runtime.compose import Context
    from supervisor.runtime.tmux_trees import InPane
    from supervisor.runtime.trees import Tree


tmux_socket_option = click.option(
    "--tmux-socket", metavar="SOCKET", help="With --tmux: its server, a path (tmux -S) or a name (tmux -L)."
)


def check_socket(socket: str | None, *, tmux: bool) -> None:
    """Raises UsageError: a server is named, and nothing is to run in it."""
    from supervisor.core.errors import UsageError

    if socket is not None and not tmux:
        raise UsageError("--tmux-socket names the server of --tmux", hint="Give both, or none")


def socket_of(context: Context, raw: str | None) -> str | None:
    """The tmux server that was named; None: the one that we are in, else the default one."""
    from supervisor.adapters.tmux import socket_path

    return None if raw is None else socket_path(raw, context.env)


def launch_in_tmux(
    context: Context, choose: Callable[[Activated], Sequence[Request]], *, as_json: bool, socket: str | None = None
) -> int:
    """Open a pane whose command is a keeper in the foreground, and wait until it says what became of it."""
    from supervisor.cli.starting import print_started, tell_of_clis
    from supervisor.runtime.activation import activate
    from supervisor.runtime.panes import open_pane

    (request,) = choose(activate(context))
    entry = open_pane(context, request, socket=socket_of(context, socket))
    print_started(entry, as_json=as_json)
    tell_of_clis(context, [entry])
    if not as_json:
        note(f"go there with: supervisor attach {entry.name}")
    return 0


def up_in_tmux(context: Context, tree: Tree, *, as_json: bool, socket: str | None) -> int:
    """Open one window with a pane for each agent that is missing; 1 when one of them could not be started."""
    from supervisor.cli.common import print_json
    from supervisor.runtime.tmux_trees import up_in_tmux as start

    def tell(found: InPane) -> None:
        if found.why:
            note(f"{found.name}: {found.why}")
        elif not as_json:
            click.echo(f"{found.name}: ready")

    before, done = start(context, tree, socket=socket_of(context, socket), tell=tell)
    if as_json:
        started = [_started(d) for d in done]
        print_json({"tree": tree.tree_id, "alreadyRunning": sorted(before), "started": started})
    elif before:
        click.echo(f"already running: {', '.join(sorted(before))}")
    up = [d.name for d in done if not d.why]
    if up and not as_json:
        note(f"go there with: supervisor attach {up[0]}")
    return 1 if any(d.why for d in done) else 0


def _started(found: InPane) -> dict[str, object]:
    entry = found.entry
    process = entry.generation.process if entry else None
    return {
        "name": found.name,
        "entryId": entry.entry_id if entry else None,
        "sessionId": entry.session_id if entry else None,
        "pid": process.key.pid if process else None,
        "reached": not found.why,
        "why": found.why,
    }
