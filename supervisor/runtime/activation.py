"""What every activation does first: scan, repair what is provably dead, give agents without a keeper a new one."""

from __future__ import annotations

import os

from msgspec import Struct

from supervisor.adapters.clock import pause
from supervisor.core.reconcile import Attach, Change, Remove
from supervisor.core.timing import HEARTBEAT_REFRESH_MS, MS, TICK_MS
from supervisor.runtime.compose import Context
from supervisor.runtime.scan import Scan, carry_out, plan, scan


class Activated(Struct, frozen=True):
    """What was seen, changed and re-attached (names)."""

    seen: Scan
    changed: tuple[Change | Remove, ...]
    attached: tuple[Attach, ...]


def activate(context: Context) -> Activated:
    """Scan and carry out the plan; waits until a new keeper has claimed what it could."""
    seen = _whole(context)
    done = carry_out(context.parts, plan(context.parts, seen))
    if done.attach:
        from supervisor.runtime.attaching import attach_all
        from supervisor.runtime.forking import fork_keeper

        entries = [a.entry for a in done.attach]
        news = fork_keeper(context, lambda keeper, report: attach_all(context, entries, keeper, report))
        keys = claimed(news)
        attached = tuple(a for a in done.attach if a.entry.key in keys)
        return Activated(scan(context.parts), done.changed, attached)
    return Activated(scan(context.parts) if done.changed else seen, done.changed, ())


def _whole(context: Context) -> Scan:
    """A scan without gaps: the keeper of a live agent whose record was set aside writes that anew at its next beat.

    Who did not wait for that would take the agent for one that never was, and start it a second time.
    """
    parts = context.parts
    known = len(context.store.corrupt)  # of an earlier scan of this process: those were waited for
    seen = scan(parts)
    aside = [path for path, _ in context.store.corrupt[known:] if not os.path.lexists(path)]
    until = parts.clock.monotonic_ns() + (HEARTBEAT_REFRESH_MS + TICK_MS) * MS
    while any(not os.path.lexists(p) for p in aside) and parts.clock.monotonic_ns() < until:
        pause(TICK_MS / 1000 / 10)
    return scan(parts) if aside else seen


def claimed(fd: int) -> set[str]:
    """The keys that a new keeper won. It says `kept` when it has tried them all."""
    from supervisor.runtime.forking import read_news

    keys: set[str] = set()
    rest, talks = b"", True
    try:
        while talks:
            news, rest, talks = read_news(fd, rest)
            keys.update(n.key for n in news if n.what == "attached")
            if any(n.what in ("kept", "refused") for n in news):
                break
    finally:
        os.close(fd)
    return keys
