"""What an agent of a keeper waits for before its start. Looks at its siblings; owns nothing."""

from __future__ import annotations

from collections.abc import Sequence, Set

from supervisor.core.entry import Entry, Starting
from supervisor.runtime.kept_agent import KeptAgent


def parent_unborn(entry: Entry, agents: Sequence[KeptAgent]) -> bool:
    """A child is started after its parent: it must be told whose it is."""
    if entry.parent is None or entry.parent.process is not None:
        return False
    return any(
        a.entry.session_id == entry.parent.session_id and isinstance(a.entry.state, Starting) and not a.entry.deaths
        for a in agents
    )


def predecessor_failed(state: Starting, agents: Sequence[KeptAgent], been_ready: Set[str]) -> bool:
    """What it was to start after ended without ever having been ready."""
    missing = [e for e in state.waits_for if e not in been_ready]
    return bool(missing) and not set(missing) <= {a.entry.entry_id for a in agents}
