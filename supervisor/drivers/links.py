"""How messages get to a CLI and from it: JSON lines over its standard input and output. Other links have this shape."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol


class Garbled(NamedTuple):
    """What was read is no message."""

    why: str


Write = Callable[[bytes], None]
Post = Callable[[Any], None]
"""Hands a message to the driver, from any thread."""


class Around(NamedTuple):
    """What a link may use. `listens`: whether the CLI listens on that loopback port; `wait` waits so many ms.

    `wait` raises `ToldToEnd` when the driver is told to end meanwhile.
    """

    write: Write
    post: Post
    listens: Callable[[int], bool]
    wait: Callable[[int], None]
    note: Callable[[str], None]


class ToldToEnd(Exception):
    """A signal came while nothing was running yet."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Link(Protocol):
    """`start` once, before the CLI is: what is in the way of that, if something is. `environment`: for the CLI.

    `line` gets what the CLI prints on its standard output, and says which messages that is. `ended`: the CLI is gone.
    """

    def start(self, around: Around) -> str | None: ...
    def environment(self) -> Mapping[str, str]: ...
    def line(self, line: bytes) -> Sequence[Any]: ...
    def send(self, message: Any) -> None: ...
    def close(self) -> None: ...
    def ended(self) -> None: ...


class JsonLines:
    """One JSON object a line."""

    def __init__(self) -> None:
        self._write: Write = lambda _data: None

    def start(self, around: Around) -> str | None:
        """Nothing is in the way."""
        self._write = around.write
        return None

    def environment(self) -> Mapping[str, str]:
        """It needs no variables."""
        return {}

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

    def ended(self) -> None:
        """There is nothing to put in order."""
