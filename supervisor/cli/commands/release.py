"""`supervisor release`: ask a worker to clean up and end."""

from __future__ import annotations

import click

from supervisor.cli.common import agent_argument, json_option, open_context, print_json, say


@click.command("release", epilog="Example: supervisor release tests")
@agent_argument()
@json_option
def command(agent_id: str, as_json: bool) -> None:
    """Ask a worker to clean up and end, whether its parent lives or is lost.

    Its own keeper ends it as `stop` does and records how; this command does not wait for that.
    """
    from supervisor.core.entry import Entry
    from supervisor.core.fences import refusal
    from supervisor.core.resolve import resolve
    from supervisor.runtime.activation import activate
    from supervisor.runtime.adopting import release

    context = open_context()
    worker = resolve(agent_id, activate(context).seen.entries)
    result = release(context.parts, worker)
    if not isinstance(result, Entry):
        raise refusal(result, f"can't release {worker.name}")
    if as_json:
        print_json(result)
        return
    say(f"{worker.name}: asked to end (supervisor wait {worker.name})")
