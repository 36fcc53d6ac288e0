"""The keeper's look at processes: taken once, shared, and never a pid without its start ticks."""

from pathlib import Path

import pytest

from supervisor.core.identity import ProcessKey
from supervisor.runtime.look import Look, find_generation
from supervisor.testing import FakeProcessTable


@pytest.fixture
def table() -> FakeProcessTable:
    return FakeProcessTable()


def look_of(
    table: FakeProcessTable, me: ProcessKey, *leaders: ProcessKey, keepers: tuple[int, ...] = (), home: str = "/state"
) -> Look:
    def known() -> dict[int, int]:
        found = [table.probe(pid) for pid in (*keepers, me.pid)]
        return {k.pid: k.start_ticks for k in found if isinstance(k, ProcessKey)}

    return Look(table, home=home, me=me.pid, agents=lambda: {k.pid for k in leaders}, keepers=known, subreaper=True)


def test_a_stranger_with_the_leaders_pid_is_not_its_tree(table: FakeProcessTable) -> None:
    me = table.add()
    leader = table.add(parent=me.pid)
    stranger = table.reuse(leader.pid)
    table.add(parent=stranger.pid)
    assert set() == look_of(table, me, leader).tree("entry-lead", leader, attached=True)


def test_the_tree_is_told_by_identity(table: FakeProcessTable) -> None:
    me = table.add()
    leader = table.add(parent=me.pid)
    child = table.add(parent=leader.pid)
    assert {leader, child} == look_of(table, me, leader).tree("entry-lead", leader, attached=False)


def test_the_keeper_is_never_in_a_tree(table: FakeProcessTable) -> None:
    """An agent whose own mark the keeper bears: it was launched from inside that agent."""
    outer = table.add()
    me = table.add(parent=outer.pid, env={"SUPERVISOR_ENTRY_ID": "entry-outer"})
    assert set() == look_of(table, me).tree("entry-outer", None, attached=True)


def test_one_snapshot_serves_all_agents_of_a_turn(table: FakeProcessTable) -> None:
    me = table.add()
    leaders = [table.add(parent=me.pid) for _ in range(5)]
    look = look_of(table, me, *leaders)
    for leader in leaders:
        look.tree("entry", leader, attached=False)
    assert table.looks == 1


def test_without_strays_an_ended_agent_costs_no_snapshot(table: FakeProcessTable) -> None:
    me = table.add()
    other = table.add(parent=me.pid)
    look_of(table, me, other).tree("entry-lead", None, attached=False)
    assert table.looks == 0


def test_after_a_refresh_the_table_is_looked_at_anew(table: FakeProcessTable) -> None:
    me = table.add()
    leader = table.add(parent=me.pid)
    look = look_of(table, me, leader)
    look.tree("entry-lead", leader, attached=False)
    late = table.add(parent=leader.pid)
    look.refresh()
    assert late in look.tree("entry-lead", leader, attached=False)


def test_a_generation_is_found_by_its_nonce_at_the_top_of_its_tree(table: FakeProcessTable) -> None:
    """Its keeper died between spawn and record."""
    mark = {"SUPERVISOR_GENERATION": "nonce-7"}
    agent = table.add(env=mark)
    table.add(parent=agent.pid, env=mark)
    table.add(env={"SUPERVISOR_GENERATION": "nonce-8"})
    assert agent.pid == find_generation(table, "nonce-7", home="/state")


def test_a_generation_that_nobody_bears_is_not_found(table: FakeProcessTable) -> None:
    table.add(env={"SUPERVISOR_GENERATION": "nonce-8"})
    assert find_generation(table, "nonce-7", home="/state") is None


def test_a_process_of_a_copied_state_root_is_not_ours_and_one_of_a_moved_one_is(
    table: FakeProcessTable, tmp_path: Path
) -> None:
    home, copy, link = tmp_path / "home", tmp_path / "copy", tmp_path / "link"
    home.mkdir()
    copy.mkdir()
    link.symlink_to(home)
    me = table.add()

    def ours(theirs: Path) -> bool:
        env = {"SUPERVISOR_ENTRY_ID": "entry-lead", "SUPERVISOR_GENERATION": "n", "SUPERVISOR_HOME": str(theirs)}
        left = table.add(parent=me.pid, env=env)
        found = look_of(table, me, home=str(home)).tree("entry-lead", None, attached=True)
        first = find_generation(table, "n", home=str(home)) == left.pid
        assert first == (left in found)
        table.end(left.pid)
        table.reap(left.pid)
        return first

    assert {at.name: ours(at) for at in (home, link, tmp_path / "moved", copy)} == {
        "home": True,
        "link": True,
        "moved": True,
        "copy": False,
    }
