"""Waiting for ends: what `wait` and `launch --wait exit` share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from supervisor.core.entry import Entry
    from supervisor.runtime.compose import Context


def wait_for_exits(
    context: Context, entries: Sequence[Entry], *, timeout_s: float | None = None, as_json: bool = False
) -> int:
    """Wait until all have ended; the code of the (first failed, else the first) agent."""
    from supervisor.cli.common import note, print_json
    from supervisor.core.ending import describe, exit_status
    from supervisor.runtime.waiting import await_ends, note_ends

    ends = await_ends(context, entries, timeout_s=timeout_s)
    codes = []
    for entry in ends:
        if entry.hand_off is None:
            note(f"{entry.name} is still {entry.status}")
            codes.append(1)
        else:
            note(f"{entry.name} {describe(entry.hand_off)}")
            codes.append(exit_status(entry.hand_off))
    if as_json:
        print_json([{"name": e.name, "entryId": e.entry_id, "status": e.status, "handOff": e.hand_off} for e in ends])
    note_ends(context, ends)
    return next((c for c in codes if c), 0)
