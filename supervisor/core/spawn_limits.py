"""Limits against runaway spawning: how deep, how wide, how many. Pure; counted under the lock of names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from supervisor.core.entry import Entry, is_live
from supervisor.core.errors import LimitReached
from supervisor.core.tree import ancestors


class SpawnLimits(Struct, frozen=True, kw_only=True):
    """The settings `limits.*`."""

    max_depth: int
    """Levels of a tree: 1 allows masters only."""
    max_children: int
    """Live children of one agent."""
    max_agents: int
    """Live agents of one state root."""


def check_limits(limits: SpawnLimits, new: Sequence[Entry], recorded: Sequence[Entry]) -> None:
    """Whether all of `new` may be started beside what is recorded. Ended ancestors count as levels, not as children.

    Raises:
        LimitReached: the first limit that would be passed, with the setting that holds it.
    """
    live = [e for e in recorded if is_live(e)]
    if len(live) + len(new) > limits.max_agents:
        raise _reached(
            "max_agents", limits.max_agents, f"{len(live)} agents run already, {len(new)} more would be too many"
        )
    everybody = [*recorded, *new]
    names = {e.session_id: e.name for e in everybody}
    children = Counter(e.parent.session_id for e in [*live, *new] if e.parent)
    depths: dict[str, int] = {}  # by parent: the children of one stand at one level
    for entry in new:
        if entry.parent is None:
            continue
        if (count := children[entry.parent.session_id]) > limits.max_children:
            parent = names.get(entry.parent.session_id, entry.parent.session_id)
            raise _reached("max_children", limits.max_children, f"{parent} would have {count} children")
        if entry.parent.session_id not in depths:
            depths[entry.parent.session_id] = _depth(entry, everybody)
        if (depth := depths[entry.parent.session_id]) > limits.max_depth:
            raise _reached("max_depth", limits.max_depth, f"{entry.name} would stand at level {depth} of its tree")


def _depth(entry: Entry, everybody: Sequence[Entry]) -> int:
    """Its level, 1 for a master; a parent that is not on record is a level all the same."""
    above = ancestors(entry, everybody)
    top = (above[-1] if above else entry).parent
    return len(above) + 1 + (top is not None and all(top.session_id != e.session_id for e in above))


def _reached(key: str, limit: int, what: str) -> LimitReached:
    return LimitReached(
        f"{what}: limits.{key} is {limit}",
        hint=f"Stop agents that are done (supervisor tree), or raise it: supervisor settings set limits.{key} N",
        limit=key,
    )
