"""The use cases of orphans: give one a new parent, or ask it to clean up and end. Writes directives, signals nothing.

A directive is one conditional write into the orphan's entry; its own keeper carries it out. Of several writers one
wins, and the others are told which.
"""

from __future__ import annotations

from collections.abc import Callable

from supervisor.adapters.clock import pause
from supervisor.core import transitions
from supervisor.core.entry import Adopted, Entry, Running, as_parent, is_live
from supervisor.core.fences import Fence
from supervisor.core.orphans import adoption_fence, recorded, release_fence
from supervisor.core.timing import KILL_WAIT_MS, MS, TICK_MS
from supervisor.runtime.parts import Parts
from supervisor.runtime.scan import Scan, scan

_LOOK_S = TICK_MS / 1000 / 50


def adopt(
    parts: Parts, orphan: Entry, parent: Entry, *, seen: Scan | None = None, wait_s: Callable[[float], None] = pause
) -> Entry | Fence:
    """Make the session of `parent` the parent of `orphan`: no process is started or ended.

    The result is the orphan's record with its new parent, or the fence that stopped it, and nothing was changed. One
    that is its child already is a success: two who adopt for the same session both have what they want.
    `seen` is a scan just made, for a caller who adopts many.
    """
    deadline = parts.clock.monotonic_ns() + KILL_WAIT_MS * MS
    raced = False
    while True:
        now_seen, seen = seen or scan(parts), None
        child = _again(orphan, now_seen)
        above = recorded(parent.session_id, now_seen.entries) or parent
        if child is None or above.entry_id not in now_seen.judgements:
            gone = orphan if child is None else parent
            return Fence("not_alive" if child is None else "parent_not_alive", f"{gone.name} is not on record any more")
        fence = adoption_fence(child, above, now_seen.entries, now_seen.judgements)
        if fence is not None and fence.code == "settling" and parts.clock.monotonic_ns() < deadline:
            wait_s(_LOOK_S)
            continue
        if fence is not None and _is_its_child(child, above):
            return child
        if fence is not None:
            return _lost_to(child, now_seen) if raced and fence.code == "has_parent" else fence
        after = transitions.adopted(child, as_parent(above), now=parts.clock.wall_ms())
        written = parts.store.replace_if_unchanged(child, after)
        if isinstance(written, Entry):
            for keeper in (written.keeper, above.keeper):  # one takes it up, the other watches its keeper from now on
                parts.bells.ring(keeper.keeper_id)
            return written
        raced = True


def release(parts: Parts, worker: Entry) -> Entry | Fence:
    """Ask a worker's keeper to end it, with a hand-off; also while its parent is healthy. Returns at once."""
    while True:
        seen = scan(parts)
        now = _again(worker, seen)
        if now is None:
            return Fence("not_alive", f"{worker.name} is not on record any more")
        fence = release_fence(now, seen.judgements)
        if fence is not None:
            return fence
        written = parts.store.want_down(now, grace_ms=None)
        if isinstance(written, Entry):
            parts.bells.ring(written.keeper.keeper_id)
            return written


def await_taken_up(parts: Parts, adopted: Entry) -> Entry:
    """The record once the orphan's keeper has taken the adoption up, or as it is when that takes too long."""
    deadline = parts.clock.monotonic_ns() + KILL_WAIT_MS * MS
    entry = adopted
    while isinstance(entry.state, Adopted) and parts.clock.monotonic_ns() < deadline:
        pause(_LOOK_S)
        entry = parts.store.read(adopted.key) or entry
    return entry


def _is_its_child(child: Entry, parent: Entry) -> bool:
    state = child.state
    same = child.parent is not None and child.parent.session_id == parent.session_id
    return same and isinstance(state, Adopted | Running) and child.parent == as_parent(parent)


def _again(entry: Entry, seen: Scan) -> Entry | None:
    return next((e for e in seen.entries if e.entry_id == entry.entry_id), None)


def _lost_to(child: Entry, seen: Scan) -> Fence:
    """Somebody else was first, and the orphan's keeper has taken that up already."""
    assert child.parent is not None
    winner = recorded(child.parent.session_id, seen.entries)
    name = winner.name if winner is not None and is_live(winner) else child.parent.session_id
    return Fence("claimed", f"{name} was first: it is the parent of {child.name} now", f"supervisor show {child.name}")
