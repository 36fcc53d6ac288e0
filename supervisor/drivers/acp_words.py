"""The model's words, which come in pieces, put together to lines. Pure."""

from __future__ import annotations

from typing import Any

from supervisor.drivers.effects import Effects, Say

MAX_HELD = 16 * 1024
"""Characters of an unfinished line that are held back; a longer one is said in parts."""


class Words:
    """What was said since the last whole line."""

    def __init__(self) -> None:
        self._held = ""

    def add(self, text: Any) -> Effects:
        """A piece; the lines that it completes."""
        if not isinstance(text, str):
            return ()
        whole, newline, rest = (self._held + text).rpartition("\n")
        if len(rest) > MAX_HELD:
            whole, newline, rest = whole + newline + rest, "", ""
        self._held = rest
        return (Say("text", whole),) if whole.strip() else ()

    def flush(self) -> Effects:
        """Something else happens: what was held is all that comes."""
        held, self._held = self._held, ""
        return (Say("text", held),) if held.strip() else ()
