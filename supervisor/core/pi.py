"""pi's permission forwarding as facts and translations: its folder, its variables, its asks and ours. Pure.

Standard library only (hooks import it). Verified with pi 1.6.0, permission extension 20.7.3; newer forms are read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from supervisor.core.ask_wire import Request, Response, build_request
from supervisor.core.asks import Decision

FOLDER = "sessions/permission-forwarding"
"""Below pi's agent folder, wherever its session files are kept."""

AGENT_FOLDER = "PI_CODING_AGENT_DIR"
SESSION = "PI_SESSION_ID"
PARENT_PID = "PI_PARENT_PID"
ASKED_VARIABLE = "PI_SUBAGENT_PARENT_SESSION"
"""Whom a child of pi asks; a router's variable comes before it."""

DECLARED = ("PI_AGENT_ROUTER_PARENT_SESSION_ID", ASKED_VARIABLE, "PI_PARENT_SESSION")
"""Variables that declare a pi session to be the parent, first one wins. pi's own tool shell exports `SESSION`."""

_FULL = re.compile(r" \(full command: '(.*)'\)\. Allow this command\?\Z", re.DOTALL)
_FULL_MARK = " (full command: '"


def forwarding_folder(env: Mapping[str, str]) -> str | None:
    """Where pi keeps its asks, None when the environment does not say."""
    agent = env.get(AGENT_FOLDER)
    if not agent:
        home = env.get("HOME", "")
        agent = f"{home}/.pi/agent" if home else ""
    elif agent == "~" or agent.startswith("~/"):
        agent = env.get("HOME", "") + agent[1:]
    return f"{agent.rstrip('/')}/{FOLDER}" if agent.startswith("/") else None


def parent_session(env: Mapping[str, str]) -> str | None:
    """The pi session that the environment names as the one above, as it stands there."""
    named = (env.get(name, "").strip() for name in (*DECLARED, SESSION))
    return next((n for n in named if n and n.lower() != "unknown"), None)


def whole_value(request: Request) -> str | None:
    """What would run. pi asks about one command of a chain, and then runs all of it: a rule must see the whole."""
    evidence = (request.payload or {}).get("evidence")
    if isinstance(evidence, list):
        for item in evidence:
            if isinstance(item, dict) and item.get("label") == "full command" and isinstance(item.get("text"), str):
                return str(item["text"])
    if request.surface == "bash" and _FULL_MARK in request.message:
        found = _FULL.search(request.message)
        # a command that holds the mark itself could pass for a shorter one: then the sentence is judged
        return found.group(1) if found and request.message.count(_FULL_MARK) == 1 else request.message
    return request.value


def as_ours(request: Request, *, target: str, requester: str, name: str, cwd: str, ours: Mapping[str, Any]) -> Request:
    """A pi child's request as it goes to our own sessions, under the same id."""
    value = whole_value(request)
    agent = name if request.agent_name in ("", "unknown") else request.agent_name
    made = build_request(
        request.id,
        now=request.created_at,
        requester=requester,
        target=target,
        agent_name=agent,
        tool=request.surface or "unknown",
        value=value or request.message or "unknown",
        cwd=_cwd(request) or cwd,
        ours=ours,
    )
    return made._replace(
        message=request.message or made.message,
        source=request.source,
        payload=request.payload or made.payload,
        access_intent=request.access_intent or made.access_intent,
    )


def as_pis(decision: Decision, *, request: Request, responder: str, now: int) -> Response:
    """Our decision as pi's response. Old versions tell a model of every denial as the user's: the reason says whose."""
    by = decision.decided_by if isinstance(decision.decided_by, Mapping) else None
    if decision.approved:
        return Response(True, approved_state(decision, request), responder, None, now, by)
    if decision.unavailable:
        why = (decision.reason or "nobody could decide").rstrip(".")
        reason = f"not decided: {why}; this is not a refusal by the user"
        return Response(False, "denied_with_reason", responder, reason, now, {"kind": "unavailable", "reason": why})
    reason_given = decision.reason.rstrip(".") if decision.reason else None
    if by is not None and by.get("kind") == "rule":
        reason_given = f"denied by a rule of session '{by.get('origin')}', not by the user: {reason_given}"
    return Response(False, "denied_with_reason" if reason_given else "denied", responder, reason_given, now, by)


def approved_state(decision: Decision, request: Request) -> str:
    """`approved_for_session` lets pi remember its own pattern. Only where that is exactly what was approved.

    A wider one (`rm *` for `rm x`) would be asked about no more, and no rule of an ancestor could deny it. Then our own
    memory answers pi's next ask.
    """
    return (
        "approved_for_session" if decision.for_session and _remembers(request) == [whole_value(request)] else "approved"
    )


def _remembers(request: Request) -> list[Any] | None:
    approval = request.session_approval or {}
    patterns, grants = approval.get("patterns"), approval.get("grants")
    if isinstance(patterns, list):
        found = patterns
    elif isinstance(grants, list):
        found = [g.get("pattern") if isinstance(g, dict) else None for g in grants]
    else:
        return None
    return None if any(not isinstance(p, str) or "*" in p or "?" in p for p in found) else found


def _cwd(request: Request) -> str | None:
    cwd = (request.access_intent or {}).get("requesterCwd")
    return cwd if isinstance(cwd, str) and cwd else None
