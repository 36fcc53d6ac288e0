"""What an agent of a keeper waits for before its start, and learns just then. Looks at its siblings; owns nothing."""

from __future__ import annotations

from collections.abc import Sequence, Set

from msgspec.structs import replace

from supervisor.core.entry import Entry, Starting, as_parent
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


def inherit_parent(agent: KeptAgent, agents: Sequence[KeptAgent]) -> None:
    """A child of an agent of this keeper learns its parent's process just before its own start."""
    entry = agent.entry
    if entry.parent is None or entry.parent.process is not None:
        return
    parent = next((a.entry for a in agents if a.entry.session_id == entry.parent.session_id), None)
    if parent and parent.generation.process:
        ref = as_parent(parent)
        agent.record.change(lambda e: replace(e, parent=ref))
