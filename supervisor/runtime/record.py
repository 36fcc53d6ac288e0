"""One entry as its keeper writes it: compare-and-swap with retries, and nothing lost while the disk says no.

Owns the keeper's view of the entry; decides nothing. Moves are functions Entry → Entry, replayed on a fresh record when
somebody else (a stop, an adoption) has written in between.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from msgspec.structs import replace

from supervisor.core.entry import Entry, Starting, is_live
from supervisor.core.errors import IllegalMove
from supervisor.core.ports import EntryStore
from supervisor.runtime.logs import warn

Move = Callable[[Entry], Entry]
_TRIES = 16
_TRIES_WITHOUT_ROOT = 8
"""Two seconds of ticks: a root that is put back at once, from a copy, finds nothing missing."""


class Record:
    """`entry` is what should be on disk; `dirty` when it could not be written yet; `lost` when it is not ours now.

    `taken` counts what others wrote and was taken in, also by the way, with a write of ours.
    """

    def __init__(self, entry: Entry, store: EntryStore) -> None:
        self.entry = entry
        self._on_disk = entry
        self._store = store
        self._pending: list[Move] = []
        self.lost = False
        self.taken = 0
        self._without_root = 0

    @property
    def dirty(self) -> bool:
        """Whether moves wait for a disk that takes them."""
        return bool(self._pending)

    @property
    def over(self) -> bool:
        """Nothing to write any more: another has it, or its end is on disk, or the agent is gone and so is its root."""
        live = is_live(self.entry)
        if self._homeless and (not live or isinstance(self.entry.state, Starting)):  # no intent, so no process either
            return True
        return self.lost or not (live or self.dirty)

    @property
    def _homeless(self) -> bool:
        """Whether moves wait for a state root that was removed, and was not put back while they were tried."""
        return self.dirty and self._without_root >= _TRIES_WITHOUT_ROOT

    def change(self, move: Move) -> None:
        """Apply a move in memory and on disk."""
        self._without_root = 0
        self._pending.append(move)
        self.entry = move(self.entry)
        self.flush()

    def touch(self, heartbeat_at: int) -> None:
        """Renew `heartbeatAt`: in place where the record is as we wrote it, else as any other change."""
        try:
            touched = None if self._pending else self._store.touch(self._on_disk, heartbeat_at)
        except OSError:
            return  # a beat that a full disk refuses is no loss: the next one comes
        if touched is None:
            self.change(lambda e: replace(e, heartbeat_at=heartbeat_at))
        else:
            self.entry = self._on_disk = touched

    def flush(self) -> None:
        """Write pending moves. A full disk keeps them; a record that another keeper has taken makes us let go."""
        for _ in range(_TRIES):
            if not self._pending or self.lost:
                return
            try:
                if self._attempt():
                    return
            except OSError as error:
                self._refused(error)
                return

    def _refused(self, error: OSError) -> None:
        self._without_root = self._without_root + 1 if self._store.removed() else 0
        told = "its state root was removed" if self._homeless else "it is kept and tried again"
        warn(f"a record could not be written, {told}", agent=self.entry.name, why=str(error))

    def look(self) -> None:
        """`refresh` when the file is not the one last seen (a stat); a disk that cannot be read is looked at later."""
        try:
            if self._store.changed([self.entry]):
                self.refresh()
        except OSError as error:
            warn("a record could not be read, it is read again", agent=self.entry.name, why=str(error))

    def refresh(self) -> None:
        """Take in what others wrote (a stop request, an adoption), then replay our own pending moves.

        The record of a live agent that was removed or set aside is registered again: who sees none starts a second one.
        """
        current = self._store.read(self.entry.key)
        if current is None and is_live(self.entry) and not self.lost:
            with contextlib.suppress(FileNotFoundError):  # the whole matrix is gone: that is no matter of one record
                self._register_again()
        if current is None or current == self._on_disk:
            return
        self._rebase(current)
        self.flush()

    def _attempt(self) -> bool:
        result = self._store.replace_if_unchanged(self._on_disk, self.entry)
        if isinstance(result, Entry):
            self.entry = self._on_disk = result
            self._pending.clear()
            return True
        if result.current is None:
            return self._register_again()
        self._rebase(result.current)
        return False

    def _register_again(self) -> bool:
        """Somebody removed the record of an agent that we keep: nothing is lost by that."""
        if self._store.create(self.entry) is not None:
            return False
        self._on_disk = self.entry
        self._pending.clear()
        return True

    def _rebase(self, current: Entry) -> None:
        if (
            current.keeper != self.entry.keeper
            or current.entry_id != self.entry.entry_id
            or current.generation.nonce != self._on_disk.generation.nonce
        ):
            self.lost = True
            return
        self.taken += 1
        self._on_disk = fresh = current
        try:
            for move in self._pending:
                fresh = move(fresh)
        except IllegalMove as error:
            warn("another writer moved the record on, ours is dropped", agent=self.entry.name, why=str(error))
            self._pending.clear()
            fresh = current
        self.entry = fresh
