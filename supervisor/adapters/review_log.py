"""The review log: JSON lines, owner-only, bounded. Owns `<home>/logs/asks.jsonl`; standard library only."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

MAX_LOG_BYTES = 8 * 1024 * 1024
"""Then the log is moved to `.1`, so that two of this size are kept."""


class ReviewLog:
    """One event a line, appended by one write: lines of several processes never mix."""

    def __init__(self, path: str) -> None:
        self._path = path

    def append(self, event: str, fields: Mapping[str, Any], *, at: int) -> None:
        """Add an event. A log that cannot be written loses a line, never an ask."""
        line = json.dumps({"at": at, "event": event, **fields}, ensure_ascii=False, separators=(",", ":"))
        with contextlib.suppress(OSError):
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.write(fd, line.encode("utf-8", "replace") + b"\n")
                too_long = os.fstat(fd).st_size > MAX_LOG_BYTES
            finally:
                os.close(fd)
            if too_long and os.stat(self._path).st_size > MAX_LOG_BYTES:  # else another process has just moved it
                os.replace(self._path, f"{self._path}.1")

    def read(self, mention: str = "") -> Iterator[dict[str, Any]]:
        """All events, oldest first, or those whose line holds this text; torn lines are skipped."""
        wanted = json.dumps(mention, ensure_ascii=False)[1:-1].encode("utf-8", "replace")
        for path in (f"{self._path}.1", self._path):
            try:
                with open(path, "rb") as file:
                    for line in file:
                        if wanted not in line:
                            continue
                        with contextlib.suppress(ValueError, RecursionError):
                            raw = json.loads(line)
                            if isinstance(raw, dict):
                                yield raw
            except OSError:
                continue
