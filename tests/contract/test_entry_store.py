"""`EntryStore`: compare-and-swap over the memory and over files."""

from __future__ import annotations

import errno
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from supervisor.adapters.entry_files import EntryFiles
from supervisor.core.entry import Entry, Generation
from supervisor.core.ports import Conflict, EntryStore
from supervisor.testing import MemoryStore, make_entry, make_ref

ENTRY = make_entry()
OTHER = make_entry("tests")


class Matrix:
    """One process matrix: `open` it as often as there are processes, and let its disk be full."""

    def __init__(self, open_store: Callable[[], EntryStore], full: Callable[[], AbstractContextManager[None]]) -> None:
        self.open = open_store
        self.full = full


def memory() -> Matrix:
    first = MemoryStore()

    @contextmanager
    def full() -> Iterator[None]:
        first.break_writes(OSError(errno.ENOSPC, "No space left on device"))
        yield
        first.mend()

    return Matrix(first.another, full)


def files(tmp: Path) -> Matrix:
    for name in ("matrix", "locks"):
        (tmp / name).mkdir()

    @contextmanager
    def full() -> Iterator[None]:
        """No file may grow beyond ten bytes: a write fails in its midst."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return Matrix(lambda: EntryFiles(str(tmp / "matrix"), str(tmp / "locks")), full)


@pytest.fixture(params=["memory", "files"])
def matrix(request: pytest.FixtureRequest, tmp_path: Path) -> Matrix:
    return memory() if request.param == "memory" else files(tmp_path)


@pytest.fixture
def store(matrix: Matrix) -> EntryStore:
    return matrix.open()


def landed(outcome: Entry | Conflict) -> Entry:
    assert isinstance(outcome, Entry)
    return outcome


def lost(outcome: Entry | Conflict | None) -> Conflict:
    assert isinstance(outcome, Conflict)
    return outcome


# -- create, read, list


def test_a_new_matrix_is_empty(store: EntryStore) -> None:
    assert (list(store.list()), store.read(ENTRY.key)) == ([], None)


def test_what_was_registered_is_read_by_everybody(matrix: Matrix) -> None:
    assert matrix.open().create(ENTRY) is None
    reader = matrix.open()
    assert (reader.read(ENTRY.key), list(reader.list())) == (ENTRY, [ENTRY])


def test_every_entry_is_listed(store: EntryStore) -> None:
    for entry in (ENTRY, OTHER):
        store.create(entry)
    assert {ENTRY.key, OTHER.key} == {e.key for e in store.list()}


def test_a_second_registration_conflicts_and_names_the_first(matrix: Matrix) -> None:
    matrix.open().create(ENTRY)
    again = replace(ENTRY, entry_id="entry-second")
    assert Conflict(ENTRY) == matrix.open().create(again)


def test_a_conflicting_registration_changes_nothing(matrix: Matrix) -> None:
    store = matrix.open()
    store.create(ENTRY)
    store.create(replace(ENTRY, name="usurper"))
    assert matrix.open().read(ENTRY.key) == ENTRY


# -- replace_if_unchanged


def test_a_change_lands_with_the_next_revision(matrix: Matrix) -> None:
    store = matrix.open()
    store.create(ENTRY)
    written = landed(store.replace_if_unchanged(ENTRY, replace(ENTRY, want="down")))
    assert (replace(ENTRY, want="down", revision=2), written) == (written, matrix.open().read(ENTRY.key))


def test_a_chain_of_changes_lands(store: EntryStore) -> None:
    store.create(ENTRY)
    entry = ENTRY
    for beat in range(5):
        entry = landed(store.replace_if_unchanged(entry, replace(entry, heartbeat_at=beat)))
    assert (entry.revision, entry.heartbeat_at) == (6, 4)


def test_a_stale_revision_conflicts_and_names_what_is_there(matrix: Matrix) -> None:
    mine, theirs = matrix.open(), matrix.open()
    mine.create(ENTRY)
    current = landed(theirs.replace_if_unchanged(ENTRY, replace(ENTRY, want="down")))
    assert Conflict(current) == mine.replace_if_unchanged(ENTRY, replace(ENTRY, heartbeat_at=9))


def test_an_older_generations_late_write_never_lands(matrix: Matrix) -> None:
    """Same revision, other generation: a record that was removed and registered again."""
    store = matrix.open()
    newer = replace(ENTRY, generation=Generation(nonce="nonce-new", process=make_ref(500)))
    store.create(newer)
    assert Conflict(newer) == store.replace_if_unchanged(ENTRY, replace(ENTRY, heartbeat_at=9))


def test_another_entry_of_the_session_is_not_overwritten(store: EntryStore) -> None:
    other = replace(ENTRY, entry_id="entry-other")
    store.create(other)
    assert Conflict(other) == store.replace_if_unchanged(ENTRY, replace(ENTRY, heartbeat_at=9))


def test_a_removed_record_is_not_brought_back_by_a_change(store: EntryStore) -> None:
    store.create(ENTRY)
    store.remove_if_unchanged(ENTRY)
    assert (Conflict(None), None) == (store.replace_if_unchanged(ENTRY, ENTRY), store.read(ENTRY.key))


def test_a_lost_write_changes_nothing(store: EntryStore) -> None:
    store.create(ENTRY)
    current = landed(store.replace_if_unchanged(ENTRY, replace(ENTRY, want="down")))
    lost(store.replace_if_unchanged(ENTRY, replace(ENTRY, name="late")))
    assert current == store.read(ENTRY.key)


def race(count: int, act: Callable[[int], object]) -> list[object]:
    """Everybody at once, each in a thread; what each got."""
    gate, results = threading.Barrier(count), [None] * count

    def run(number: int) -> None:
        gate.wait()
        results[number] = act(number)  # type: ignore[call-overload]

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return list(results)


def test_of_concurrent_writers_one_wins_and_the_others_are_told(matrix: Matrix) -> None:
    stores = [matrix.open() for _ in range(8)]
    stores[0].create(ENTRY)
    results = race(8, lambda n: stores[n].replace_if_unchanged(ENTRY, replace(ENTRY, name=f"writer-{n}")))
    winners = [r for r in results if isinstance(r, Entry)]
    assert [Conflict(winners[0])] * 7 == [r for r in results if isinstance(r, Conflict)]


def test_of_concurrent_registrations_one_wins(matrix: Matrix) -> None:
    stores = [matrix.open() for _ in range(8)]
    results = race(8, lambda n: stores[n].create(replace(ENTRY, name=f"writer-{n}")))
    assert results.count(None) == 1


def test_no_update_is_lost_when_everybody_retries(matrix: Matrix) -> None:
    matrix.open().create(replace(ENTRY, heartbeat_at=0))

    def add(_: int) -> int:
        store, tries = matrix.open(), 0
        while True:
            tries += 1
            entry = store.read(ENTRY.key)
            assert entry is not None
            if isinstance(
                store.replace_if_unchanged(entry, replace(entry, heartbeat_at=entry.heartbeat_at + 1)), Entry
            ):
                return tries

    race(6, lambda n: [add(n) for _ in range(5)])
    found = matrix.open().read(ENTRY.key)
    assert found is not None
    assert (found.heartbeat_at, found.revision) == (30, 31)


# -- want_down


def test_a_wish_is_the_next_revision_for_everybody(matrix: Matrix) -> None:
    store = matrix.open()
    store.create(ENTRY)
    wanted = landed(store.want_down(ENTRY, grace_ms=250))
    assert replace(ENTRY, want="down", stop_grace_ms=250, revision=2) == wanted
    reader = matrix.open()
    assert (reader.read(ENTRY.key), list(reader.list())) == (wanted, [wanted])


def test_a_wish_conflicts_with_what_came_before_it(matrix: Matrix) -> None:
    mine, theirs = matrix.open(), matrix.open()
    mine.create(ENTRY)
    current = landed(theirs.replace_if_unchanged(ENTRY, replace(ENTRY, heartbeat_at=9)))
    assert Conflict(current) == mine.want_down(ENTRY, grace_ms=None)
    assert Conflict(None) == mine.want_down(OTHER, grace_ms=None)
    assert current == mine.read(ENTRY.key)


def test_who_has_not_seen_a_wish_does_not_undo_it(matrix: Matrix) -> None:
    """Neither by a change, nor by a heartbeat in place, nor by a removal."""
    mine, theirs = matrix.open(), matrix.open()
    mine.create(ENTRY)
    wanted = landed(theirs.want_down(ENTRY, grace_ms=None))
    assert Conflict(wanted) == mine.replace_if_unchanged(ENTRY, replace(ENTRY, heartbeat_at=9))
    assert (mine.touch(ENTRY, ENTRY.heartbeat_at + 1), mine.remove_if_unchanged(ENTRY)) == (None, False)
    assert (wanted, [ENTRY.key]) == (matrix.open().read(ENTRY.key), list(mine.changed([ENTRY])))


def test_a_change_takes_a_wish_in(matrix: Matrix) -> None:
    mine, theirs = matrix.open(), matrix.open()
    mine.create(ENTRY)
    theirs.want_down(ENTRY, grace_ms=250)
    wanted = mine.read(ENTRY.key)
    assert wanted is not None
    assert list(mine.changed([wanted])) == []
    touched = mine.touch(wanted, ENTRY.heartbeat_at + 1)
    assert touched is not None
    written = landed(mine.replace_if_unchanged(touched, replace(touched, name="ended")))
    assert (written.want, written.stop_grace_ms, written.revision) == ("down", 250, 3)
    assert written == matrix.open().read(ENTRY.key)
    assert written.heartbeat_at == ENTRY.heartbeat_at + 1


def test_a_wish_after_a_wish_counts(matrix: Matrix) -> None:
    store = matrix.open()
    store.create(ENTRY)
    first = landed(store.want_down(ENTRY, grace_ms=9_000))
    second = landed(store.want_down(first, grace_ms=0))
    assert (second.stop_grace_ms, second.revision) == (0, 3)
    assert Conflict(second) == store.want_down(first, grace_ms=5)
    assert second == matrix.open().read(ENTRY.key)


def test_a_wish_goes_with_its_record(matrix: Matrix) -> None:
    store = matrix.open()
    store.create(ENTRY)
    assert store.remove_if_unchanged(landed(store.want_down(ENTRY, grace_ms=None)))
    store.create(ENTRY)
    assert matrix.open().read(ENTRY.key) == ENTRY


def test_of_a_wish_and_a_change_at_once_none_is_lost(matrix: Matrix) -> None:
    store = matrix.open()
    store.create(ENTRY)

    def insist(number: int) -> None:
        mine = matrix.open()
        while True:
            entry = mine.read(ENTRY.key)
            assert entry is not None
            changed = replace(entry, heartbeat_at=entry.heartbeat_at + 1)
            wish = number % 2 and mine.want_down(entry, grace_ms=number)
            if isinstance(wish or mine.replace_if_unchanged(entry, changed), Entry):
                return

    race(6, lambda n: [insist(n) for _ in range(5)])
    found = store.read(ENTRY.key)
    assert found is not None
    assert (found.want, found.heartbeat_at, found.revision) == ("down", ENTRY.heartbeat_at + 15, 31)


# -- remove_if_unchanged


def test_an_unchanged_record_is_removed(matrix: Matrix) -> None:
    store = matrix.open()
    store.create(ENTRY)
    assert (store.remove_if_unchanged(ENTRY), matrix.open().read(ENTRY.key)) == (True, None)


@pytest.mark.parametrize(
    "current",
    [
        replace(ENTRY, revision=2),
        replace(ENTRY, generation=Generation(nonce="nonce-new")),
        replace(ENTRY, entry_id="entry-other"),
    ],
)
def test_a_changed_record_is_not_removed(store: EntryStore, current: Entry) -> None:
    store.create(current)
    assert (False, current) == (store.remove_if_unchanged(ENTRY), store.read(ENTRY.key))


def test_nothing_cannot_be_removed(store: EntryStore) -> None:
    assert store.remove_if_unchanged(ENTRY) is False


def test_a_removed_record_can_be_registered_again(store: EntryStore) -> None:
    store.create(ENTRY)
    store.remove_if_unchanged(ENTRY)
    assert (store.create(ENTRY), store.read(ENTRY.key)) == (None, ENTRY)


# -- changed


def test_what_we_wrote_ourselves_has_not_changed(store: EntryStore) -> None:
    store.create(ENTRY)
    written = landed(store.replace_if_unchanged(ENTRY, ENTRY))
    assert list(store.changed([written])) == []


def test_what_another_wrote_has_changed_until_it_is_read(matrix: Matrix) -> None:
    mine, theirs = matrix.open(), matrix.open()
    for entry in (ENTRY, OTHER):
        mine.create(entry)
    theirs.replace_if_unchanged(ENTRY, replace(ENTRY, want="down"))
    before = list(mine.changed([ENTRY, OTHER]))
    mine.read(ENTRY.key)
    assert ([ENTRY.key], []) == (before, list(mine.changed([ENTRY, OTHER])))


def test_what_another_removed_has_changed(matrix: Matrix) -> None:
    mine, theirs = matrix.open(), matrix.open()
    mine.create(ENTRY)
    theirs.remove_if_unchanged(ENTRY)
    assert [ENTRY.key] == list(mine.changed([ENTRY]))


def test_what_another_registered_has_changed(matrix: Matrix) -> None:
    mine = matrix.open()
    matrix.open().create(ENTRY)
    assert [ENTRY.key] == list(mine.changed([ENTRY]))


def test_what_never_was_has_not_changed(store: EntryStore) -> None:
    assert list(store.changed([ENTRY])) == []


# -- a disk that takes nothing


def test_a_registration_that_fails_leaves_nothing(matrix: Matrix) -> None:
    store = matrix.open()
    with matrix.full(), pytest.raises(OSError, match=r"."):
        store.create(ENTRY)
    assert (list(matrix.open().list()), matrix.open().read(ENTRY.key)) == ([], None)


def test_a_change_that_fails_leaves_the_old_record(matrix: Matrix) -> None:
    store = matrix.open()
    store.create(ENTRY)
    with matrix.full(), pytest.raises(OSError, match=r"."):
        store.replace_if_unchanged(ENTRY, replace(ENTRY, want="down"))
    assert matrix.open().read(ENTRY.key) == ENTRY


def test_a_change_that_failed_lands_once_there_is_room(matrix: Matrix) -> None:
    store = matrix.open()
    store.create(ENTRY)
    with matrix.full(), pytest.raises(OSError, match=r"."):
        store.replace_if_unchanged(ENTRY, replace(ENTRY, want="down"))
    assert landed(store.replace_if_unchanged(ENTRY, replace(ENTRY, want="down"))).want == "down"


def test_reading_needs_no_room(matrix: Matrix) -> None:
    store = matrix.open()
    store.create(ENTRY)
    with matrix.full():
        found = store.read(ENTRY.key), list(store.list())
    assert found == (ENTRY, [ENTRY])


def test_syncing_changes_nothing(matrix: Matrix) -> None:
    store = matrix.open()
    store.sync()
    store.create(ENTRY)
    store.sync()
    store.sync()
    assert matrix.open().read(ENTRY.key) == ENTRY


def test_a_record_removed_before_the_sync_needs_none(matrix: Matrix) -> None:
    mine = matrix.open()
    mine.create(ENTRY)
    matrix.open().remove_if_unchanged(ENTRY)
    mine.sync()
    assert matrix.open().read(ENTRY.key) is None


# -- the heartbeat in place


def test_a_heartbeat_in_place_is_no_new_revision(matrix: Matrix) -> None:
    store = matrix.open()
    store.create(replace(ENTRY, heartbeat_at=1_700_000_000_000))
    mine = store.read(ENTRY.key)
    assert mine is not None
    touched = store.touch(mine, 1_700_000_030_000)
    assert touched == replace(mine, heartbeat_at=1_700_000_030_000) == matrix.open().read(ENTRY.key)


def test_a_touched_record_can_still_be_replaced_by_others(matrix: Matrix) -> None:
    mine, other = matrix.open(), matrix.open()
    first = replace(ENTRY, heartbeat_at=1_700_000_000_000)
    mine.create(first)
    before = other.read(ENTRY.key)
    assert before is not None
    mine.touch(first, 1_700_000_030_000)
    assert landed(other.replace_if_unchanged(before, replace(before, want="down"))).want == "down"


def test_a_record_that_another_has_replaced_is_not_touched(matrix: Matrix) -> None:
    mine, other = matrix.open(), matrix.open()
    first = replace(ENTRY, heartbeat_at=1_700_000_000_000)
    mine.create(first)
    before = other.read(ENTRY.key)
    assert before is not None
    landed(other.replace_if_unchanged(before, replace(before, want="down")))
    assert mine.touch(first, 1_700_000_030_000) is None
    now = other.read(ENTRY.key)
    assert now is not None and (now.want, now.heartbeat_at) == ("down", 1_700_000_000_000)
