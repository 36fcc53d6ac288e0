"""`launch` while the process matrix is off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from supervisor.cli.common import note, print_json

if TYPE_CHECKING:
    from supervisor.runtime.activation import Activated
    from supervisor.runtime.agent_request import AgentRequest
    from supervisor.runtime.compose import Context

_WHY = "the process matrix is off: nothing is recorded, there is no transcript, and nobody can be asked"


def launch_unrecorded(
    context: Context,
    choose: Callable[[Activated], Sequence[AgentRequest]],
    *,
    foreground: bool,
    wait_for: str,
    tmux: bool,
    as_json: bool,
) -> int:
    """Start the agent, or become it; in the background its pid is all there is to tell.

    Raises:
        MatrixOff: it was to run in a pane of ours, or with our tools.
    """
    from supervisor.core.errors import MatrixOff
    from supervisor.runtime import unrecorded

    (request,) = choose(unrecorded.NOTHING_RECORDED)
    if tmux or request.mcp:
        raise MatrixOff
    draft = unrecorded.draft_of(context, request)
    note(f"{draft.entry.name}: {_WHY}")
    if foreground:
        unrecorded.become(draft)
    pid = unrecorded.start(context, draft)
    if as_json:
        print_json({"name": draft.entry.name, "pid": pid, "status": "unrecorded"})
    else:
        click.echo(f"{'name':<11}{draft.entry.name}\n{'pid':<11}{pid}")
    return unrecorded.exit_code_of(context, pid) if wait_for == "exit" else 0
