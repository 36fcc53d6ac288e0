"""Who answers an ask: a person, or the agent that the command runs inside of, by its own authority only. Reads only."""

from __future__ import annotations

from collections.abc import Sequence

from supervisor.core.agent_authority import why_not
from supervisor.core.answering import verdict_on
from supervisor.core.entry import Entry, is_live
from supervisor.core.errors import Refused
from supervisor.runtime import parentage
from supervisor.runtime.ask_facts import AskFacts
from supervisor.runtime.compose import Context
from supervisor.runtime.deciding import Pending


def calling_agent(context: Context, entries: Sequence[Entry]) -> Entry | None:
    """The agent that this command runs inside of, None for a person at a terminal.

    A tool sandbox hides the ancestors: there the environment is believed, since what it takes away is power.
    """
    found = parentage.from_environment(context, entries)
    if found.parent is not None:
        return next((e for e in entries if e.entry_id == found.parent.entry_id), None)
    raw = (context.env.get("SUPERVISOR_SESSION_ID") or "").strip()
    entry = next((e for e in entries if raw and e.session_id == raw and is_live(e)), None)
    process = entry.generation.process if entry else None
    here = context.processes.machine()
    return entry if process is not None and process.machine.pid_namespace != here.pid_namespace else None


def check_authority(
    context: Context, caller: Entry, pending: Pending, *, approve: bool, remember: bool, entries: Sequence[Entry]
) -> None:
    """Whether an agent may answer.

    Raises:
        Refused: with the reason, and who may.
    """
    values = context.settings.values()
    request = pending.request
    above = caller.parent.session_id if caller.parent else None
    asked = next((e for e in entries if e.session_id == above and is_live(e)), caller)
    lineage = AskFacts(context.parts, context.asks).lineage(asked, values["asks.rules"].value)
    own = verdict_on(request, lineage, requester=caller.session_id)
    why = why_not(
        caller,
        requester=request.requester,
        session=pending.session_id,
        approve=approve,
        own=own,
        agents_allow=values["asks.agents_allow"].value,
        entries=entries,
    )
    if why is None and remember:
        why = "only a person can have it remembered"
    if why is not None:
        raise Refused(
            f"{caller.name} may not answer ask {request.id}: {why}",
            hint="A person answers it from a terminal of their own: supervisor inbox",
        )
