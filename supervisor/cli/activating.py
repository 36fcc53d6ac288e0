"""What a person is asked before a master takes the terminal: what of others' waits to be recovered. Decides nothing.

Asked before anything of the master is on record: whoever leaves by Ctrl-C, or is killed, has launched nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from supervisor.cli.common import note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from supervisor.core.entry import Entry
    from supervisor.core.recovery import Found
    from supervisor.runtime.agent_request import Request
    from supervisor.runtime.compose import Context
    from supervisor.runtime.starting import Choose


def offer_first(context: Context, choose: Choose) -> tuple[Choose, Sequence[Found]]:
    """The same choice, made, and what is to be taken in below the agent once that runs.

    Raises:
        SupervisorError: what is asked for cannot be; said before anybody is asked.
        click.Abort: the person wants nothing to be launched.
    """
    from supervisor.cli.recovering import offer_all, say
    from supervisor.runtime.activation import activate
    from supervisor.runtime.recovering import Recovery
    from supervisor.runtime.starting import drafts_of

    activated = activate(context)
    requests = choose(activated)
    recovery = Recovery(context, None, say)
    others = _foreign(recovery.run(activated), activated.seen.entries, requests[0])
    later: list[Found] = []
    if others:
        wait = "1 agent waits" if len(others) == 1 else f"{len(others)} agents wait"
        if sys.stdin.isatty() and sys.stdout.isatty():
            drafts_of(context, requests, activated)
            note(f"{wait} to be recovered; q leaves all, Ctrl-C launches nothing")
            offer_all(context, recovery, others, later=later)
        else:
            note(f"{wait} to be recovered: supervisor recover")
    return lambda _activated: requests, later


def _foreign(found: Sequence[Found], entries: Sequence[Entry], request: Request) -> Sequence[Found]:
    """What a master does not bring back by itself; nothing for a worker: it is not its to decide."""
    from supervisor.core.recovery import foreign
    from supervisor.runtime.agent_request import ResumeRequest

    if request.parent is not None:
        return ()
    if not isinstance(request, ResumeRequest):
        return found
    resumed = next(e for e in entries if e.entry_id == request.entry_id)
    return foreign(found, entries, resumed) if resumed.parent is None else ()
