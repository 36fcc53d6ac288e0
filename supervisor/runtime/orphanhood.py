"""A worker and its parent, as its keeper sees it: wound down when the parent is lost, offered, taken up, ended.

Carries out what `core.parent_loss` decides, one write after the other; every move is replayed on a record that somebody
else (an adoption, a stop) has written in between. Signals nothing: what nobody adopted is ended by the stop ladder.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from supervisor.core import transitions
from supervisor.core.entry import Adopted, Entry, ParentRef, Running, WindingDown, grace_of
from supervisor.core.liveness import Now
from supervisor.core.parent_loss import (
    Expire,
    Follow,
    Lost,
    Offer,
    Parent,
    Return,
    TakeUp,
    Wait,
    WindDown,
    new_grace,
    next_step,
)
from supervisor.core.text import one_line, span
from supervisor.core.timing import MS
from supervisor.runtime.logs import warn
from supervisor.runtime.parts import Parts
from supervisor.runtime.record import Record

_STEPS = 4  # wind down, offer, expire, wait: no decision leads further at one moment


class Orphanhood:
    """One worker's. `step` is called whenever its record or its parent may have changed."""

    def __init__(self, parts: Parts, tell: Callable[[Entry], None]) -> None:
        self._parts = parts
        self._tell = tell
        self._ready_at: int | None = None
        self._lost_since: int | None = None

    def step(self, record: Record, parent: Parent, now: Now) -> int | None:
        """Do what is to be done; the monotonic time (ns) to come back at."""
        if not isinstance(parent, Lost):
            self._lost_since = None
        elif self._lost_since is None:
            self._lost_since = now.monotonic_ns
        lost_ms = (now.monotonic_ns - self._lost_since) / MS if self._lost_since is not None else 0
        for _ in range(_STEPS):
            step = next_step(record.entry, parent, now, lost_ms=lost_ms)
            if isinstance(step, Wait):
                return step.until_ns
            if isinstance(step, WindDown):
                self._wind_down(record, step, now)
            elif isinstance(step, Offer):
                self._offer(record, step, now)
            elif isinstance(step, TakeUp):
                record.change(lambda e: _under_parent(e, now))
            elif isinstance(step, Follow):
                _follow(record, step.parent)
            elif isinstance(step, Return):
                _return_to(record, step.parent, now)
            else:
                assert isinstance(step, Expire)
                record.change(lambda e: transitions.not_adopted(e, now=now.wall_ms))
                return now.monotonic_ns
        return now.monotonic_ns

    def _wind_down(self, record: Record, step: WindDown, now: Now) -> None:
        state = record.entry.state
        self._ready_at = state.ready_at if isinstance(state, Running) else None

        def move(entry: Entry) -> Entry:
            if not isinstance(entry.state, Running):
                return entry
            return transitions.winding_down(entry, "parent_lost", detail=step.evidence, now=now.wall_ms)

        record.change(move)

    def _offer(self, record: Record, step: Offer, now: Now) -> None:
        fresh = new_grace(
            step.evidence, grace_ms=self._parts.limits.adoption_grace_ms, ready_at=self._ready_at, now=now
        )
        grace = fresh if step.grace is None else replace(step.grace, evidence=step.evidence)

        def move(entry: Entry) -> Entry:
            lost = isinstance(entry.state, WindingDown) and entry.state.reason == "parent_lost"
            if not (lost or isinstance(entry.state, Adopted)):
                return entry
            return transitions.orphaned(entry, grace, now=now.wall_ms)

        record.change(move)
        if step.grace is None and grace_of(record.entry) is not None:
            self._notice(record.entry, now)

    def _notice(self, entry: Entry, now: Now) -> None:
        """A notification, and one line in the transcript. (`watch` tells of it by the record.)"""
        self._tell(entry)
        grace, path = grace_of(entry), entry.output.transcript
        if grace is None or path is None or (grace.ready_at is None and entry.plan.ready == "output"):
            return  # a line of ours must not pass for the first one of an agent that is not up yet
        left = span(max(grace.until - now.wall_ms, 0))
        line = (
            f"its parent is lost ({one_line(grace.evidence)}); for {left} it may be adopted: "
            f"supervisor adopt {entry.name} --as SESSION"
        )
        try:
            self._parts.transcripts.append(path, line)
        except (OSError, KeyError) as error:
            warn("a notice could not be written to a transcript", agent=entry.name, why=str(error))


def _under_parent(entry: Entry, now: Now) -> Entry:
    state = entry.state
    if isinstance(state, Adopted) or (isinstance(state, WindingDown) and state.reason == "parent_lost"):
        return transitions.under_parent(entry, now=now.wall_ms)
    return entry


def _follow(record: Record, parent: ParentRef) -> None:
    def move(entry: Entry) -> Entry:
        same = entry.parent is not None and entry.parent.session_id == parent.session_id
        return replace(entry, parent=parent) if same else entry

    record.change(move)


def _return_to(record: Record, parent: ParentRef, now: Now) -> None:
    record.change(lambda e: transitions.adopted(e, parent, now=now.wall_ms) if grace_of(e) is not None else e)
