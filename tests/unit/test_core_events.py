"""What `watch` tells of orphans: offered once, adopted once, and not ended while they live."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from supervisor.core.events import changes


class FakeRow(Struct, frozen=True, kw_only=True):
    """A row as `changes` reads it."""

    name: str = "child"
    entry_id: str = "entry-child"
    session_id: str = "session-child"
    status: str = "running"
    verdict: str = "alive"
    evidence: str = "beat 1s ago"
    adoptable_until: int | None = None
    parent_session_id: str | None = "session-lead"
    orphan: str | None = None
    pid: int | None = 7
    restarts: int = 0
    ready: bool = True
    end: str | None = None


RUNNING = FakeRow()
ORPHAN = replace(RUNNING, status="resumable", adoptable_until=9, orphan="lead: pid 3 is gone")
ADOPTED = replace(RUNNING, parent_session_id="session-other")
EXPIRED = replace(RUNNING, status="resumable", verdict="absent", end="killed by TERM (stopped)")


def told(old: FakeRow, new: FakeRow) -> list[tuple[str, str]]:
    return [(e.what, e.detail) for e in changes({old.entry_id: old}, [new], now=1)]


def test_an_orphan_is_told_with_its_evidence_and_has_not_ended() -> None:
    assert told(RUNNING, ORPHAN) == [("orphaned", "lead: pid 3 is gone")]


def test_an_orphan_that_stays_one_is_told_once() -> None:
    assert told(ORPHAN, ORPHAN) == []


def test_an_adoption_names_the_new_parent() -> None:
    assert told(ORPHAN, ADOPTED) == [("adopted", "its parent is now session-other")]


def test_an_adoption_of_one_that_was_not_wound_down_is_told_too() -> None:
    assert told(RUNNING, ADOPTED) == [("adopted", "its parent is now session-other")]


def test_one_that_nobody_adopted_has_ended() -> None:
    assert told(ORPHAN, EXPIRED) == [("ended", "killed by TERM (stopped)")]


def test_one_that_is_back_under_its_own_parent_is_a_change_of_its_state() -> None:
    assert [what for what, _ in told(ORPHAN, RUNNING)] == ["status"]
