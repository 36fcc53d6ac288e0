"""What a CLI says on the hook's standard input: bytes in, a typed event out. Pure.

Strict, because what is asked here is what runs afterwards: anything that is not exactly understood is `Unclear`, and
that is answered by a denial.
"""

from __future__ import annotations

import json
import os.path
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from supervisor.runtime.tool_use import MAX_PATH, PermissionAsk, Unclear, is_name, tool_use, unfit

MAX_INPUT = 4 * 1024 * 1024
"""A longer event is not read."""

_EVENT = re.compile(r"[A-Za-z]{1,64}\Z")


class SessionStarted(NamedTuple):
    """The CLI is in this session from now on."""

    session: str
    source: str
    transcript: str | None = None


Event = PermissionAsk | SessionStarted | Unclear | None
"""None: nothing that concerns us."""


def parse(data: bytes) -> Event:
    """The event in what was read from standard input."""
    if len(data) > MAX_INPUT:
        return Unclear(f"the hook input is longer than {MAX_INPUT} bytes")
    try:
        raw = json.loads(data.decode(), parse_constant=_no_constant)
    except RecursionError:
        return Unclear("the hook input is nested too deeply")
    except ValueError:
        return Unclear("the hook input is no JSON" if data.strip() else "there is no hook input")
    if not isinstance(raw, dict):
        return Unclear("the hook input is no JSON object")
    name = raw.get("hook_event_name")
    if name == "SessionStart":
        return _session(raw)
    if name == "PermissionRequest":
        return _permission(raw)
    if name == "PermissionAsked":
        return _asked(raw)
    if not isinstance(name, str) or not _EVENT.match(name) or name.lower() in ("permissionrequest", "permissionasked"):
        return Unclear("the hook input names no event")
    return None


def _permission(raw: Mapping[str, Any]) -> PermissionAsk | Unclear:
    wanted = tool_use(raw.get("tool_name"), raw.get("tool_input"), raw.get("cwd"))
    if isinstance(wanted, Unclear):
        return wanted
    return wanted._replace(session=_text(raw, "session_id"), transcript=_transcript(raw))


def _asked(raw: Mapping[str, Any]) -> PermissionAsk | Unclear:
    """An ask as opencode tells it, passed on by our plugin."""
    from supervisor.runtime.opencode_ask import wanted

    ask, cwd = raw.get("ask"), raw.get("cwd")
    return wanted(ask, cwd=cwd) if isinstance(ask, dict) and isinstance(cwd, str) else Unclear("it does not say what")


def _session(raw: Mapping[str, Any]) -> SessionStarted | None:
    from supervisor.core.errors import BadInput
    from supervisor.core.ids import session_id

    try:
        session = session_id(raw["session_id"])
    except (KeyError, AttributeError, BadInput):
        return None  # it proves nothing, and there is nobody to tell
    source = raw.get("source")
    known = source if isinstance(source, str) and _EVENT.match(source) else "unknown"
    return SessionStarted(session, known, _text(raw, "transcript_path"))


def _transcript(raw: Mapping[str, Any]) -> str | None:
    """Where the result of this call will be written: a subagent has a file of its own, not named in the event."""
    path, agent = _text(raw, "transcript_path"), _text(raw, "agent_id")
    if path is None or agent is None:
        return path
    if not path.endswith(".jsonl") or not is_name(agent) or "/" in agent:
        return None
    return os.path.join(path.removesuffix(".jsonl"), "subagents", f"agent-{agent}.jsonl")


def _text(raw: Mapping[str, Any], key: str) -> str | None:
    """An optional part: nothing depends on it, so a malformed one is left out."""
    value = raw.get(key)
    return value if isinstance(value, str) and 0 < len(value) <= MAX_PATH and not unfit(value) else None


def _no_constant(name: str) -> Any:
    raise ValueError(name)
