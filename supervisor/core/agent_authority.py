"""May an agent answer an ask of another agent? Pure: who asks, whose inbox it waits in, and what the records say.

An agent never widens what it was given: it may deny what its own descendants ask, and allow only what it may do itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from supervisor.core.entry import Entry
from supervisor.core.rules import Verdict
from supervisor.core.tree import ancestors

AgentsAllow = Literal["own", "any"]
"""Setting `asks.agents_allow`: what it may do itself, or whatever no rule denies."""


def why_not(
    caller: Entry,
    *,
    requester: str,
    session: str,
    approve: bool,
    own: Verdict,
    agents_allow: AgentsAllow,
    entries: Sequence[Entry],
) -> str | None:
    """Why `caller` may not answer an ask of `requester` that waits at `session`; None: it may.

    `own` is the verdict on the same use if the caller itself asked for it.
    """
    if requester == caller.session_id:
        return "it is its own ask"
    if not descends(requester, caller, entries):
        return f"its asker is no descendant of {caller.name}"
    if session != caller.session_id and not descends(session, caller, entries):
        return f"it was passed on to an ancestor of {caller.name}, which decides"
    if not approve or own.action == "allow":
        return None
    if own.action == "deny":
        return f"a rule denies it to {caller.name} itself"
    if agents_allow == "any":
        return None
    return f"{caller.name} would have to ask for it itself"


def descends(session: str, caller: Entry, entries: Sequence[Entry]) -> bool:
    """Whether a session is recorded below the caller."""
    return any(
        e.session_id == session and any(a.session_id == caller.session_id for a in ancestors(e, entries))
        for e in entries
    )
