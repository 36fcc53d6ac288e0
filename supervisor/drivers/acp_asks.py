"""What an ACP agent wants to do, read off its tool calls; and which of its options says what was decided. Pure.

Agents differ in where they say it: some in the request's `rawInput`, some in an update before it, Gemini in the title
(which of a shell command is the whole command) and in the path of a diff.
"""

from __future__ import annotations

import os.path
import shlex
from collections.abc import Mapping
from typing import Any

from supervisor.core.text import one_line
from supervisor.drivers.effects import Effects, Say
from supervisor.runtime.tool_use import PermissionAsk, Unclear, tool_use

KNOWN_CALLS = 256
"""Tool calls that are remembered; an older one is forgotten, and an ask about it is judged by what it says itself."""

MAX_RESULT = 2_000
"""Characters of what came of a call that are said."""

_SHOWN = ("title", "kind", "rawInput", "content", "locations")
_PATHS = ("file_path", "filePath", "path", "filepath", "abs_path")
_OVER = {"completed": "", "failed": "failed: "}


class ToolCalls:
    """The calls of one agent, by their ids."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._calls: dict[str, dict[str, Any]] = {}

    def update(self, update: Mapping[str, Any]) -> Effects:
        """A `session/update`; what to say of it."""
        kind, name = update.get("sessionUpdate"), update.get("toolCallId")
        if kind not in ("tool_call", "tool_call_update") or not isinstance(name, str):
            return ()
        before = self._calls.pop(name, {})
        call = {**before, **{k: v for k in _SHOWN if (v := update.get(k))}}
        self._calls[name] = call
        if len(self._calls) > KNOWN_CALLS:
            del self._calls[next(iter(self._calls))]
        said: list[Say] = []
        title = call.get("title")
        if isinstance(title, str) and title != before.get("title"):
            said.append(Say("tool", one_line(title, 2000)))
        status = update.get("status")
        if isinstance(status, str) and status in _OVER:
            shown = _text_of(update.get("content"))[:MAX_RESULT] or "(nothing to show)"
            said.append(Say("result", _OVER[status] + shown))
        return said

    def wanted(self, params: Mapping[str, Any]) -> PermissionAsk | Unclear:
        """What a `session/request_permission` is about."""
        call = params.get("toolCall")
        if not isinstance(call, dict):
            return Unclear("the request names no tool call")
        known = self._calls.get(call["toolCallId"], {}) if isinstance(call.get("toolCallId"), str) else {}
        merged = {**known, **{k: v for k in _SHOWN if (v := call.get(k))}}
        wanted = tool_use(*_tool(merged, self._cwd), self._cwd)
        session = params.get("sessionId")
        if isinstance(wanted, PermissionAsk) and isinstance(session, str):
            return wanted._replace(session=session)
        return wanted


def choose(options: list[Any], kind: str) -> str | None:
    """The id of the first option of a kind; what it is called and where it stands says nothing."""
    for option in options:
        if isinstance(option, dict) and option.get("kind") == kind and isinstance(option.get("optionId"), str):
            return str(option["optionId"])
    return None


def _tool(call: Mapping[str, Any], cwd: str) -> tuple[str, Mapping[str, Any]]:
    """Our name of the tool and its input, with what we judge it by under the name that we know."""
    raw = call.get("rawInput")
    raw = dict(raw) if isinstance(raw, dict) else {}
    kind = call.get("kind")
    kind = kind if isinstance(kind, str) else "execute" if isinstance(raw.get("command"), str) else "other"
    title = call.get("title")
    about = {"title": title} if isinstance(title, str) else {}
    if text := _text_of(call.get("content")):
        about["about"] = text
    if kind == "execute":
        return "bash", {**about, **raw, "command": _command(raw.get("command", title))}
    if kind == "fetch":
        return "webfetch", {"url": title, **about, **raw}
    return kind, {**about, **raw, **_path(call, raw, cwd)}


def _command(given: Any) -> Any:
    """Some agents give the words of a command line."""
    if isinstance(given, list) and all(isinstance(word, str) for word in given):
        return shlex.join(given)
    return given


def _path(call: Mapping[str, Any], raw: Mapping[str, Any], cwd: str) -> dict[str, Any]:
    """The one path that it is about. Of two nobody can say which: none, and so it is refused where a path is needed."""
    found = [v for k in _PATHS if isinstance(v := raw.get(k), str)]
    found += [str(part.get("path")) for part in _parts(call.get("content")) if part.get("type") == "diff"]
    if not found:
        found = [str(part["path"]) for part in _parts(call.get("locations")) if "path" in part]
    paths = sorted({os.path.normpath(os.path.join(cwd, path)) for path in found})
    return {"file_path": paths[0] if len(paths) == 1 else None, "paths": paths}


def _parts(value: Any) -> list[Mapping[str, Any]]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def _text_of(content: Any) -> str:
    """What is written in the content of a call, and which files its diffs change."""
    lines = []
    for part in _parts(content):
        inner = part.get("content")
        if isinstance(inner, dict) and isinstance(inner.get("text"), str):
            lines.append(inner["text"])
        elif part.get("type") == "diff":
            lines.append(f"changes {part.get('path')}")
    return "\n".join(lines)
