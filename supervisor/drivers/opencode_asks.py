"""What opencode asks for, and how it is told what was decided. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from supervisor.core.ask_words import denial
from supervisor.core.asks import Decision
from supervisor.runtime.tool_use import PermissionAsk, Unclear, tool_use

_ID = re.compile(r"[A-Za-z0-9_-]{1,200}\Z")
_TOOLS: Mapping[str, tuple[str, str]] = {
    "bash": ("command", "command"),
    "edit": ("filepath", "file_path"),
    "write": ("filepath", "file_path"),
    "read": ("filepath", "file_path"),
    "webfetch": ("url", "url"),
}
"""A permission → where in its metadata stands what it is used on, and how we name that."""


def ask_id(raw: Any) -> str | None:
    """The id of an ask, if it is one that can stand in an address."""
    return raw if isinstance(raw, str) and _ID.match(raw) else None


def wanted(ask: Mapping[str, Any], *, cwd: str) -> PermissionAsk | Unclear:
    """What a `permission.asked` is about.

    Its patterns are what `always` would allow, or parts of a command: what is judged is the command itself.
    """
    name, metadata, patterns = ask.get("permission"), ask.get("metadata"), ask.get("patterns")
    if not isinstance(name, str):
        return Unclear("the request names no permission")
    about = dict(metadata) if isinstance(metadata, dict) else {}
    if isinstance(patterns, list):
        about["patterns"] = patterns
    if name in _TOOLS:
        theirs, ours = _TOOLS[name]
        about[ours] = about.get(theirs)
    found = tool_use(name, about, cwd)
    if isinstance(found, Unclear):
        return found
    session = ask.get("sessionID")
    if name == "external_directory" and isinstance(patterns, list) and len(patterns) == 1:
        checked = tool_use("bash", {"command": patterns[0]}, cwd)  # as strict as with any other text
        if isinstance(checked, PermissionAsk):
            found = found._replace(value=checked.value)
    return found._replace(session=session) if isinstance(session, str) else found


def reply(decision: Decision) -> dict[str, str]:
    """`once`, or `reject` with the reason. Never `always`: that holds for every other session of the server too."""
    if decision.approved is True:
        return {"reply": "once"}
    return rejection(denial(decision))


def rejection(why: str) -> dict[str, str]:
    """With a message the model goes on, and is told."""
    return {"reply": "reject", "message": why}
