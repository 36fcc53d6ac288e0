"""`supervisor checkpoint`: keep how far an agent has come, for the day it is resumed."""

from __future__ import annotations

import click

from supervisor.cli.common import agent_argument, open_context


@click.command(
    "checkpoint",
    epilog="Example: supervisor checkpoint --checkpoint 'tests pass' --pointer file:///work/plan.md",
)
@agent_argument(required=False)
@click.option("--checkpoint", metavar="TEXT", help="How far it has come, at most 200 characters.")
@click.option(
    "--pointer", "pointers", metavar="URI", multiple=True, help="What to read again (repeatable, at most 20)."
)
@click.option("--summary", metavar="TEXT", help="What is done and what is left, at most 2,000 characters.")
def command(agent_id: str | None, checkpoint: str | None, pointers: tuple[str, ...], summary: str | None) -> None:
    """Keep a checkpoint of an agent; without ID, of the agent that runs this command.

    It is told to the agent when it is resumed. What is not given stays as it was; pointers are replaced as a whole.
    """
    from supervisor.runtime.checkpointing import keep

    keep(open_context(), agent_id, checkpoint=checkpoint, pointers=pointers, summary=summary)
