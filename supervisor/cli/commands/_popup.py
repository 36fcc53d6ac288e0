"""The command of a tmux popup (not for people): says that an ask waits, and is the inbox once that was wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from supervisor.runtime.compose import Context

DEAF_S = 1.0
"""Who was typing when the popup came has typed into it: within this time every key makes it leave."""

_LOOK_S = 0.5


@click.command("_popup", hidden=True)
@click.argument("home")
@click.argument("session")
def command(home: str, session: str) -> int:
    """Enter opens the inbox; any other key leaves, and the ask goes on waiting."""
    import sys

    from supervisor.adapters.own_process import become
    from supervisor.core.text import one_line
    from supervisor.runtime.compose import Context, from_environment
    from supervisor.runtime.deciding import Desk

    here = from_environment()
    context = Context({**here.env, "SUPERVISOR_HOME": home}, cwd=here.cwd)
    waiting = Desk(context.parts, context.asks).pending([session])
    if not waiting:
        return 0
    ask = waiting[0].request
    click.echo(f"{one_line(ask.agent_name, 40)} asks to use {one_line(ask.surface or 'a tool', 40)}.\n")
    if _wanted(context, session, sys.stdin.fileno()):
        become(context.self_argv("inbox", session, "--once"), context.env)
    return 0


def _wanted(context: Context, session: str, fd: int) -> bool:
    """Whether Enter was pressed by somebody who had time to read; False too when nothing waits any more."""
    import os
    import select
    import termios
    import tty

    from supervisor.runtime.deciding import Desk

    modes = termios.tcgetattr(fd)
    tty.setcbreak(fd)
    try:
        if select.select([fd], [], [], DEAF_S)[0]:
            return False
        click.echo("Enter: look at it      any other key: later (supervisor inbox)")
        while not select.select([fd], [], [], _LOOK_S)[0]:
            if not Desk(context.parts, context.asks).pending([session]):
                return False
        return os.read(fd, 16) in (b"\r", b"\n")
    finally:
        termios.tcsetattr(fd, termios.TCSANOW, modes)
