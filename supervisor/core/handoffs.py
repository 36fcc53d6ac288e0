"""Hand-offs: the ends of agents that their parents have not been told of. Pure.

They are addressed to a session, not to a process: a parent that comes back in its session gets them, whoever else runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from supervisor.core.entry import Closed, Entry


def undelivered(entries: Iterable[Entry]) -> Sequence[Entry]:
    """Children whose end nobody has been told of, in the order in which they ended."""
    ended = [e for e in entries if e.parent and isinstance(e.state, Closed) and e.state.hand_off.delivered_at is None]
    return sorted(ended, key=lambda e: (e.state.since, e.entry_id))


def addressed_to(session: str, entries: Iterable[Entry]) -> Sequence[Entry]:
    """Those for one parent's session."""
    return [e for e in undelivered(entries) if e.parent and e.parent.session_id == session]
