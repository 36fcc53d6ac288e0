"""The reply to one hook event, as the CLI takes it: an allow, or a deny with a message. Pure.

Never `interrupt`, `updatedInput` or an exit code: with those a CLI lets somebody else decide (Codex: a model).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from supervisor.core.text import bounded, printable
from supervisor.hook.event import PermissionAsk, SessionStarted, Unclear, parse

if TYPE_CHECKING:
    from supervisor.core.asks import Decision

MAX_MESSAGE = 8_000
_NESTED = 8
_NOBODY = frozenset({"unavailable", "gate_error"})
NOTHING = ""


def reply(
    data: bytes,
    *,
    decide: Callable[[PermissionAsk], Decision | None],
    prove: Callable[[SessionStarted], None] = lambda _started: None,
) -> str:
    """What to print for what was read. `decide` gives None when nobody needs the answer any more.

    An allow is printed for an approved decision on an understood request, and for nothing else.
    """
    try:
        event = parse(data)
        if isinstance(event, Unclear):
            return undecided(event.why)
        if isinstance(event, SessionStarted):
            prove(event)
        if not isinstance(event, PermissionAsk):
            return NOTHING
        decision = decide(event)
        return NOTHING if decision is None else of_decision(decision)
    except Exception as error:  # noqa: BLE001  whatever it is: a CLI waits for an answer, and this one is safe
        return undecided(f"the permission hook of supervisor failed ({type(error).__name__})")


def of_decision(decision: Decision) -> str:
    """The CLI's reply for a decision."""
    if decision.approved is True:
        return _encode({"behavior": "allow"})
    reason = (decision.reason or "").strip()
    who = _who(decision.decided_by, decision.responder)
    if decision.unavailable or who is None:
        return undecided(reason or "nobody could decide")
    return _deny(f"denied by {who}: {reason}" if reason else f"denied by {who}, no reason was given")


def undecided(why: str) -> str:
    """A denial that nobody decided; the model must not take it for the user's will."""
    return _deny(f"not decided: {why.rstrip('.')}; this is not a refusal by the user")


def _deny(message: str) -> str:
    return _encode({"behavior": "deny", "message": bounded(printable(message), MAX_MESSAGE)})


def _who(decided_by: Any, responder: str | None) -> str | None:
    """Who denied it, None when nobody did. A forwarded answer names the one who decided in the end."""
    for _ in range(_NESTED):
        if not isinstance(decided_by, Mapping) or decided_by.get("kind") != "forwarded":
            break
        responder = decided_by.get("responderSessionId") or responder
        decided_by = decided_by.get("decision")
    at = f" at session '{responder}'" if isinstance(responder, str) and responder else ""
    kind = decided_by.get("kind") if isinstance(decided_by, Mapping) else None
    if kind in _NOBODY:
        return None
    if kind == "user":
        return f"the user{at}"
    if kind == "rule":
        origin = decided_by.get("origin")
        return f"a rule of session '{origin}'" if isinstance(origin, str) and origin else f"a rule{at}"
    if kind == "authorizer":
        return f"{decided_by.get('name')}{at}"
    return at.removeprefix(" at ") or "the parent session"


def _encode(decision: Mapping[str, str]) -> str:
    body = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}
    return json.dumps(body, separators=(",", ":")) + "\n"
