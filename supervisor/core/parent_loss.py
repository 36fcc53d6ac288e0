"""Whether a worker's parent is lost, and what the worker does about it. Pure: the caller has looked.

Lost is who is gone without having finished its work. A parent that its policy starts again, that only wants a new
keeper, or that cannot be judged from here is not lost; one that ended with success is done, and its workers go on.
"""

from __future__ import annotations

from msgspec import Struct

from supervisor.core.ending import describe
from supervisor.core.entry import (
    Adopted,
    Closed,
    Entry,
    Grace,
    ParentRef,
    Running,
    WindingDown,
    as_parent,
    grace_of,
    is_live,
)
from supervisor.core.identity import Seen
from supervisor.core.liveness import Judgement, Now, Verdict, process_alive
from supervisor.core.reconcile import comes_back
from supervisor.core.text import span
from supervisor.core.timing import HEARTBEAT_STALE_MS, MS


class Held(Struct, frozen=True):
    """Not provably gone. `lives` is the parent as it is now, where it certainly is there.

    `settles`: look again soon; `scan`: it wants a keeper.
    """

    lives: ParentRef | None = None
    settles: bool = False
    scan: bool = False


class Done(Struct, frozen=True):
    """It ended with success: its workers go on without a parent."""

    why: str


class Lost(Struct, frozen=True):
    """Gone, with the evidence."""

    evidence: str


Parent = Held | Done | Lost


def stale_after_ms(*, heartbeat_ms: int, watcher_poll_ms: int) -> int:
    """How long a session may be silent before its workers take it for lost: two renewals missed, seen by one poll."""
    return 2 * heartbeat_ms + watcher_poll_ms


def judge_parent(
    ref: ParentRef,
    entry: Entry | None,
    *,
    judged: Judgement | None,
    seen: Seen | None,
    silent_ms: float,
    dead_ms: float,
    bound_ms: int,
    now: Now,
) -> Parent:
    """The verdict on a parent, by its session and its process, never by a bare pid.

    `entry` is what is on record of its session now (the live one, else the latest), `judged` its verdict; `seen` is a
    look at the process that the worker's own record names, for a session that is not on record. `silent_ms`: how long
    its keeper has not been seen beating; `dead_ms`: how long its process has been seen gone.
    """
    if entry is None:
        if process_alive(ref.process, seen, now) is False:
            assert ref.process is not None
            return Lost(f"pid {ref.process.key.pid} is gone, and {ref.session_id} is not on record")
        return Held()
    if not is_live(entry):
        return _ended(entry)
    assert judged is not None
    if judged.verdict is Verdict.ALIVE:
        return Held(as_parent(entry))
    if judged.verdict is Verdict.STALE:
        if not judged.keeper_gone and silent_ms >= bound_ms:
            return Lost(f"{entry.name}: its keeper has not beaten for {span(silent_ms)}")
        return Held(as_parent(entry), scan=judged.keeper_gone)
    if judged.verdict is Verdict.DEAD_PID:
        return _dead(entry, judged, silent_ms=silent_ms, dead_ms=dead_ms, bound_ms=bound_ms, now=now)
    return Held()


def _ended(entry: Entry) -> Parent:
    end = entry.hand_off
    how = f"{entry.name} {describe(end)}" if end else f"{entry.name} is {entry.status}"
    if isinstance(entry.state, Closed) and end is not None and end.cause == "ended" and end.success:
        return Done(how)
    return Lost(how)


def _dead(entry: Entry, judged: Judgement, *, silent_ms: float, dead_ms: float, bound_ms: int, now: Now) -> Held | Lost:
    """Its process is certainly gone: does anybody bring it back, or record how it ended?"""
    lost = Lost(f"{entry.name}: {judged.evidence}")
    if dead_ms >= bound_ms:
        return lost
    if judged.keeper_gone:
        return Held(scan=True, settles=True) if comes_back(entry, boot_id=now.machine.boot_id) else lost
    if silent_ms >= HEARTBEAT_STALE_MS:
        return lost
    return Held(settles=True)  # its keeper is about to say how it ended, or to start it again


class WindDown(Struct, frozen=True):
    """Its parent is lost: mark it, then offer it."""

    evidence: str


class Offer(Struct, frozen=True):
    """Marked: resumable from now on, and adoptable until the grace is over. None: a new grace."""

    evidence: str
    grace: Grace | None = None


class TakeUp(Struct, frozen=True):
    """Its parent lives: it runs on below that one."""


class Return(Struct, frozen=True):
    """The very process that was held to be lost is there again: adopted by it."""

    parent: ParentRef


class Follow(Struct, frozen=True):
    """Its parent has become another process: started again, or resumed."""

    parent: ParentRef


class Expire(Struct, frozen=True):
    """Nobody came: it is ended."""


class Wait(Struct, frozen=True):
    """Nothing to do, but at `until_ns` (monotonic) if given."""

    until_ns: int | None = None


Step = WindDown | Offer | TakeUp | Return | Follow | Expire | Wait


def next_step(entry: Entry, parent: Parent, now: Now, *, lost_ms: float = 0) -> Step:
    """What a live worker's keeper does next, given what is known of the parent on record.

    `lost_ms`: how long the parent has been seen lost. One that is still coming up has so long to prove itself: before
    that there is no session that could be resumed.
    """
    state = entry.state
    grace = grace_of(entry)
    if isinstance(state, Running):
        if isinstance(parent, Lost):
            return _lost(entry, state, parent, lost_ms, now)
        lives = parent.lives if isinstance(parent, Held) else None
        return Follow(lives) if lives is not None and lives != entry.parent else Wait()
    if isinstance(state, WindingDown) and state.reason == "parent_lost":
        return Offer(state.detail) if isinstance(parent, Lost) else TakeUp()
    if isinstance(state, Adopted):
        if isinstance(parent, Held) and parent.lives is not None:
            return TakeUp()
        if isinstance(parent, Held) and parent.settles:
            return Wait()
        evidence = parent.evidence if isinstance(parent, Lost) else f"{state.by_session} is not there to be its parent"
        return Offer(evidence, state.grace)
    if grace is None:
        return Wait()
    if isinstance(parent, Held) and parent.lives is not None and parent.lives == entry.parent:
        return Return(parent.lives)
    return Expire() if now.monotonic_ns >= grace.until_ns else Wait(grace.until_ns)


def _lost(entry: Entry, state: Running, parent: Lost, lost_ms: float, now: Now) -> WindDown | Wait:
    if entry.enrolled or state.unconfirmed is not None:  # not ours to end; or a resume that comes to its end first
        return Wait()
    left_ms = entry.plan.ready_timeout_ms - lost_ms
    if state.ready_at is None and left_ms > 0:
        return Wait(now.monotonic_ns + int(left_ms * MS))
    return WindDown(parent.evidence)


def new_grace(evidence: str, *, grace_ms: int, ready_at: int | None, now: Now) -> Grace:
    """The window that begins now."""
    return Grace(
        until=now.wall_ms + grace_ms, until_ns=now.monotonic_ns + grace_ms * MS, evidence=evidence, ready_at=ready_at
    )
