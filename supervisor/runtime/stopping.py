"""The use case of stopping: the wish goes into the records, the keepers carry it out, and the end is verified.

Signals nothing itself, except what an ended agent without a keeper has left behind (found by its marker).
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Sequence, Set

from msgspec import Struct

from supervisor.adapters.clock import pause
from supervisor.core.entry import Entry, Resumable, is_live
from supervisor.core.identity import Gone, ProcessKey, same_process
from supervisor.core.liveness import Verdict, comparable
from supervisor.core.timing import KILL_WAIT_MS, MS, STOP_REPLY_MS
from supervisor.core.tree import children_first, forest, walk
from supervisor.runtime.activation import activate
from supervisor.runtime.compose import Context
from supervisor.runtime.scan import Scan
from supervisor.runtime.tree_end import kill_tree, look_from_outside, names

_TRIES = 16
_RING_EVERY = 8
_FIRST_LOOK_S, _LAST_LOOK_S = 0.002, 0.05


class Stopped(Struct, frozen=True):
    """What became of one agent: `stopped`, `already_ended`, `survived`, `refused` or `no_answer`; with the reason."""

    entry: Entry
    what: str
    why: str = ""
    survivors: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing of it is left, as far as can be seen."""
        return self.what in ("stopped", "already_ended")


def stop_in_order(
    context: Context,
    groups: Sequence[Sequence[Entry]],
    *,
    seen: Scan,
    grace_ms: int | None,
    tell: Callable[[Stopped], None],
) -> list[Stopped]:
    """Stop group after group: each is verified gone before the next one is asked (children before parents).

    `seen` is the scan that the groups were chosen from; later groups get a fresh one.
    """
    results: list[Stopped] = []
    for number, group in enumerate(groups):
        done = _stop_group(context, group, seen if number == 0 else activate(context).seen, grace_ms)
        for result in done:
            tell(result)
        results.extend(done)
    return results


def levels(entries: Sequence[Entry], roots: Sequence[Entry]) -> list[list[Entry]]:
    """`roots` with all that descends from them, deepest first, as groups without a parent and child in one."""
    nodes = {n.entry.entry_id: n for _, n in walk(forest(entries))}
    chosen: dict[str, Entry] = {}
    for root in roots:
        node = nodes.get(root.entry_id)
        for entry in children_first(node) if node else [root]:
            chosen.setdefault(entry.entry_id, entry)
    return by_depth(list(chosen.values()))


def by_depth(entries: Sequence[Entry]) -> list[list[Entry]]:
    """The entries themselves, deepest first; only parents among them count."""
    sessions = {e.session_id: e for e in entries}

    def depth(entry: Entry) -> int:
        seen = {entry.session_id}
        while entry.parent and entry.parent.session_id in sessions and entry.parent.session_id not in seen:
            entry = sessions[entry.parent.session_id]
            seen.add(entry.session_id)
        return len(seen)

    groups: dict[int, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(depth(entry), []).append(entry)
    return [groups[d] for d in sorted(groups, reverse=True)]


def _stop_group(context: Context, group: Sequence[Entry], seen: Scan, grace_ms: int | None) -> list[Stopped]:
    fresh = {e.entry_id: e for e in seen.entries}
    results: dict[str, Stopped] = {}
    asked: list[Entry] = []
    unrecorded: set[str] = set()
    for entry in group:
        entry = fresh.get(entry.entry_id, entry)
        judged = seen.judgements.get(entry.entry_id)
        if not is_live(entry):
            results[entry.entry_id] = _end_leftovers(context, _drop(context, entry))
        elif judged is not None and judged.verdict is Verdict.UNKNOWN:
            why = f"its identity cannot be verified from here ({judged.evidence})"
            results[entry.entry_id] = Stopped(entry, "refused", why)
        else:
            try:
                wanted = _want_down(context, entry, grace_ms)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                context.bells.mark_stop(entry.entry_id)
                unrecorded.add(entry.key)
                wanted = entry
            if not is_live(wanted):  # it ended just now
                results[entry.entry_id] = _end_leftovers(context, wanted)
                continue
            asked.append(wanted)
            if len(asked) % _RING_EVERY == 0:  # the keeper may begin while we still write
                context.bells.ring(asked[-1].keeper.keeper_id)
    for keeper in {e.keeper.keeper_id for e in asked}:
        context.bells.ring(keeper)
    for done in _await_ends(context, asked, grace_ms, unrecorded):
        results[done.entry.entry_id] = done
    return [results[e.entry_id] for e in group]


def _want_down(context: Context, entry: Entry, grace_ms: int | None) -> Entry:
    """The wish is on disk before anybody is told: it survives the keeper. Lost races are read again."""
    for _ in range(_TRIES):
        result = context.store.want_down(entry, grace_ms=grace_ms)
        if isinstance(result, Entry):
            return result
        if result.current is None or not is_live(result.current):
            return result.current or entry
        entry = result.current
    return entry


def _drop(context: Context, entry: Entry) -> Entry:
    """One that has ended and could be resumed is not to come back by itself; a full disk leaves it as it is."""
    if isinstance(entry.state, Resumable) and entry.want == "up":
        with contextlib.suppress(OSError):
            result = context.store.want_down(entry, grace_ms=None)
            return result if isinstance(result, Entry) else entry
    return entry


def _await_ends(context: Context, asked: Sequence[Entry], grace_ms: int | None, unrecorded: Set[str]) -> list[Stopped]:
    waiting = {e.key: e for e in asked}
    done: list[Stopped] = []
    grace = max([grace_ms if grace_ms is not None else e.plan.stop_grace_ms for e in asked], default=0)
    clock = context.clock
    deadline = clock.monotonic_ns() + (grace + KILL_WAIT_MS + STOP_REPLY_MS) * MS
    look = _FIRST_LOOK_S
    while waiting:
        before = len(waiting)
        for key in tuple(context.store.changed(waiting.values())):
            entry = context.store.read(key)
            if entry is None or not is_live(entry):
                done.append(_verified(entry or waiting[key]))
                del waiting[key]
        for key in unrecorded & set(waiting):
            if _is_gone(context, waiting[key]):
                why = "ended; its record waits for room on the disk"
                done.append(Stopped(waiting.pop(key), "stopped", why))
        if not waiting or clock.monotonic_ns() >= deadline:
            break
        look = _FIRST_LOOK_S if len(waiting) < before else min(look * 1.1, _LAST_LOOK_S)
        pause(look)
    return [*done, *(_no_answer(context, e) for e in waiting.values())]


def _is_gone(context: Context, entry: Entry) -> bool:
    process = entry.generation.process
    if process is None:
        return False
    seen = context.processes.probe(process.key.pid)
    return not isinstance(seen, ProcessKey) or not same_process(process.key, seen)


def _verified(entry: Entry) -> Stopped:
    hand_off = entry.hand_off
    if hand_off is not None and hand_off.survivors:
        return Stopped(entry, "survived", "", hand_off.survivors)
    return Stopped(entry, "stopped")


def _no_answer(context: Context, entry: Entry) -> Stopped:
    key = entry.keeper.process.key
    if not comparable(entry.keeper.process.machine, context.processes.machine()):
        return Stopped(entry, "no_answer", "its keeper runs elsewhere (another host or pid namespace); stop it there")
    if isinstance(context.processes.probe(key.pid), Gone):
        why = "its keeper died meanwhile; run the command again, it is re-attached first"
    else:
        why = f"its keeper (pid {key.pid}) does not answer; it may be stopped: kill -CONT {key.pid}"
    return Stopped(entry, "no_answer", why)


def _end_leftovers(context: Context, entry: Entry) -> Stopped:
    """Background jobs that an ended agent has left: found by its marker, frozen, killed, and looked for again."""
    parts = context.parts
    look = look_from_outside(parts)
    if not look.tree(entry.entry_id, None, attached=True):
        dropped = isinstance(entry.state, Resumable) and entry.want == "down"
        return Stopped(entry, "already_ended", "is not brought back by itself" if dropped else "")
    deadline = context.clock.monotonic_ns() + KILL_WAIT_MS * MS
    while True:
        kill_tree(parts, look, entry.entry_id, None, attached=True)
        left = look.tree(entry.entry_id, None, attached=True)
        if not left:
            return Stopped(entry, "stopped", "what it had left behind was ended")
        if context.clock.monotonic_ns() >= deadline:
            return Stopped(entry, "survived", "", names(parts, left))
        pause(_LAST_LOOK_S)
        look.refresh()
