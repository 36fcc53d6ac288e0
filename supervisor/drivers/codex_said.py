"""What Codex does, in words for the transcript. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from supervisor.core.text import one_line
from supervisor.drivers.codex_asks import paths_of, text_of, unwrapped
from supervisor.drivers.effects import Say

MAX_RESULT = 2_000
"""Characters of a command's output in the transcript; the whole is in the session file."""


def said(item: Mapping[str, Any], *, completed: bool) -> Say | None:
    """An item that begins or is complete; None when there is nothing to tell."""
    kind = item.get("type")
    if kind == "agentMessage" and completed:
        return Say("text", text_of(item, "text"))
    if kind == "commandExecution":
        if not completed:
            return Say("tool", f"bash: {unwrapped(text_of(item, 'command'))}")
        code = item.get("exitCode")
        head = f"exit code {code}" if isinstance(code, int) else text_of(item, "status")
        return Say("result", f"{head}\n{text_of(item, 'aggregatedOutput')[-MAX_RESULT:]}".strip())
    if kind == "fileChange":
        what = f"edit: {', '.join(paths_of(item.get('changes')))}"
        return Say("result" if completed else "tool", f"{what} ({text_of(item, 'status')})" if completed else what)
    if kind in ("mcpToolCall", "webSearch", "collabAgentToolCall", "dynamicToolCall") and not completed:
        return Say(
            "tool", one_line(f"{kind}: {text_of(item, 'tool') or text_of(item, 'query')} {text_of(item, 'prompt')}")
        )
    return None
