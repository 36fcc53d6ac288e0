"""`supervisor wait`: until agents have ended, with their exit code."""

from __future__ import annotations

import click

from supervisor.cli.common import agent_argument, json_option, open_context


@click.command("wait", epilog="Example: supervisor wait tests --timeout 600")
@agent_argument(many=True)
@click.option("--timeout", type=click.FloatRange(min=0), metavar="S", help="Give up after this many seconds (exit 1).")
@json_option
def command(ids: tuple[str, ...], timeout: float | None, as_json: bool) -> int:
    """Wait until the agents have ended.

    The exit code is the agent's own (128 + n for a signal); of several, the first that is not 0.
    """
    from supervisor.cli.waiting import wait_for_exits
    from supervisor.core.resolve import resolve

    context = open_context()
    entries = context.store.list()
    return wait_for_exits(context, [resolve(i, entries) for i in ids], timeout_s=timeout, as_json=as_json)
