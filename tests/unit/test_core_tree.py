"""Entries as a forest: whoever is on record is in it, once."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from supervisor.core.entry import Entry, ParentRef, Status
from supervisor.core.tree import Node, ancestors, children_first, forest, subtree, walk
from supervisor.testing import make_entry


def entry(name: str, parent: str | None = None, *, at: int = 0, status: Status = "running") -> Entry:
    ref = ParentRef(session_id=f"session-{parent}") if parent else None
    return make_entry(name, parent=ref, started_at=at, status=status)


def drawn(entries: Sequence[Entry]) -> list[str]:
    return [f"{'  ' * depth}{node.entry.name}" for depth, node in walk(forest(entries))]


THREE_LEVELS = [
    entry("lead", at=1),
    entry("tests", "lead", at=2),
    entry("docs", "lead", at=3),
    entry("unit", "tests", at=4),
]


def test_three_levels_show_parents_before_children_in_order_of_start() -> None:
    assert drawn(THREE_LEVELS) == ["lead", "  tests", "    unit", "  docs"]


def test_the_order_on_disk_does_not_matter() -> None:
    assert drawn(THREE_LEVELS) == drawn(THREE_LEVELS[::-1])


def test_entries_of_one_moment_are_in_order_of_their_names() -> None:
    assert drawn([entry("c"), entry("a"), entry("b")]) == ["a", "b", "c"]


def test_a_child_of_nobody_on_record_is_a_root() -> None:
    assert drawn([entry("orphan", "lost", at=1), entry("child", "orphan", at=2)]) == ["orphan", "  child"]


def test_a_child_started_before_its_parent_is_still_its_child() -> None:
    assert drawn([entry("lead", at=5), entry("early", "lead", at=1)]) == ["lead", "  early"]


def test_a_cycle_is_cut_at_its_oldest_member() -> None:
    cycle = [entry("a", "c", at=1), entry("b", "a", at=2), entry("c", "b", at=3)]
    assert drawn(cycle) == ["a", "  b", "    c"]


def test_who_hangs_below_a_cycle_is_shown_once() -> None:
    assert drawn([entry("a", "b", at=1), entry("b", "a", at=2), entry("tail", "b", at=3)]) == ["a", "  b", "    tail"]


def test_a_cycle_of_one_moment_still_shows_everybody_once() -> None:
    assert sorted(name.strip() for name in drawn([entry("a", "b"), entry("b", "a")])) == ["a", "b"]


def test_its_own_parent_is_a_root() -> None:
    assert drawn([entry("self", "self")]) == ["self"]


@pytest.mark.parametrize(("first", "second", "parent"), [("closed", "running", "new"), ("running", "closed", "old")])
def test_children_hang_below_the_live_entry_of_a_session(first: Status, second: Status, parent: str) -> None:
    old = replace(entry("old", at=1, status=first), session_id="session-s")
    new = replace(entry("new", at=2, status=second), session_id="session-s")
    found = subtree(forest([old, new, entry("child", "s", at=3)]), f"entry-{parent}")
    assert found is not None
    assert [n.entry.name for n in found.children] == ["child"]


def test_a_subtree_is_found_at_any_depth() -> None:
    found = subtree(forest(THREE_LEVELS), "entry-tests")
    assert isinstance(found, Node)
    assert [n.entry.name for _, n in walk([found])] == ["tests", "unit"]


def test_nobody_has_no_subtree() -> None:
    assert subtree(forest(THREE_LEVELS), "entry-nobody") is None


def test_children_are_stopped_before_their_parents() -> None:
    order = [e.name for e in children_first(forest(THREE_LEVELS)[0])]
    assert sorted(order) == ["docs", "lead", "tests", "unit"]
    assert [order.index("unit") < order.index("tests"), order[-1]] == [True, "lead"]


def test_ancestors_go_from_the_parent_to_the_root() -> None:
    assert [e.name for e in ancestors(THREE_LEVELS[3], THREE_LEVELS)] == ["tests", "lead"]


def test_ancestors_end_at_a_missing_parent() -> None:
    assert ancestors(entry("orphan", "lost"), THREE_LEVELS) == []


def test_ancestors_end_before_a_repetition() -> None:
    cycle = [entry("a", "b", at=1), entry("b", "a", at=2)]
    assert [e.name for e in ancestors(cycle[0], cycle)] == ["b"]


def test_a_live_entry_of_the_parents_session_is_the_ancestor() -> None:
    ended = replace(entry("ended", at=9, status="closed"), session_id="session-s")
    lives = replace(entry("lives", at=1), session_id="session-s")
    assert [e.name for e in ancestors(entry("child", "s"), [ended, lives])] == ["lives"]


def test_no_entries_make_no_forest() -> None:
    assert forest([]) == ()
