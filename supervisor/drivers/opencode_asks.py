"""The asks of an opencode server: their ids, and how it is told what was decided. Pure."""

from __future__ import annotations

import re
from typing import Any

from supervisor.core.ask_words import denial
from supervisor.core.asks import Decision

_ID = re.compile(r"[A-Za-z0-9_-]{1,200}\Z")


def ask_id(raw: Any) -> str | None:
    """The id of an ask, if it is one that can stand in an address."""
    return raw if isinstance(raw, str) and _ID.match(raw) else None


def reply(decision: Decision) -> dict[str, str]:
    """`once`, or `reject` with the reason. Never `always`: that holds for every other session of the server too."""
    if decision.approved is True:
        return {"reply": "once"}
    return rejection(denial(decision))


def rejection(why: str) -> dict[str, str]:
    """With a message the model goes on, and is told."""
    return {"reply": "reject", "message": why}
