"""Which processes belong to one agent, and not to another keeper's. Pure: a snapshot and markers come in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from supervisor.core.ports import Process

Marker = Callable[[int], str | None]
"""pid → the entry id in its environment, None when it has none or cannot be read."""


def children_of(snapshot: Mapping[int, Process]) -> dict[int, list[int]]:
    """Parent pid → pids, for `tree_of`."""
    below: dict[int, list[int]] = {}
    for row in snapshot.values():
        below.setdefault(row.parent_pid, []).append(row.pid)
    return below


def tree_of(
    entry_id: str,
    *,
    leader: int | None,
    snapshot: Mapping[int, Process],
    below: Mapping[int, Sequence[int]],
    marker: Marker,
    foreign: Set[int],
    roots: Set[int],
    alone: bool,
) -> set[int]:
    """The pids of an agent's tree.

    `leader` is the agent's pid if it still lives; `foreign` are keepers and other agents: they and what is below them
    are never ours. Orphans of the tree hang below `roots` (the keeper as subreaper, and init): one of them is ours by
    its marker, by the leader's session, or, without any marker, when the keeper has no other agent (`alone`).
    """
    ours: set[int] = set()
    queue = [leader] if leader is not None and leader in snapshot else []
    for root in roots:
        for pid in below.get(root, ()):
            if pid not in foreign and _is_ours(snapshot[pid], entry_id, leader, marker, alone and root != 1):
                queue.append(pid)
    while queue:
        pid = queue.pop()
        if pid in ours or (pid in foreign and pid != leader):
            continue
        ours.add(pid)
        queue.extend(below.get(pid, ()))
    return ours


def _is_ours(row: Process, entry_id: str, leader: int | None, marker: Marker, alone: bool) -> bool:
    mark = marker(row.pid)
    if mark is not None:
        return mark == entry_id
    return alone or (leader is not None and row.session == leader)
