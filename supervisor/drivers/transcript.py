"""What a driver prints for people: the model's words, the tools it uses, asks and what became of them, errors.

Owns standard output. A disk that takes nothing never stops the agent.
"""

from __future__ import annotations

import os

from supervisor.core.text import bounded, printable
from supervisor.drivers.effects import Kind

MAX_SAID = 256 * 1024
"""Characters of one thing that is said."""

_HEADS: dict[Kind, str] = {"text": "", "tool": "[tool] ", "result": "[result] ", "note": "[", "error": "[error] "}


class Transcript:
    """Writes to a descriptor, whole lines at a time."""

    def __init__(self, fd: int = 1) -> None:
        self._fd = fd

    def say(self, kind: Kind, text: str) -> None:
        """One thing that happened; control characters are shown, not obeyed."""
        shown = printable(bounded(text, MAX_SAID).replace("\r\n", "\n")).rstrip()
        if not shown:
            return
        tail = "]\n" if kind == "note" else "\n"
        data = (_HEADS[kind] + shown + tail).encode(errors="replace")
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError:
            return
