"""Who is below whom, and which agent a word means, over the rows of `ps --json`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

LIVE = frozenset({"starting", "running", "winding_down", "adopted"})


class NoSuchAgent(Exception):
    """Nothing, or several, of that name."""


def is_live(row: Row) -> bool:
    """Whether a process may be running."""
    return row["status"] in LIVE or row.get("adoptableUntil") is not None


def below(rows: Iterable[Row], roots: Iterable[str]) -> set[str]:
    """The sessions that descend from `roots`, without them."""
    children: dict[str, list[str]] = {}
    for row in rows:
        if row["parentSessionId"]:
            children.setdefault(row["parentSessionId"], []).append(row["sessionId"])
    found: set[str] = set()
    queue = list(roots)
    while queue:
        for child in children.get(queue.pop(), ()):
            if child not in found:
                found.add(child)
                queue.append(child)
    return found - set(roots)


def find(rows: Sequence[Row], wanted: str) -> Row:
    """The agent that a name, session id or entry id means; a running one before the ended ones, the latest of those.

    Raises:
        NoSuchAgent: none, or several that run.
    """
    named = [r for r in rows if wanted in (r["name"], r["sessionId"], r["entryId"])]
    live = [r for r in named if is_live(r)]
    if len(live) > 1:
        raise NoSuchAgent(f"several agents are named {wanted[:80]!r}: give the session id")
    if live or named:
        return live[0] if live else max(named, key=lambda r: r["startedAt"])
    names = ", ".join(sorted({r["name"] for r in rows if is_live(r)})[:20])
    raise NoSuchAgent(f"you have no agent {wanted[:80]!r}" + (f"; running: {names}" if names else "; none is running"))


def brief(row: Row) -> dict[str, Any]:
    """What a model needs of a row."""
    out = {
        "name": row["name"],
        "sessionId": row["sessionId"],
        "profile": row["profile"],
        "parent": row["parent"],
        "status": row["status"],
        "verdict": row["verdict"],
        "ready": row["ready"],
        "orphan": row["orphan"],
        "task": row["taskSummary"] or row["taskRef"],
        "cwd": row["cwd"],
        "ageSeconds": row["ageMs"] // 1000,
        "end": row["end"],
        "exitCode": row["exitCode"],
        "exitSignal": row["exitSignal"],
    }
    return {k: v for k, v in out.items() if v is not None}
