"""The entry that this process has registered for itself, and its heartbeat. Driven by the host's thread.

Owns the record and the heartbeat file; a wish to stop becomes TERM to our own process, KILL after the grace.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable

from msgspec.structs import replace

from supervisor.core import transitions
from supervisor.core.ending import ended
from supervisor.core.entry import Entry, HandOff, KeeperRef, WindingDown, is_live
from supervisor.core.errors import SupervisorError
from supervisor.core.liveness import Now, next_beat
from supervisor.core.ports import Exit
from supervisor.core.timing import MS
from supervisor.runtime.parts import Parts
from supervisor.runtime.record import Record


class OwnEntry:
    """`register` first. `last_rites` is run before a signal that certainly ends us."""

    def __init__(self, parts: Parts, entry: Entry, keeper: KeeperRef, *, last_rites: Callable[[], None]) -> None:
        self._parts = parts
        self._keeper = keeper
        self._last_rites = last_rites
        self._record = Record(entry, parts.store)
        self._beats = self._entry_due = 0
        self._kill_at: int | None = None

    @property
    def entry(self) -> Entry:
        """As it is on record."""
        return self._record.entry

    @property
    def lost(self) -> bool:
        """Whether another keeper has taken it over."""
        return self._record.lost

    def register(self) -> None:
        """A heartbeat comes before the record that names it.

        Raises:
            OSError: the state root does not take it.
        """
        self.beat(self._parts.now())
        self._parts.store.create(self.entry)
        self._parts.store.sync()

    def remove_beat(self) -> None:
        """A clean end leaves no heartbeat."""
        with contextlib.suppress(OSError):
            self._parts.beats.remove(self._keeper.keeper_id)

    def close(self, end: Callable[[int], HandOff], now: Now) -> None:
        """Write the end, unless somebody else has."""
        record = self._record
        record.look()
        if not record.lost and is_live(record.entry):
            self._write_end(end(now.wall_ms), now)
        with contextlib.suppress(OSError):
            self._parts.bells.unmark_stop(self.entry.entry_id)
        self.remove_beat()

    def _write_end(self, end: HandOff, now: Now) -> None:
        self._record.change(lambda e: transitions.closed(e, end, now=now.wall_ms) if is_live(e) else e)
        with contextlib.suppress(OSError, SupervisorError):
            self._parts.store.sync()

    def beat(self, now: Now) -> None:
        """One more beat.

        Raises:
            OSError: it could not be written.
        """
        self._beats += 1
        self._parts.beats.beat(next_beat(self._keeper, self._beats, now))

    def look_after(self, now: Now) -> None:
        """Take in what others wrote, renew `heartbeatAt`, and follow a wish to stop."""
        record = self._record
        record.look()
        record.flush()
        if record.lost:
            return
        if now.monotonic_ns >= self._entry_due:
            self._entry_due = now.monotonic_ns + self._parts.limits.heartbeat_ms * MS
            record.change(lambda e: replace(e, heartbeat_at=now.wall_ms))
        if record.entry.want == "down" or self._parts.bells.stop_marked(record.entry.entry_id):
            self._stop(record, now)

    def _stop(self, record: Record, now: Now) -> None:
        """Wanted down: TERM to our own process, KILL after the grace, as for every agent."""
        if self._kill_at is None:
            grace = record.entry.stop_grace_ms
            self._kill_at = now.monotonic_ns + (record.entry.plan.stop_grace_ms if grace is None else grace) * MS
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                return self._die(record, signal.SIGTERM, now)
            if not isinstance(record.entry.state, WindingDown):
                record.change(lambda e: transitions.winding_down(e, "user_cleanup", now=now.wall_ms))
            _to_ourselves(signal.SIGTERM)
        elif now.monotonic_ns >= self._kill_at:
            self._die(record, signal.SIGKILL, now)
        return None

    def _die(self, record: Record, number: signal.Signals, now: Now) -> None:
        """By a signal that certainly ends us: nobody is left to write the end afterwards, so it is written before."""
        self._last_rites()
        self._write_end(ended(Exit(signal=int(number)), record.entry.plan, stopped=True, now=now.wall_ms), now)
        with contextlib.suppress(OSError):
            self._parts.bells.unmark_stop(record.entry.entry_id)
        self.remove_beat()
        _to_ourselves(number)


def _to_ourselves(number: signal.Signals) -> None:
    """To the main thread: it must be woken from whatever it waits in. (`Signals` never takes ourselves as target.)"""
    ident = threading.main_thread().ident
    if ident is not None:
        signal.pthread_kill(ident, number)
