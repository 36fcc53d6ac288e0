"""When an asker counts as dead: only when its process is provably gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from supervisor.runtime.ask_facts import AskFacts
from supervisor.runtime.compose import from_environment
from supervisor.testing import FakeProcessTable
from tests.asks import World


@pytest.mark.parametrize(("becomes", "dead"), [("stays", False), ("hidden", False), ("gone", True), ("reused", True)])
def test_an_asker_is_dead_only_when_its_process_is_provably_gone(home: Path, becomes: str, dead: bool) -> None:
    world = World(from_environment())
    table = FakeProcessTable()
    key = table.add(argv=("asker",))
    parts = replace(world.parts, processes=table)
    now = parts.now()
    process = {
        "hostId": now.machine.host_id,
        "bootId": now.machine.boot_id,
        "pidNamespace": now.machine.pid_namespace,
        "pid": key.pid,
        "startTicks": key.start_ticks,
    }
    request = world.ask("perm-1", process=process)
    if becomes == "hidden":
        table.hide(key.pid)
    elif becomes == "gone":
        table.end(key.pid)
    elif becomes == "reused":
        table.reuse(key.pid)

    assert AskFacts(parts, world.asks).requester_dead(request, now) is dead
