"""What `asks`, `answer` and `inbox` show of an ask: harmless, whatever an agent has written into it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from supervisor.core.entry import Entry
    from supervisor.runtime.deciding import Pending


def summary(item: Pending, entries: Sequence[Entry]) -> dict[str, Any]:
    """One waiting ask as data."""
    from supervisor.core.ask_wire import hops_of
    from supervisor.runtime.deciding import lineage

    request = item.request
    return {
        "id": request.id,
        "nonce": item.nonce,
        "session": item.session_id,
        "requester": request.requester,
        "agent": request.agent_name,
        "lineage": lineage(entries, request),
        "hops": hops_of(request),
        "tool": request.surface or "",
        "value": request.value or request.message,
        "cwd": cwd_of(item),
        "ageMs": item.age_ms,
        "lookedAt": item.looked_by is not None,
        "lookedSince": item.looked_by.since if item.looked_by else None,
        "askerDead": item.asker_dead,
        "taskRef": request.ours.get("taskRef"),
        "input": request.ours.get("input"),
    }


def cwd_of(item: Pending) -> str:
    """Where it would run, as far as the ask says."""
    intent = item.request.access_intent or {}
    cwd = intent.get("requesterCwd")
    return cwd if isinstance(cwd, str) else ""


def full_text(item: Pending, entries: Sequence[Entry]) -> str:
    """Everything about one ask, readable also when it is 100 KB long."""
    import json

    from supervisor.core.text import printable, span

    data = summary(item, entries)
    lines = [
        f"ask      {data['id']}",
        f"from     {' > '.join(data['lineage'])}",
        f"tool     {data['tool']}",
        f"in       {data['cwd'] or '-'}",
        f"age      {span(item.age_ms)}",
        "",
        str(data["value"]),
    ]
    if data["input"] is not None:
        lines += ["", json.dumps(data["input"], indent=2, ensure_ascii=False)]
    return "\n".join(printable(line) for line in lines)
