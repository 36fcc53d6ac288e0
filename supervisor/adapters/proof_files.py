"""What hooks and drivers have written about their sessions, `<home>/proofs/<entry id>.json`. Reads and removes only."""

from __future__ import annotations

import contextlib
import os

from supervisor.adapters.atomic_file import read_bounded
from supervisor.core.ids import encode
from supervisor.core.session_proof import MAX_PROOF


class ProofFiles:
    """The proofs of one state root."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._seen = -1

    def stirred(self) -> bool:
        """Whether the folder has changed since the last call; twice for one change, for its time is coarse."""
        try:
            now = os.stat(self._folder).st_mtime_ns
        except OSError:
            now = 0
        changed, self._seen = now != self._seen, now if self._seen in (now, -1) else -1
        return changed

    def stamp(self, entry_id: str) -> int:
        """Changes when the proof does (each is a new file); 0 when there is none."""
        try:
            seen = os.stat(self._path(entry_id), follow_symlinks=False)
        except OSError:
            return 0
        return seen.st_mtime_ns ^ (seen.st_ino << 1)

    def read(self, entry_id: str) -> bytes:
        """The proof; empty when there is none that could be read."""
        try:
            return read_bounded(self._path(entry_id), MAX_PROOF) or b""
        except OSError:
            return b""

    def remove(self, entry_id: str) -> None:
        """Its entry is removed, so is the proof."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(entry_id))

    def _path(self, entry_id: str) -> str:
        return os.path.join(self._folder, f"{encode(entry_id)}.json")
