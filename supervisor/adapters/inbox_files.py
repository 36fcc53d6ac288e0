"""Who attends: a small file per open inbox, and per program that decides. Owns `<home>/run/inboxes`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from supervisor.adapters.atomic_file import make_private, read_bounded, write_atomic
from supervisor.core.serving import ServingBeat, encode_beat, parse_beat

ALL_SESSIONS = "*"
DECIDES = "\ndecides "
"""Before the session's id in the mark of a program that decides for it beside its keeper: no id begins so."""


class InboxFiles:
    """Presence marks, beaten like heartbeats; a mark of a dead inbox is worth nothing."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def attend(self, inbox_id: str, beat: ServingBeat) -> None:
        """Write or renew a mark.

        Raises:
            OSError: it could not be written.
        """
        make_private(self._folder)
        write_atomic(os.path.join(self._folder, f"{inbox_id}.json"), encode_beat(beat))

    def leave(self, inbox_id: str) -> None:
        """Nobody attends here any more."""
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._folder, f"{inbox_id}.json"))

    def marks(self) -> Sequence[ServingBeat]:
        """All marks, also of inboxes that were killed (judge them)."""
        try:
            paths = [f.path for f in os.scandir(self._folder) if f.name.endswith(".json") and f.name[0] != "."]
        except OSError:
            return ()
        found = []
        for path in paths:
            with contextlib.suppress(OSError):
                data = read_bounded(path, 4096)
                mark = parse_beat(data) if data else None
                if mark is not None:
                    found.append(mark)
        return found
