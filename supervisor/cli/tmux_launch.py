"""`launch --tmux`: the keeper is the pane's command, the agent inherits the pane's terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from supervisor.cli.common import note

if TYPE_CHECKING:
    from supervisor.runtime.activation import Activated
    from supervisor.runtime.agent_request import Request
    from supervisor.runtime.compose import Context


def launch_in_tmux(context: Context, choose: Callable[[Activated], Sequence[Request]], *, as_json: bool) -> int:
    """Open a pane whose command is a keeper in the foreground, and wait until it says what became of it."""
    from supervisor.cli.starting import print_started, tell_of_clis
    from supervisor.runtime.activation import activate
    from supervisor.runtime.panes import open_pane

    (request,) = choose(activate(context))
    entry = open_pane(context, request)
    print_started(entry, as_json=as_json)
    tell_of_clis(context, [entry])
    if not as_json:
        note(f"go there with: supervisor attach {entry.name}")
    return 0
