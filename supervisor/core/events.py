"""Facts worth telling: what changed between two looks at the matrix. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

What = Literal[
    "seen",
    "started",
    "ready",
    "restarted",
    "orphaned",
    "adopted",
    "status",
    "verdict",
    "ended",
    "removed",
    "server_gone",
]


class RowLike(Protocol):
    """What an event is made from (a row of `runtime.views`)."""

    @property
    def name(self) -> str: ...
    @property
    def entry_id(self) -> str: ...
    @property
    def session_id(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def evidence(self) -> str: ...
    @property
    def adoptable_until(self) -> int | None: ...
    @property
    def parent_session_id(self) -> str | None: ...
    @property
    def orphan(self) -> str | None: ...
    @property
    def pid(self) -> int | None: ...
    @property
    def restarts(self) -> int: ...
    @property
    def ready(self) -> bool: ...
    @property
    def end(self) -> str | None: ...


class Event(Struct, frozen=True, kw_only=True, rename="camel"):
    """One event, one line: what, to whom, and the state and verdict after it. `at` in epoch ms."""

    at: int
    what: What
    name: str
    entry_id: str
    session_id: str
    pid: int | None
    status: str
    verdict: str
    detail: str


class Endable(Protocol):
    """What tells whether an agent has ended."""

    @property
    def status(self) -> str: ...
    @property
    def adoptable_until(self) -> int | None: ...


def has_ended(row: Endable) -> bool:
    """Whether nothing lives behind it any more; an orphan in its grace does."""
    return row.status in ("closed", "resumable") and row.adoptable_until is None


def changes(before: Mapping[str, RowLike] | None, after: Sequence[RowLike], *, now: int) -> Iterator[Event]:
    """The events between two looks; at the first look (`before` None) everything is `seen`."""
    for row in after:
        old = before.get(row.entry_id) if before is not None else None
        what = _what(old, row, first=before is None)
        if what is not None:
            yield _event(what, row, now)
    ids = {r.entry_id for r in after}
    for old in before.values() if before else ():
        if old.entry_id not in ids:
            yield _event("removed", old, now)


def _what(old: RowLike | None, new: RowLike, *, first: bool) -> What | None:
    if old is None:
        return "seen" if first else "ended" if has_ended(new) else "started"
    if has_ended(new) and not has_ended(old):
        return "ended"
    if new.adoptable_until is not None and old.adoptable_until is None:
        return "orphaned"
    if old.parent_session_id not in (None, new.parent_session_id) and new.parent_session_id is not None:
        return "adopted"
    if new.restarts > old.restarts:
        return "restarted"
    if old.status != new.status:
        return "status"
    if new.ready and not old.ready:
        return "ready"
    return "verdict" if old.verdict != new.verdict else None


def _event(what: What, row: RowLike, now: int) -> Event:
    return Event(
        at=now,
        what=what,
        name=row.name,
        entry_id=row.entry_id,
        session_id=row.session_id,
        pid=row.pid,
        status=row.status,
        verdict=row.verdict,
        detail=_detail(what, row),
    )


def _detail(what: What, row: RowLike) -> str:
    if what == "orphaned" and row.orphan:
        return row.orphan
    if what == "adopted":
        return f"its parent is now {row.parent_session_id}"
    return row.end or row.evidence
