"""Agents' output on a terminal: colours pass, everything else that could drive the terminal is made visible. Pure."""

from __future__ import annotations

import codecs
import re

from supervisor.core.text import printable

_COLOUR = re.compile(r"(\x1b\[[0-9;:]{0,64}m)")
_OPEN = re.compile(r"\x1b(?:\[[0-9;:]{0,64})?\Z|\r\Z")
RESET = "\x1b[0m"


class Harmless:
    """A stream of bytes as text for a terminal, chunk by chunk; sequences and characters may be cut anywhere."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""
        self._coloured = False

    def feed(self, data: bytes) -> str:
        """What can be shown now. An unfinished sequence at the end waits for the next chunk."""
        text = self._held + self._decoder.decode(data)
        unfinished = _OPEN.search(text)
        self._held = text[unfinished.start() :] if unfinished else ""
        return self._clean(text[: unfinished.start()] if unfinished else text)

    def end(self) -> str:
        """The rest, and the colours put back."""
        rest = self._clean(self._held + self._decoder.decode(b"", True))
        self._held = ""
        return rest + (RESET if self._coloured else "")

    def _clean(self, text: str) -> str:
        """A carriage return would let later output cover earlier one, so it starts a line."""
        parts = _COLOUR.split(text.replace("\r\n", "\n").replace("\r", "\n"))
        self._coloured = self._coloured or len(parts) > 1
        return "".join(part if number % 2 else printable(part) for number, part in enumerate(parts))
