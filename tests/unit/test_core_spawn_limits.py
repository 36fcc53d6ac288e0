"""Limits against runaway spawning: counted from records, refused with the setting that holds."""

from __future__ import annotations

import pytest

from supervisor.core.entry import Entry, ParentRef
from supervisor.core.errors import LimitReached
from supervisor.core.spawn_limits import SpawnLimits, check_limits
from supervisor.testing import make_entry

LIMITS = SpawnLimits(max_depth=3, max_children=2, max_agents=5)


def child(name: str, parent: str, status: str = "running") -> Entry:
    return make_entry(name, status=status, parent=ParentRef(session_id=f"session-{parent}"))  # type: ignore[arg-type]


def refusal(new: list[Entry], recorded: list[Entry]) -> str:
    with pytest.raises(LimitReached) as raised:
        check_limits(LIMITS, new, recorded)
    assert raised.value.exit_code == 6
    return str(raised.value)


def test_up_to_the_limits_everything_may_start() -> None:
    recorded = [make_entry("a"), child("b", "a"), child("c", "b")]
    check_limits(LIMITS, [child("d", "a"), make_entry("e")], recorded)


def test_one_agent_too_many_is_refused() -> None:
    told = refusal([make_entry("x"), make_entry("y")], [make_entry(n) for n in "abcd"])
    assert told.startswith("4 agents run already, 2 more would be too many: limits.max_agents is 5. ")
    assert "supervisor settings set limits.max_agents" in told


def test_ended_agents_take_no_place() -> None:
    check_limits(LIMITS, [make_entry("x")], [make_entry(n, status="closed") for n in "abcdefg"])


def test_one_child_too_many_is_refused() -> None:
    told = refusal([child("x", "a")], [make_entry("a"), child("b", "a"), child("c", "a")])
    assert told.startswith("a would have 3 children: limits.max_children is 2")


def test_children_of_one_batch_count_together() -> None:
    assert "a would have 3 children" in refusal([child(n, "a") for n in "xyz"], [make_entry("a")])


def test_ended_children_take_no_place() -> None:
    check_limits(LIMITS, [child("x", "a")], [make_entry("a"), child("b", "a", "closed"), child("c", "a", "resumable")])


def test_one_level_too_deep_is_refused() -> None:
    told = refusal([child("x", "c")], [make_entry("a"), child("b", "a"), child("c", "b")])
    assert told.startswith("x would stand at level 4 of its tree: limits.max_depth is 3")


def test_levels_of_one_batch_count() -> None:
    assert "level 4" in refusal([make_entry("a"), child("b", "a"), child("c", "b"), child("d", "c")], [])


def test_an_ended_ancestor_is_a_level_all_the_same() -> None:
    recorded = [make_entry("a", status="closed"), child("b", "a", "closed"), child("c", "b")]
    assert "level 4" in refusal([child("x", "c")], recorded)


def test_a_parent_that_is_not_on_record_is_a_level() -> None:
    assert "level 4" in refusal([child("x", "c")], [child("b", "elsewhere"), child("c", "b")])


def test_a_cycle_of_parents_does_not_hang() -> None:
    check_limits(LIMITS, [child("x", "a")], [child("a", "b"), child("b", "a")])
