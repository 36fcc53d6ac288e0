"""Remembered approvals: one small file per session that granted them. Owns `<home>/approvals`."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from supervisor.adapters.atomic_file import locked, make_private, read_bounded, write_atomic
from supervisor.core.ids import encode
from supervisor.core.rules import Approval

MAX_APPROVALS = 1000
_decoder = msgspec.json.Decoder(tuple[Approval, ...])


class ApprovalFiles:
    """What each session remembers. A grant dies with its session's file; an adopted child does not bring it along."""

    def __init__(self, folder: str, locks: str) -> None:
        self._folder = folder
        self._lock = os.path.join(locks, "approvals")

    def of(self, session: str) -> Sequence[Approval]:
        """The approvals that a session has granted; a malformed file grants nothing."""
        try:
            data = read_bounded(self._path(session))
            return _decoder.decode(data) if data else ()
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return ()

    def stamp(self, session: str) -> int:
        """Changes with the file."""
        try:
            return os.stat(self._path(session)).st_mtime_ns
        except OSError:
            return 0

    def add(self, approval: Approval) -> None:
        """Remember one more (the oldest are forgotten past the bound).

        Raises:
            OSError: it could not be written.
        """
        make_private(self._folder)
        with locked(self._lock):
            known = [a for a in self.of(approval.granted_by) if not _same(a, approval)]
            data = msgspec.json.encode([*known, approval][-MAX_APPROVALS:])
            write_atomic(self._path(approval.granted_by), data, durable=True)

    def _path(self, session: str) -> str:
        return os.path.join(self._folder, f"{encode(session)}.json")


def _same(one: Approval, other: Approval) -> bool:
    return (one.tool, one.value, one.child) == (other.tool, other.value, other.child)
