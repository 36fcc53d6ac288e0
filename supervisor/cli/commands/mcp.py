"""`supervisor mcp`: the MCP server of an agent, and telling the agent CLIs of it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from supervisor.cli.common import json_option, open_context, print_json, say

if TYPE_CHECKING:
    from supervisor.runtime.compose import Context
    from supervisor.runtime.mcp_setup import Setup

CLIS = ("claude", "codex", "gemini", "opencode", "pi")

_cli_argument = click.argument("cli", type=click.Choice(CLIS))
_yes_option = click.option("--yes", "-y", is_flag=True, help="Do it [default: only show what would be done].")


@click.group("mcp", invoke_without_command=True, epilog="Example: supervisor mcp install claude")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Serve the tools by which an agent has children, on standard input and output (MCP).

    An agent CLI starts this by itself once it was told of it: supervisor mcp install CLI, or launch --mcp.
    """
    if ctx.invoked_subcommand is None:
        _serve()


def _serve() -> None:
    from supervisor.adapters.own_process import become
    from supervisor.runtime.compose import from_environment
    from supervisor.runtime.mcp_setup import require_extra

    context = from_environment()
    require_extra(context)
    become((context.python, "-P", "-m", "supervisor.mcp_server"), context.env)


@command.command("install", epilog="Example: supervisor mcp install claude --yes")
@_cli_argument
@_yes_option
@json_option
def install(cli: str, yes: bool, as_json: bool) -> None:
    """Tell an agent CLI of the server, for all of its sessions, by the CLI's own command.

    Without --yes it is only shown what would be run and which files it changes. Before it is done they are backed up.
    """
    from supervisor.runtime.mcp_setup import plan_install

    context = open_context(records=False)
    _do(context, plan_install(context, cli), yes=yes, as_json=as_json)


@command.command("uninstall", epilog="Example: supervisor mcp uninstall claude --yes")
@_cli_argument
@_yes_option
@json_option
def uninstall(cli: str, yes: bool, as_json: bool) -> None:
    """Take that back. Without --yes it is only shown what would be done."""
    from supervisor.runtime.mcp_setup import plan_uninstall

    context = open_context(records=False)
    _do(context, plan_uninstall(context, cli), yes=yes, as_json=as_json)


def _do(context: Context, setup: Setup, *, yes: bool, as_json: bool) -> None:
    import msgspec

    from supervisor.runtime.mcp_setup import carry_out

    backups = carry_out(context, setup) if yes and setup.there is None else []
    if as_json:
        print_json({**msgspec.to_builtins(setup), "done": yes, "backups": backups})
        return
    if setup.there is not None:
        say(f"{setup.cli} is told of it already, in {setup.there}: nothing is to be done")
        return
    for command in setup.commands:
        say(f"{'ran' if yes else 'would run'}: {shlex.join(command)}")
    if setup.rewrites:
        say(f"{'rewrote' if yes else 'would rewrite'}: {setup.rewrites}, without our entry")
    for file in setup.files:
        say(f"{'may have changed' if yes else 'may change'}: {file}")
    for backup in backups:
        say(f"backup: {backup}")
    if not yes:
        click.echo("nothing was done; to do it, add --yes")
