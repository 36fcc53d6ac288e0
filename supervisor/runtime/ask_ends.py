"""What became of an ask that waits no more: by its answer while that is there, else by the review log. Owns nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from supervisor.adapters.ask_files import AskFiles
from supervisor.adapters.clock import pause
from supervisor.adapters.review_log import ReviewLog
from supervisor.core.ask_wire import Response, parse_response
from supervisor.runtime.deciding import Pending

EVIDENCE_S = 0.03
"""An answer is published before it is logged: so long the second look waits after the first."""


def why_gone(items: Collection[Pending], files: AskFiles, log: ReviewLog) -> dict[str, str]:
    """A few words by ask id; one that left no trace was withdrawn."""
    found = _look(items, files, log)
    if len(found) < len(items):
        pause(EVIDENCE_S)
        found |= _look([p for p in items if p.request.id not in found], files, log)
    return {p.request.id: found.get(p.request.id, "withdrawn") for p in items}


def _look(items: Iterable[Pending], files: AskFiles, log: ReviewLog) -> dict[str, str]:
    found: dict[str, str] = {}
    missing = set()
    for item in items:
        data = files.read_response(item.session_id, item.request.id)
        response = parse_response(data) if data else None
        if isinstance(response, Response):
            found[item.request.id] = _words(response.decided_by or {}, response.approved, response.ours.get("by"))
        else:
            missing.add(item.request.id)
    for event in log.read() if missing else ():
        by = event.get("by")
        if event.get("ask") in missing and "approved" in event:
            found[event["ask"]] = _words(by if isinstance(by, Mapping) else {}, bool(event["approved"]), None)
    return found


def _words(by: Mapping[str, object], approved: bool, who: object) -> str:
    if by.get("kind") == "unavailable":
        return f"given up, {by.get('reason') or 'nobody decided'}"
    name = who or by.get("who") or by.get("kind") or "somebody else"
    return f"already answered, {name} has {'allowed' if approved else 'denied'} it"
