"""`supervisor recover`: bring back what a crash has left behind."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

import click

from supervisor.cli.common import complete_agents, json_option, open_context

if TYPE_CHECKING:
    from supervisor.core.entry import Entry
    from supervisor.runtime.compose import Context
    from supervisor.runtime.scan import Scan


@click.command("recover", epilog="Examples: supervisor recover   |   supervisor recover --as lead --yes-exact-only")
@click.option(
    "--as", "session", metavar="ID", shell_complete=complete_agents, help="In whose session [default: who runs this]."
)
@click.option("--yes-exact-only", is_flag=True, help="Ask nothing: recover that session's own, tell of the rest.")
@click.option("--tmux", is_flag=True, help="Bring back what a tmux server has taken along, in tmux.")
@click.option("--silent", is_flag=True, hidden=True, help="Nobody hears: say nothing, and note no end as told.")
@json_option
def command(session: str | None, yes_exact_only: bool, tmux: bool, silent: bool, as_json: bool) -> int:
    """Bring back what a crash has left behind.

    The records are repaired once. The session's own agents come back by themselves: a live one is adopted again, a dead
    one resumed. All others are offered one at a time on a terminal, and else told of in a line each. Nothing that is
    found is ever killed.
    """
    from supervisor.cli.recovering import exit_code, say, say_json
    from supervisor.runtime.activation import activate
    from supervisor.runtime.recovering import Recovery, recover_own

    context = open_context()
    activated = activate(context)
    if tmux:
        return _in_tmux(context, activated.seen, as_json=as_json)
    active = _active(context, session, activated.seen)
    tell = None if silent else say_json if as_json else say
    recovery = Recovery(context, active, tell)
    others = recovery.run(activated)
    for resumed in recovery.resumed:
        recovery.events += recover_own(context, resumed, tell)
    asks = not (yes_exact_only or as_json) and sys.stdin.isatty() and sys.stdout.isatty()
    if asks and others:
        from supervisor.cli.recovering import offer_all

        with contextlib.suppress(click.Abort):  # what was answered is done
            offer_all(context, recovery, others)
    else:
        for found in others:
            recovery.offer(found)
    if not (recovery.events or others or as_json):
        click.echo("nothing to recover")
    return exit_code(recovery.events)


def _in_tmux(context: Context, seen: Scan, *, as_json: bool) -> int:
    """Those that were last hung up on together, each in a pane of the server that it was in."""
    from supervisor.cli.recovering import exit_code, say, say_json
    from supervisor.runtime.tmux_recovery import recover_in_tmux

    events = recover_in_tmux(context, seen.entries, say_json if as_json else say)
    if not events and not as_json:
        click.echo("nothing to recover in tmux")
    return exit_code(events)


def _active(context: Context, wanted: str | None, seen: Scan) -> Entry | None:
    """The agent in whose session this is done; None for a person at a shell.

    Raises:
        NotFound: no agent of that name.
    """
    from supervisor.core.resolve import resolve
    from supervisor.runtime.parentage import from_environment

    return resolve(wanted, seen.entries) if wanted is not None else from_environment(context, seen.entries).inside
