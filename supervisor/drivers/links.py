"""How messages get to a CLI and from it: JSON lines over its standard input and output. Other links have this shape."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol


class Garbled(NamedTuple):
    """What was read is no message."""

    why: str


Write = Callable[[bytes], None]
Post = Callable[[Any], None]
"""Hands a message to the driver, from any thread."""


class Link(Protocol):
    """`start` once; `line` gets what the CLI prints on its standard output, and says which messages that is."""

    def start(self, *, write: Write, post: Post) -> None: ...
    def line(self, line: bytes) -> Sequence[Any]: ...
    def send(self, message: Any) -> None: ...
    def close(self) -> None: ...


class JsonLines:
    """One JSON object a line."""

    def __init__(self) -> None:
        self._write: Write = lambda _data: None

    def start(self, *, write: Write, post: Post) -> None:
        """`write` queues bytes for the CLI's standard input."""
        self._write = write

    def line(self, line: bytes) -> Sequence[Any]:
        """The message in a line; an empty line is none."""
        if not line.strip():
            return ()
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if isinstance(message, dict):
            return (message,)
        return (Garbled(f"it said what is no JSON object: {line[:200].decode(errors='replace')}"),)

    def send(self, message: Any) -> None:
        """Queue one message."""
        self._write(json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode(errors="replace") + b"\n")

    def close(self) -> None:
        """There is nothing to end: the driver closes the CLI's standard input."""
