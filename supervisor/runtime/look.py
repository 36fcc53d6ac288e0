"""One turn's look at the processes: taken at most once, shared by all agents of a keeper. Never signals."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence, Set

from supervisor.core.descendants import children_of, tree_of
from supervisor.core.entry import Entry
from supervisor.core.identity import ProcessKey
from supervisor.core.ports import Process, ProcessTable

ENTRY_VARIABLE = "SUPERVISOR_ENTRY_ID"
GENERATION_VARIABLE = "SUPERVISOR_GENERATION"
HOME_VARIABLE = "SUPERVISOR_HOME"


class Look:
    """The processes as seen once.

    `home`: the state root; `agents`: leader pids of this keeper; `keepers`: pids of all live keepers; `alone`: this
    keeper has one agent only.
    """

    def __init__(
        self,
        processes: ProcessTable,
        *,
        home: str,
        me: int,
        agents: Callable[[], Set[int]],
        keepers: Callable[[], Mapping[int, int]],
        subreaper: bool,
        alone: bool = False,
    ) -> None:
        self._processes = processes
        self._home = home
        self._me = me
        self._find_agents = agents
        self._found_agents: Set[int] | None = None
        self._keepers = keepers
        self._subreaper = subreaper
        self._alone = alone
        self._rows: Mapping[int, Process] | None = None
        self._below: Mapping[int, Sequence[int]] = {}
        self._marks: dict[int, str | None] = {}
        self._strays: bool | None = None
        self._foreign: Set[int] | None = None

    def tree(self, entry_id: str, leader: ProcessKey | None, *, attached: bool) -> set[ProcessKey]:
        """The live processes of one agent, by identity."""
        pid = leader.pid if leader else None
        if pid is None and not attached and not self.any_strays():
            return set()
        rows = self.rows()
        if leader is not None and (row := rows.get(leader.pid)) and row.start_ticks != leader.start_ticks:
            pid = None  # its pid belongs to a stranger now
        if self._foreign is None:
            # a killed keeper leaves its heartbeat file: its pid may be anybody's now
            keepers = {p for p, ticks in self._keepers().items() if (r := rows.get(p)) and r.start_ticks == ticks}
            self._foreign = (keepers | self._agents()) - {os.getpid()}
        roots = {self._me} if not attached and self._subreaper else {self._me, *self._orphan_roots(rows)}
        pids = tree_of(
            entry_id,
            leader=pid,
            snapshot=rows,
            below=self._below,
            marker=self._marker,
            foreign=self._foreign - ({pid} if pid else set()),
            roots=roots,
            alone=self._subreaper and not attached and self._alone,
        )
        return {ProcessKey(p, rows[p].start_ticks) for p in pids if p != self._me}

    def _agents(self) -> Set[int]:
        if self._found_agents is None:
            self._found_agents = self._find_agents()
        return self._found_agents

    def any_strays(self) -> bool:
        """Whether this process has children that are not leaders of its agents: a cheap look before a dear one."""
        if self._strays is None:
            children = self._processes.children(self._me) if self._subreaper else None
            self._strays = children is None or bool(set(children) - self._agents())
        return self._strays

    def rows(self) -> Mapping[int, Process]:
        """The snapshot."""
        if self._rows is None:
            self._rows = self._processes.snapshot()
            self._below = children_of(self._rows)
        return self._rows

    def refresh(self) -> None:
        """Forget what was seen."""
        self._rows = self._strays = self._foreign = None
        self._marks.clear()

    def _marker(self, pid: int) -> str | None:
        if pid not in self._marks:
            env = self._processes.environment(pid)
            self._marks[pid] = "" if is_elsewhere(env, self._home) else env.get(ENTRY_VARIABLE)
        return self._marks[pid]

    def _orphan_roots(self, rows: Mapping[int, Process]) -> set[int]:
        """Everybody may be the reaper of an orphan here: init, or a subreaper above the keeper that died."""
        return {row.parent_pid for row in rows.values()} - self._agents()


def is_elsewhere(env: Mapping[str, str], home: str) -> bool:
    """Whether a process belongs to another state root: a copy of one has the same entry ids.

    One that was moved, or is reached by another path, is the same.
    """
    theirs = env.get(HOME_VARIABLE, home)
    if theirs == home:
        return False
    try:
        return not os.path.samefile(theirs, home)
    except OSError:
        return False


def heir_of(entry: Entry, left: Set[ProcessKey], look: Look) -> ProcessKey | None:
    """Where the launched process was a wrapper: the oldest survivor of its session below nobody else of it."""
    ref = entry.generation.process
    if entry.plan.follow != "tree" or ref is None:
        return None
    rows = look.rows()
    same = {k.pid: k for k in left if k.pid in rows and rows[k.pid].session == ref.key.pid}
    tops = [k for k in same.values() if rows[k.pid].parent_pid not in same]  # a child may have begun in the same tick
    return min(tops, key=lambda k: k.start_ticks) if tops else None


def find_generation(processes: ProcessTable, nonce: str, *, home: str) -> int | None:
    """The topmost process that bears a generation's nonce in its environment: the agent of a crashed start."""
    rows = processes.snapshot()
    marked = {
        pid
        for pid in rows
        if (env := processes.environment(pid)).get(GENERATION_VARIABLE) == nonce and not is_elsewhere(env, home)
    }
    tops = [rows[p] for p in marked if rows[p].parent_pid not in marked]
    return min(tops, key=lambda r: r.start_ticks).pid if tops else None
