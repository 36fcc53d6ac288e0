"""What opencode's parts of messages are in a transcript: the model's words once whole, tools, results. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from supervisor.core.text import one_line
from supervisor.drivers.effects import Effects, Say

MAX_RESULT = 2_000
"""Characters of what came of a tool that are said."""

KEPT = 1024
"""Parts that are remembered as said."""


class Said:
    """Each part is told several times; it is said once."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], None] = {}

    def part(self, part: Any, *, own: bool) -> Effects:
        """A part of a message; of a subagent's session only what its tools do."""
        if not isinstance(part, dict) or not isinstance(part.get("id"), str):
            return ()
        if part.get("type") == "text" and own:
            return self._text(part)
        return self._tool(part) if part.get("type") == "tool" else ()

    def _text(self, part: Mapping[str, Any]) -> Effects:
        """A prompt of ours has no times; words that still grow have no end."""
        time, text = part.get("time"), part.get("text")
        whole = isinstance(time, dict) and "end" in time
        return (Say("text", text),) if whole and isinstance(text, str) and self._first(part, "text") else ()

    def _tool(self, part: Mapping[str, Any]) -> Effects:
        state = part.get("state")
        state = state if isinstance(state, dict) else {}
        status = state.get("status")
        if status == "running" and self._first(part, "tool"):
            return (Say("tool", f"{one_line(str(part.get('tool')))} {_input(state.get('input'))}"),)
        if status == "completed" and self._first(part, "result"):
            return (Say("result", str(state.get("output") or "(nothing)")[:MAX_RESULT]),)
        if status == "error" and self._first(part, "result"):
            return (Say("result", f"failed: {state.get('error')}"[:MAX_RESULT]),)
        return ()

    def _first(self, part: Mapping[str, Any], what: str) -> bool:
        key = (str(part["id"]), what)
        if key in self._said:
            return False
        self._said[key] = None
        if len(self._said) > KEPT:
            del self._said[next(iter(self._said))]
        return True


def _input(given: Any) -> str:
    if isinstance(given, dict) and isinstance(given.get("command"), str):
        return one_line(given["command"], 2000)
    return one_line(json.dumps(given, ensure_ascii=False), 2000)
