"""Telling how an agent ended, to whom it is addressed. Told first, noted then.

Whoever is killed between the two leaves an end that is told once more, never one that nobody was told of. Of several
who tell at once one notes it; who comes later finds it noted and is silent.
"""

from __future__ import annotations

from collections.abc import Callable

from supervisor.core import transitions
from supervisor.core.entry import Entry, HandOff
from supervisor.core.ports import EntryStore


def deliver(store: EntryStore, ended: Entry, tell: Callable[[Entry, HandOff], None], *, now: int) -> None:
    """Tell of one end if it is still to be told, and note that by compare-and-swap."""
    current = store.read(ended.key)
    end = current.hand_off if current is not None else None
    if current is None or end is None or end != ended.hand_off or end.delivered_at is not None:
        return
    tell(current, end)
    note_told(store, current, now=now)


def note_told(store: EntryStore, told: Entry, *, now: int) -> Entry:
    """Somebody has just said how it ended; the record as it is then."""
    noted = store.replace_if_unchanged(told, transitions.delivered(told, now=now))
    return noted if isinstance(noted, Entry) else told
