"""`supervisor attach`: go to the tmux pane of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import click

from supervisor.cli.common import agent_argument, open_context

if TYPE_CHECKING:
    from supervisor.core.entry import Entry


@click.command("attach", epilog="Example: supervisor attach lead")
@agent_argument()
def command(agent_id: str) -> None:
    """Go to an agent's tmux pane: inside tmux the client switches to it, outside tmux is started.

    An agent that runs detached has no terminal; `supervisor logs -f NAME` follows it.
    """
    import sys

    from supervisor.adapters import tmux
    from supervisor.core.entry import is_live
    from supervisor.core.errors import Refused
    from supervisor.core.resolve import resolve

    context = open_context(prepare=False)
    entry = resolve(agent_id, context.store.list())
    pane, socket = entry.terminal.pane, entry.terminal.socket
    if entry.terminal.kind != "tmux" or pane is None:
        _refuse(entry)
    if (pid := tmux.pane_pid(pane, socket, env=context.env)) is None:
        if is_live(entry) and not tmux.server_alive(socket, env=context.env):
            raise Refused(f"{entry.name}: the tmux server is gone", hint="Run: supervisor reconcile")
        if is_live(entry):
            raise Refused(f"{entry.name}: its tmux pane {pane} is gone", hint=f"See: supervisor why {entry.name}")
        _refuse(entry)
    if pid != entry.keeper.process.key.pid:  # a restarted server gives pane ids anew
        raise Refused(f"{entry.name}: tmux pane {pane} is another one now", hint="Run: supervisor reconcile")
    inside = tmux.is_inside(socket, context.env)
    if inside is None:
        raise Refused(
            f"{entry.name} is in another tmux server than this terminal",
            hint=f"Detach first, or run: env -u TMUX tmux -S '{socket}' attach-session -t '{pane}'",
        )
    if not inside and not sys.stdin.isatty():
        raise Refused("standard input is no terminal, tmux needs one", hint="Run it from a terminal")
    tmux.attach(pane, socket, inside, env=context.env)


def _refuse(entry: Entry) -> NoReturn:
    from supervisor.core.ending import describe
    from supervisor.core.entry import is_live
    from supervisor.core.errors import Refused

    name = entry.name
    if not is_live(entry):
        end = f" ({describe(entry.hand_off)})" if entry.hand_off else ""
        how = "logs" if entry.output.transcript else "show"
        raise Refused(f"{name} has ended{end}", hint=f"See: supervisor {how} {name}")
    if entry.enrolled:
        raise Refused(f"{name} was enrolled while it ran", hint="It is where it was started")
    if entry.terminal.kind == "foreground":
        pid = entry.keeper.process.key.pid
        raise Refused(f"{name} runs in the foreground of another terminal (its keeper is pid {pid})", hint="Go there")
    raise Refused(f"{name} runs detached", hint=f"`supervisor logs -f {name}` follows it")
