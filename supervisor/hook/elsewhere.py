"""Claude's own dialog may answer while the hook waits, and nobody tells the hook: the transcript does.

Reads what is appended to one transcript; on any doubt the ask has not been answered.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

BEFORE = 1024 * 1024
"""How far before our start the call itself may stand (claude writes it before, or some 200 ms after, it runs us)."""

AT_ONCE = 4 * 1024 * 1024
"""Read at one look; a longer line is passed over."""


class Elsewhere:
    """Whether the call that we ask about has its result. `since_ms`: our start; an older result is another call's."""

    def __init__(self, path: str, *, tool_name: str, tool_input: Mapping[str, Any], since_ms: int) -> None:
        self._path = path
        self._call = (tool_name, tool_input)
        self._since_ms = since_ms
        self._size = self._size_now()
        self._at = max(self._size - BEFORE, 0)
        self._message: object = None
        self._open: set[str] = set()
        self._answered = False

    def __call__(self) -> bool:
        """One look: a stat, and only when the file has changed a read of what is new."""
        size = self._size_now()
        if self._answered or size == self._size:
            return self._answered
        if size < self._at:  # written anew
            self._at = 0
        self._size = size
        for line in self._new_lines():
            self._take(line)
        return self._answered

    def _size_now(self) -> int:
        try:
            return os.stat(self._path).st_size
        except OSError:
            return 0

    def _new_lines(self) -> list[bytes]:
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return []
        try:
            data = os.pread(fd, AT_ONCE, self._at)
        except OSError:
            return []
        finally:
            os.close(fd)
        end = data.rfind(b"\n") + 1
        if not end and len(data) == AT_ONCE:
            end = len(data)
        self._at += end
        if self._at < self._size and len(data) == AT_ONCE:
            self._size = -1  # there is more: read on at the next look
        return [line for line in data[:end].split(b"\n") if b'"tool_' in line]

    def _take(self, line: bytes) -> None:
        try:
            raw = json.loads(line)
        except (ValueError, RecursionError):
            return
        message = raw.get("message") if isinstance(raw, dict) else None
        if not isinstance(message, dict):
            return
        for part in _parts(message):
            if part.get("type") == "tool_use" and (part.get("name"), part.get("input")) == self._call:
                self._called(message.get("id"), part.get("id"))
            elif part.get("type") == "tool_result":
                self._got(part.get("tool_use_id"), raw.get("timestamp"))

    def _called(self, message: object, call: object) -> None:
        if message != self._message:  # calls of earlier turns are over, with or without a result
            self._message, self._open = message, set()
        if isinstance(call, str):
            self._open.add(call)

    def _got(self, call: object, stamp: object) -> None:
        """Of several equal calls in one message nobody can say which is ours: it has its result when all have."""
        if not isinstance(call, str) or call not in self._open:
            return
        late = _epoch_ms(stamp) >= self._since_ms
        self._open.discard(call)
        self._answered = self._answered or (late and not self._open)


def _parts(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict):
            yield part


def _epoch_ms(stamp: object) -> float:
    """`2026-11-30T13:21:46.159Z`; anything else is long ago."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(str(stamp)).timestamp() * 1000
    except (ValueError, OverflowError):
        return 0
