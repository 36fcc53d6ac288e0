"""What the model is told of a decision that is not an approval. Pure, standard library only (hooks use it)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from supervisor.core.text import bounded, printable

if TYPE_CHECKING:
    from supervisor.core.asks import Decision

MAX_MESSAGE = 8_000
_NESTED = 8
_NOBODY = frozenset({"unavailable", "gate_error"})


def denial(decision: Decision) -> str:
    """Why it may not, and who said so."""
    reason = (decision.reason or "").strip()
    who = decided_by(decision)
    if decision.unavailable or who is None:
        return undecided(reason or "nobody could decide")
    return _message(f"denied by {who}: {reason}" if reason else f"denied by {who}, no reason was given")


def undecided(why: str) -> str:
    """A denial that nobody decided; the model must not take it for the user's will."""
    return _message(f"not decided: {why.rstrip('.')}; this is not a refusal by the user")


def _message(text: str) -> str:
    return bounded(printable(text), MAX_MESSAGE)


def decided_by(decision: Decision) -> str | None:
    """Who decided it, None when nobody did. A forwarded answer names the one who decided in the end."""
    by, responder = decision.decided_by, decision.responder
    for _ in range(_NESTED):
        if not isinstance(by, Mapping) or by.get("kind") != "forwarded":
            break
        responder = by.get("responderSessionId") or responder
        by = by.get("decision")
    return _who(by, f" at session '{responder}'" if isinstance(responder, str) and responder else "")


def _who(by: Any, at: str) -> str | None:
    kind = by.get("kind") if isinstance(by, Mapping) else None
    if kind in _NOBODY:
        return None
    if kind == "user":
        return f"the user{at}"
    if kind == "rule":
        origin = by.get("origin")
        return f"a rule of session '{origin}'" if isinstance(origin, str) and origin else f"a rule{at}"
    if kind == "authorizer":
        return f"{by.get('name')}{at}"
    return at.removeprefix(" at ") or "the parent session"
