"""What Claude Code does, in words for the transcript. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from supervisor.core.text import one_line
from supervisor.drivers.effects import Effects, Say
from supervisor.runtime.tool_use import PermissionAsk, tool_use

MAX_RESULT = 2_000
"""Characters of a tool's result in the transcript; the whole is in the session file."""


def said(message: Mapping[str, Any]) -> Effects:
    """A message of the model, or what a tool has given it."""
    below = message.get("parent_tool_use_id")
    return [one._replace(text=f"(sub-agent) {one.text}") if below else one for one in _said(message)]


def _said(message: Mapping[str, Any]) -> Iterator[Say]:
    body = message.get("message")
    content = body.get("content") if isinstance(body, dict) else None
    of_model = message.get("type") == "assistant"
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, dict):
            continue
        if of_model and part.get("type") == "text" and isinstance(part.get("text"), str):
            yield Say("text", part["text"])
        elif of_model and part.get("type") == "tool_use":
            yield Say("tool", _tool(part))
        elif not of_model and part.get("type") == "tool_result":
            yield Say("result", _text(part.get("content"))[:MAX_RESULT])


def _tool(part: Mapping[str, Any]) -> str:
    used = tool_use(part.get("name"), part.get("input"), "/")
    if isinstance(used, PermissionAsk):
        return f"{used.tool}: {one_line(used.value, 1000)}"
    return one_line(str(part.get("name")), 200)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "".join(p["text"] for p in parts if isinstance(p, dict) and isinstance(p.get("text"), str))
