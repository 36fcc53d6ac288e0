"""`supervisor interrupt`: end the turn that an agent is in, and keep the agent."""

from __future__ import annotations

import click

from supervisor.cli.common import agent_argument, note, open_context


@click.command("interrupt", epilog="Example: supervisor interrupt tests")
@agent_argument(many=True)
def command(ids: tuple[str, ...]) -> int:
    """End the turn that runs. The agent stays, and waits for its next prompt: supervisor send.

    For agents whose CLI a driver of ours speaks to; `supervisor profiles show` says which.
    """
    from supervisor.core.resolve import resolve
    from supervisor.runtime.driving import interrupt

    context = open_context(prepare=False)
    entries = context.store.list()
    for entry in [resolve(i, entries) for i in ids]:
        interrupt(context, entry)
        note(f"{entry.name} was told to end its turn")
    return 0
