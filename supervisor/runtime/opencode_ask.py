"""What opencode asks for, as it tells it in its events: to a driver and to a plugin of ours alike. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from supervisor.runtime.tool_use import PermissionAsk, Unclear, tool_use

_TOOLS: Mapping[str, tuple[str, str]] = {
    "bash": ("command", "command"),
    "edit": ("filepath", "file_path"),
    "write": ("filepath", "file_path"),
    "read": ("filepath", "file_path"),
    "webfetch": ("url", "url"),
}
"""A permission → where in its metadata stands what it is used on, and how we name that."""


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
