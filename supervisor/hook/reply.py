"""The reply to one hook event, as the CLI takes it: an allow, or a deny with a message. Pure.

Never `interrupt`, `updatedInput` or an exit code: with those a CLI lets somebody else decide (Codex: a model).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from supervisor.core import ask_words
from supervisor.hook.event import SessionStarted, parse
from supervisor.runtime.tool_use import PermissionAsk, Unclear

if TYPE_CHECKING:
    from supervisor.core.asks import Decision

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
    return _deny(ask_words.denial(decision))


def undecided(why: str) -> str:
    """A denial that nobody decided."""
    return _deny(ask_words.undecided(why))


def _deny(message: str) -> str:
    return _encode({"behavior": "deny", "message": message})


def _encode(decision: Mapping[str, str]) -> str:
    body = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}
    return json.dumps(body, separators=(",", ":")) + "\n"
