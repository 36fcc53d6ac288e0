"""Entries as a forest: who is whose child, in which order to show and to stop. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from supervisor.core.entry import Entry, is_live


class Node(Struct):
    """One entry with its children, in order of start."""

    entry: Entry
    children: list[Node]


def forest(entries: Iterable[Entry]) -> tuple[Node, ...]:
    """Roots in order of start. A missing parent makes a root; a cycle is cut at its oldest member, never looped."""
    ordered = sorted(entries, key=lambda e: (e.started_at, e.name, e.entry_id))
    by_session: dict[str, Node] = {}
    nodes = [Node(e, []) for e in ordered]
    for node in nodes:  # a later or live entry of one session wins: it is what children mean by that session
        known = by_session.get(node.entry.session_id)
        if known is None or not is_live(known.entry):
            by_session[node.entry.session_id] = node
    roots = []
    for node in nodes:
        parent = _parent(node, by_session)
        if parent is None or _leads_back(node, by_session):
            roots.append(node)
        else:
            parent.children.append(node)
    return tuple(roots)


def _parent(node: Node, by_session: dict[str, Node]) -> Node | None:
    ref = node.entry.parent
    return by_session.get(ref.session_id) if ref else None


def _leads_back(node: Node, by_session: dict[str, Node]) -> bool:
    """Whether `node` is the oldest of a cycle of parents that it belongs to."""
    chain, at = [node], _parent(node, by_session)
    while at is not None and all(at is not seen for seen in chain):
        chain.append(at)
        at = _parent(at, by_session)
    if at is not node:
        return False
    return node.entry.started_at == min(n.entry.started_at for n in chain)


def walk(nodes: Sequence[Node], depth: int = 0) -> Iterator[tuple[int, Node]]:
    """Depth-first with depth, parents before children."""
    for node in nodes:
        yield depth, node
        yield from walk(node.children, depth + 1)


def subtree(nodes: Sequence[Node], entry_id: str) -> Node | None:
    """The node of one entry."""
    return next((n for _, n in walk(nodes) if n.entry.entry_id == entry_id), None)


def children_first(node: Node) -> list[Entry]:
    """The entries of a subtree in stop order."""
    return [n.entry for _, n in walk([node])][::-1]


def ancestors(entry: Entry, entries: Iterable[Entry]) -> list[Entry]:
    """Parent, grandparent, ... ; ends at a missing parent or before a repetition."""
    by_session = {e.session_id: e for e in sorted(entries, key=lambda e: (is_live(e), e.started_at))}
    found: list[Entry] = []
    seen = {entry.session_id}
    at = entry
    while at.parent and at.parent.session_id not in seen and (up := by_session.get(at.parent.session_id)):
        found.append(up)
        seen.add(up.session_id)
        at = up
    return found
