"""The witness of a chaos run sees who runs twice: a watchdog that never barks would be no proof."""

from __future__ import annotations

import os
from pathlib import Path

from tests.chaos.decoys import Decoys
from tests.chaos.witness import Witness
from tests.chaos.world import MARK, Proc, World
from tests.e2e.processes import stat_of


def agent(pid: int, *, agent_id: str, entry_id: str, session: str) -> Proc:
    seen = stat_of(pid)
    assert seen is not None
    argv = ["python", "-m", "supervisor.demo", "--resume", session]
    return Proc(pid, seen.start_ticks, "S", argv, {"SUPERVISOR_AGENT_ID": agent_id, "SUPERVISOR_ENTRY_ID": entry_id})


def witness_of(tmp_path: Path, *agents: Proc) -> Witness:
    world = World(tmp_path)
    world.processes = lambda: {a.pid: a for a in agents}  # type: ignore[method-assign]
    witness = Witness(world)
    witness.look()
    return witness


def test_two_processes_of_one_session_are_seen_even_when_all_else_differs(tmp_path: Path) -> None:
    first = agent(os.getpid(), agent_id="a", entry_id="e", session="s")
    second = agent(os.getppid(), agent_id="b", entry_id="f", session="s")

    pids = sorted([os.getpid(), os.getppid()])
    assert witness_of(tmp_path, first, second).doubled == {f"session s: pids {pids}"}


def test_one_that_is_gone_at_the_second_look_is_no_double(tmp_path: Path) -> None:
    first = agent(os.getpid(), agent_id="a", entry_id="e", session="s")
    gone = agent(os.getppid(), agent_id="a", entry_id="e", session="s")._replace(start=1)

    assert witness_of(tmp_path, first, gone).doubled == set()


def test_the_injector_signals_nobody_without_the_mark_of_its_world(tmp_path: Path) -> None:
    world = World(tmp_path)
    decoys = Decoys(tmp_path, may_choose=False)
    decoys.anywhere()
    try:
        (pid,) = decoys.pids
        seen = stat_of(pid)
        assert seen is not None
        assert MARK not in os.environ
        assert not world.signal(pid, seen.start_ticks, 15)  # type: ignore[arg-type]
        assert decoys.heard() == []
    finally:
        decoys.end()
