"""The wire format of asks: pi's layout as a superset, both directions. Pure, standard library only (hooks import it).

Strict about what may hurt (ids, sizes, types that decide), liberal about the rest: an optional part that is malformed
is dropped, never the whole request. Facts: docs/reference/asks.md. Owns no file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

MAX_BYTES = 1024 * 1024
"""A request or response over this is malformed."""

MAX_HOPS = 64
MAX_FORMS = 64
"""More forms of what a tool is used on are judged by a person."""

MAX_DEPTH = 100
"""Deeper JSON is refused: what parses must also encode, wherever on the stack it is passed on."""

_LONG = 4096
"""A longer value is no pattern to remember, and is said once, not in every form: 100 KB must fit."""

STATES = frozenset({"approved", "approved_for_session", "approved_for_serving_session", "denied", "denied_with_reason"})
SOURCES = frozenset({"tool_call", "skill_input", "skill_read"})
_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}\Z")


class Request(NamedTuple):
    """One ask on its way to `target`. Times in epoch ms. `ours` is what stands under the key `supervisor`."""

    id: str
    created_at: int
    requester: str
    target: str
    agent_name: str = "unknown"
    message: str = ""
    source: str = "tool_call"
    surface: str | None = None
    value: str | None = None
    payload: Mapping[str, Any] | None = None
    access_intent: Mapping[str, Any] | None = None
    session_approval: Mapping[str, Any] | None = None
    ours: Mapping[str, Any] = {}


class Response(NamedTuple):
    """The answer to one ask. `decided_by` has pi's shape, or is absent."""

    approved: bool
    state: str
    responder: str
    reason: str | None = None
    responded_at: int = 0
    decided_by: Mapping[str, Any] | None = None
    ours: Mapping[str, Any] = {}


class Malformed(NamedTuple):
    """What was read is no request or response; `id` when it may be answered under it."""

    why: str
    id: str | None = None


def valid_id(ask_id: object) -> bool:
    """Whether an ask id may become a file name."""
    return isinstance(ask_id, str) and _ID.match(ask_id) is not None


def parse_request(data: bytes, *, stem: str) -> Request | Malformed:
    """A request as read from `<stem>.json`."""
    if not valid_id(stem):
        return Malformed("its file name is no ask id")
    raw = _object(data)
    if isinstance(raw, Malformed):
        return Malformed(raw.why, stem)
    if raw.get("id") != stem:
        return Malformed("its id is not its file name", stem)
    for key in ("requesterSessionId", "targetSessionId", "requesterAgentName"):
        if not isinstance(raw.get(key), str):
            return Malformed(f"{key} is missing or no text", stem)
    created = _number(raw.get("createdAt"))
    if created is None:
        return Malformed("createdAt is missing or no number", stem)
    source = raw.get("source")
    return Request(
        id=stem,
        created_at=created,
        requester=raw["requesterSessionId"],
        target=raw["targetSessionId"].strip(),
        agent_name=raw["requesterAgentName"],
        message=_text(raw.get("message")) or "",
        source=source if isinstance(source, str) and source in SOURCES else "tool_call",
        surface=_text(raw.get("surface")),
        value=_text(raw.get("value")),
        payload=_mapping(raw.get("payload")),
        access_intent=_mapping(raw.get("accessIntent")),
        session_approval=_mapping(raw.get("sessionApproval")),
        ours=_mapping(raw.get("supervisor")) or {},
    )


def parse_response(data: bytes) -> Response | Malformed:
    """A response. One whose parts contradict each other is malformed: on doubt nothing is allowed."""
    raw = _object(data)
    if isinstance(raw, Malformed):
        return raw
    approved, state = raw.get("approved"), raw.get("state")
    if not isinstance(approved, bool) or not isinstance(state, str) or state not in STATES:
        return Malformed("approved or state is missing or wrong")
    if approved != str(state).startswith("approved"):
        return Malformed(f"approved is {approved} and state {state!r}")
    if not isinstance(raw.get("responderSessionId"), str):
        return Malformed("responderSessionId is missing or no text")
    return Response(
        approved=approved,
        state=str(state),
        responder=raw["responderSessionId"],
        reason=_text(raw.get("denialReason")),
        responded_at=_number(raw.get("respondedAt")) or 0,
        decided_by=_mapping(raw.get("decidedBy")),
        ours=_mapping(raw.get("supervisor")) or {},
    )


def encode_request(request: Request) -> bytes:
    """Everything that any reader asks for: the core fields, `message` for old ones, `payload` for new ones."""
    body: dict[str, Any] = {
        "id": request.id,
        "createdAt": request.created_at,
        "requesterSessionId": request.requester,
        "targetSessionId": request.target,
        "requesterAgentName": request.agent_name,
        "message": request.message,
    }
    for key, value in (
        ("payload", request.payload),
        ("source", request.source),
        ("surface", request.surface),
        ("value", request.value),
        ("sessionApproval", request.session_approval),
        ("accessIntent", request.access_intent),
        ("supervisor", request.ours or None),
    ):
        if value is not None:
            body[key] = value
    return _encode(body)


def encode_response(response: Response) -> bytes:
    """In the order in which a real parent writes it."""
    body: dict[str, Any] = {"approved": response.approved, "state": response.state}
    if response.reason is not None:
        body["denialReason"] = response.reason
    body["responderSessionId"] = response.responder
    body["respondedAt"] = response.responded_at
    if response.decided_by is not None:
        body["decidedBy"] = response.decided_by
    if response.ours:
        body["supervisor"] = response.ours
    return _encode(body)


def build_request(
    ask_id: str,
    *,
    now: int,
    requester: str,
    target: str,
    agent_name: str,
    tool: str,
    value: str,
    cwd: str,
    ours: Mapping[str, Any],
) -> Request:
    """A request for `tool` on `value`, with every shape that a reader of any version takes."""
    pattern = approval_pattern(value) if len(value) <= _LONG else None
    shown = value if len(value) <= _LONG else f"{value[:_LONG]}…"
    return Request(
        id=ask_id,
        created_at=now,
        requester=requester,
        target=target,
        agent_name=agent_name,
        message=f"Agent {agent_name} asks to use {tool}: {shown}",
        surface=tool,
        value=value,
        payload={
            "kind": "bash" if tool == "bash" else "tool",
            "request": {
                "requester": {"agentName": agent_name, "forwarded": False, "sessionId": None},
                "surface": tool,
                "toolName": tool,
                "invokedToolName": None,
                "value": value,
                "matchedPattern": None,
                "commandContext": None,
                "executedUnit": None,
            },
            "evidence": [{"label": "working directory", "text": cwd, "detail": None}],
            "annotations": [],
        },
        access_intent={
            "surface": tool,
            "matchValues": [value],
            "boundaryValue": None,
            "requesterCwd": cwd,
            "principal": {"sessionId": requester, "agentName": agent_name},
        },
        session_approval={
            "surface": tool,
            "patterns": [pattern],
            "grants": [{"surface": tool, "pattern": pattern}],
        }
        if pattern is not None
        else None,
        ours=ours,
    )


def approval_pattern(value: str) -> str:
    """What "allow for the session" remembers: exactly this value. Wider patterns are rules, written by a person."""
    return re.sub(r"([*?\[\]])", r"[\1]", value)


def uses_of(request: Request) -> tuple[str, ...] | None:
    """On what the tool is to be used, every form of it; None when the request does not exactly say.

    A peer's `value` is what it shows, and `matchValues` what it means: rules have to judge them all.
    """
    intent = request.access_intent or {}
    means = intent.get("matchValues", [])
    if request.surface is None or request.value is None or not isinstance(means, list) or len(means) > MAX_FORMS:
        return None
    if not all(isinstance(value, str) for value in means) or intent.get("surface", request.surface) != request.surface:
        return None
    return tuple(dict.fromkeys((request.value, *means)))


def hops_of(request: Request) -> tuple[str, ...]:
    """The sessions that have passed the ask on, in order; a malformed list reads as an endless one: it is refused."""
    hops = request.ours.get("hops", [])
    if not isinstance(hops, list) or len(hops) > MAX_HOPS or not all(isinstance(h, str) for h in hops):
        return ("",) * (MAX_HOPS + 1)
    return tuple(hops)


def about_ask(request: Request, session_id: str) -> dict[str, Any]:
    """What every line of the review log says of an ask: never what it was to be used on."""
    return {
        "ask": request.id,
        "session": session_id,
        "requester": request.requester,
        "agent": request.agent_name,
        "tool": request.surface,
        "hops": request.ours.get("hops", []),
    }


def _encode(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


def _object(data: bytes) -> dict[str, Any] | Malformed:
    if len(data) > MAX_BYTES:
        return Malformed(f"it is larger than {MAX_BYTES} bytes")
    try:
        raw = json.loads(data, parse_constant=_no_constant, parse_float=_finite)
        brackets = data.count(b"{") + data.count(b"[")  # in most requests too few to nest so deeply
        if brackets > MAX_DEPTH and _too_deep(raw):
            return Malformed("it is nested too deeply")
    except RecursionError:
        return Malformed("it is nested too deeply")
    except ValueError:
        return Malformed("it is no JSON")
    return raw if isinstance(raw, dict) else Malformed("it is no JSON object")


def _too_deep(value: object, left: int = MAX_DEPTH) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return left == 0 or any(_too_deep(v, left - 1) for v in inner)


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0:
        raise ValueError(text)
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**63:
        return None
    return int(value)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _mapping(value: object) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None
