"""The command of a tmux pane (not for people): the keeper of the one agent that was asked for."""

from __future__ import annotations

import click


@click.command("_pane", hidden=True)
@click.argument("home")
@click.argument("number")
def command(home: str, number: str) -> int:
    """Be the keeper of the agent in this pane."""
    from supervisor.core.ending import exit_status
    from supervisor.runtime.compose import Context, from_environment
    from supervisor.runtime.panes import be_pane

    here = from_environment()
    entry = be_pane(lambda env: Context(env, cwd=here.cwd), dict(here.env), home, number)
    return exit_status(entry.hand_off) if entry.hand_off else 0
