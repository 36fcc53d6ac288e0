"""Asks whose asker is provably dead and that nobody serves any more: removed by a repair. Never answers one."""

from __future__ import annotations

from supervisor.core.ask_wire import about_ask
from supervisor.runtime.ask_facts import AskParts
from supervisor.runtime.deciding import Desk
from supervisor.runtime.parts import Parts


def sweep_dead(parts: Parts, asks: AskParts) -> int:
    """Remove them with their claims and bells, each on record; how many. What is passed on goes wherever it lies."""
    desk, swept = Desk(parts, asks), 0
    while dead := [p for p in desk.pending() if p.asker_dead]:  # a copy at a session before it shows next
        for item in dead:
            request = item.request
            asks.files.remove_request(item.session_id, request.id)
            asks.files.remove_claim(item.session_id, request.id)
            if request.ours.get("bell") == f"ask-{request.id}":
                parts.bells.remove(f"ask-{request.id}")
            about = about_ask(request, item.session_id)
            asks.review.append("dropped", {**about, "why": "its requester is gone"}, at=parts.now().wall_ms)
        if any(desk.waits(item) for item in dead):
            break  # it cannot be removed
        swept += len(dead)
    return swept
