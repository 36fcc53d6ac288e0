"""Looks on during a run: every entry that was ever on record, and whether anybody ever ran twice."""

from __future__ import annotations

from collections import defaultdict

from tests.chaos.world import Proc, Record, World
from tests.e2e.processes import stat_of


class Witness:
    """`entries`: the last that was seen of each entry; `doubled`: who ran twice, in words."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.entries: dict[str, Record] = {}
        self.doubled: set[str] = set()

    def look(self) -> tuple[list[Record], dict[int, Proc]]:
        """One look at records and processes."""
        records, processes = self._world.records(), self._world.processes()
        for record in records:
            self.entries[record["entryId"]] = record
        self._compare([p for p in processes.values() if p.is_agent])
        return records, processes

    def _compare(self, agents: list[Proc]) -> None:
        groups: dict[tuple[str, str], list[Proc]] = defaultdict(list)
        for agent in agents:
            groups["agent", agent.env["SUPERVISOR_AGENT_ID"]].append(agent)
            groups["entry", agent.env["SUPERVISOR_ENTRY_ID"]].append(agent)
            session = next((b for a, b in zip(agent.argv, agent.argv[1:], strict=False) if a in _SESSION), "")
            groups["session", session].append(agent)
        for (kind, name), group in groups.items():
            still = [a for a in group if self._same(a)] if len(group) > 1 else []
            if len(still) > 1:  # both are there at one moment: those who were seen first were looked at again
                self.doubled.add(f"{kind} {name}: pids {sorted(a.pid for a in still)}")

    def _same(self, proc: Proc) -> bool:
        seen = stat_of(proc.pid)
        return seen is not None and seen.state not in "ZX" and seen.start_ticks == proc.start


_SESSION = ("--session-id", "--resume")
