"""What was learned of a program by running it, kept until the file changes. Owns `<home>/binaries.json`.

A file is known by inode, size and ctime: npm gives all files of all versions one and the same mtime.
"""

from __future__ import annotations

import json
import os
from typing import Any

from supervisor.adapters.atomic_file import read_bounded, write_atomic

_MOST = 64
"""Programs; the oldest go first."""


class BinaryNotes:
    """Notes by program and topic. A lost or broken file costs a run of each program, nothing else."""

    def __init__(self, path: str) -> None:
        self._path = path

    def get(self, program: str, topic: str) -> Any:
        """What was noted for the program as it is now; None when nothing was."""
        note = self._all().get(os.path.realpath(program))
        known = isinstance(note, dict) and note.get("stamp") == _stamp(program) and note.get("topics")
        return known.get(topic) if isinstance(known, dict) else None

    def put(self, program: str, topic: str, value: Any) -> None:
        """Note it; what cannot be written is asked again next time."""
        notes, name, stamp = self._all(), os.path.realpath(program), _stamp(program)
        before = notes.pop(name, None)
        same = isinstance(before, dict) and before.get("stamp") == stamp and isinstance(before.get("topics"), dict)
        notes[name] = {"stamp": stamp, "topics": {**(before["topics"] if same and before else {}), topic: value}}
        kept = dict(list(notes.items())[-_MOST:])
        try:
            write_atomic(self._path, json.dumps(kept, indent=1).encode())
        except OSError:
            return

    def _all(self) -> dict[str, Any]:
        try:
            raw = json.loads(read_bounded(self._path) or b"{}")
        except (OSError, ValueError, RecursionError):
            return {}
        return raw if isinstance(raw, dict) else {}


def _stamp(program: str) -> list[int]:
    try:
        seen = os.stat(program)
    except OSError:
        return []
    return [seen.st_ino, seen.st_size, seen.st_ctime_ns]
