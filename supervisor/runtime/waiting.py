"""The use case of waiting for ends. Reads records; looks for lost keepers now and then; notes ends that were told."""

from __future__ import annotations

from collections.abc import Sequence

from supervisor.adapters.clock import pause
from supervisor.core.entry import Entry, is_live
from supervisor.core.timing import HEARTBEAT_STALE_MS, MS
from supervisor.runtime.activation import activate
from supervisor.runtime.compose import Context
from supervisor.runtime.delivering import note_told

_LOOK_S = 0.05


def await_ends(context: Context, entries: Sequence[Entry], *, timeout_s: float | None) -> list[Entry]:
    """The last records, in the order given, once all have ended or the time is over."""
    clock = context.clock
    last = {e.key: e for e in entries}
    deadline = None if timeout_s is None else clock.monotonic_ns() + int(timeout_s * 1000 * MS)
    scan_at = clock.monotonic_ns()
    while any(is_live(e) for e in last.values()):
        if clock.monotonic_ns() >= scan_at:  # an agent whose keeper was killed would never be recorded as ended
            fresh = {e.key: e for e in activate(context).seen.entries}
            last = {key: fresh.get(key, entry) for key, entry in last.items()}
            scan_at = clock.monotonic_ns() + HEARTBEAT_STALE_MS * MS
        for key in context.store.changed([e for e in last.values() if is_live(e)]):
            last[key] = context.store.read(key) or last[key]
        if not any(is_live(e) for e in last.values()) or (deadline and clock.monotonic_ns() >= deadline):
            break
        pause(_LOOK_S)
    return list(last.values())


def note_ends(context: Context, ends: Sequence[Entry]) -> None:
    """Their ends have just been told: noted as delivered."""
    for entry in ends:
        if not is_live(entry):
            note_told(context.store, entry, now=context.clock.wall_ms())
