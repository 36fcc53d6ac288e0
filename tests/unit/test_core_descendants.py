"""Which processes are one agent's: its tree, its orphans, and never another's."""

from collections.abc import Mapping

import pytest

from supervisor.core.descendants import children_of, tree_of
from supervisor.core.ports import Process

INIT, KEEPER, AGENT, OTHER = 1, 50, 100, 200


def rows(*triples: tuple[int, int] | tuple[int, int, int]) -> dict[int, Process]:
    """(pid, parent) or (pid, parent, session)."""
    made = {t[0]: Process(t[0], t[1], t[2] if len(t) == 3 else 0, 7, "S") for t in triples}
    return {INIT: Process(INIT, 0, 1, 1, "S"), KEEPER: Process(KEEPER, INIT, KEEPER, 2, "S"), **made}


def tree(
    snapshot: Mapping[int, Process],
    *,
    leader: int | None = AGENT,
    marks: Mapping[int, str] | None = None,
    foreign: frozenset[int] = frozenset(),
    roots: frozenset[int] = frozenset({KEEPER}),
    alone: bool = False,
) -> set[int]:
    return tree_of(
        "entry-lead",
        leader=leader,
        snapshot=snapshot,
        below=children_of(snapshot),
        marker=lambda pid: (marks or {}).get(pid),
        foreign=foreign,
        roots=roots,
        alone=alone,
    )


def test_the_agent_and_all_below_it_are_its_tree() -> None:
    snapshot = rows((AGENT, KEEPER), (101, AGENT), (102, 101), (103, 102), (104, AGENT))
    assert {AGENT, 101, 102, 103, 104} == tree(snapshot)


def test_who_is_no_descendant_is_not_in_it() -> None:
    assert {AGENT} == tree(rows((AGENT, KEEPER), (OTHER, KEEPER), (201, OTHER), (300, INIT)))


def test_another_keeper_below_it_and_its_agents_are_not_touched() -> None:
    snapshot = rows((AGENT, KEEPER), (101, AGENT), (60, 101), (61, 60), (62, 61))
    assert {AGENT, 101} == tree(snapshot, foreign=frozenset({60}))


def test_an_orphan_with_our_mark_is_ours_with_all_below() -> None:
    snapshot = rows((AGENT, KEEPER), (110, KEEPER), (111, 110))
    assert {AGENT, 110, 111} == tree(snapshot, marks={110: "entry-lead"})


def test_an_orphan_with_another_mark_is_not_ours_even_when_alone() -> None:
    assert {AGENT} == tree(rows((AGENT, KEEPER), (110, KEEPER)), marks={110: "entry-other"}, alone=True)


def test_an_orphan_of_the_agents_session_is_ours() -> None:
    assert {AGENT, 110} == tree(rows((AGENT, KEEPER), (110, KEEPER, AGENT)))


@pytest.mark.parametrize(("alone", "expected"), [(True, {AGENT, 110}), (False, {AGENT})])
def test_an_orphan_without_a_mark_is_ours_when_the_keeper_has_nobody_else(alone: bool, expected: set[int]) -> None:
    assert expected == tree(rows((AGENT, KEEPER), (110, KEEPER)), alone=alone)


def test_unmarked_children_of_init_are_nobodys() -> None:
    snapshot = rows((AGENT, KEEPER), (110, INIT))
    assert {AGENT} == tree(snapshot, roots=frozenset({KEEPER, INIT}), alone=True)


def test_marked_children_of_init_are_ours() -> None:
    snapshot = rows((AGENT, KEEPER), (110, INIT))
    assert {AGENT, 110} == tree(snapshot, roots=frozenset({KEEPER, INIT}), marks={110: "entry-lead"})


@pytest.mark.parametrize("leader", [None, AGENT])
def test_when_the_agent_is_gone_its_marked_orphans_are_what_is_left(leader: int | None) -> None:
    assert {110, 111} == tree(rows((110, KEEPER), (111, 110)), leader=leader, marks={110: "entry-lead"})


def test_of_a_dead_agent_nobody_is_left() -> None:
    assert set() == tree(rows((OTHER, KEEPER)), leader=None, foreign=frozenset({OTHER}))


def test_a_foreign_orphan_is_not_ours_whatever_its_mark() -> None:
    snapshot = rows((AGENT, KEEPER), (110, KEEPER))
    assert {AGENT} == tree(snapshot, marks={110: "entry-lead"}, foreign=frozenset({110}))


def test_a_table_that_went_in_circles_is_still_walked_once() -> None:
    assert {AGENT, 101} == tree(rows((AGENT, 101), (101, AGENT)))
