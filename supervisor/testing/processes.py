"""A process table made by the test: processes with parents, sessions, environments, zombies and reused pids.

Owns every process it holds. Orphans go to the nearest subreaper above, else to init, which reaps at once.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from supervisor.core.identity import Gone, Machine, ProcessKey, Seen, Unreadable
from supervisor.core.ports import Exit, Process
from supervisor.testing.builders import MACHINE

INIT = 1
_IGNORED_BY_DEFAULT = frozenset({0, signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH})


class FakeProcess(Struct, kw_only=True):
    """One process. `ignores` are signals without effect (also SIGKILL: uninterruptible); `answers` are clean ends.

    `forks`: so many generations of children it still starts, one in the moment before SIGSTOP freezes it.
    """

    pid: int
    parent: int
    session: int
    start_ticks: int
    inode: int | None = None
    env: dict[str, str] = {}
    argv: tuple[str, ...] = ()
    state: str = "S"
    ignores: frozenset[int] = frozenset()
    answers: dict[int, Exit] = {}
    hidden: bool = False
    forks: int = 0
    end: Exit = Exit()
    pending: list[int] = []

    @property
    def key(self) -> ProcessKey:
        """Its identity."""
        return ProcessKey(self.pid, self.start_ticks, self.inode)


class FakeProcessTable:
    """`ProcessTable`. `machine_here` may be set: another boot, host or namespace."""

    def __init__(self, *, machine: Machine = MACHINE) -> None:
        self.machine_here = machine
        self.subreapers: set[int] = set()
        self.looks = 0
        self._next_pid = 1000
        self._ticks = 5000
        self._ends: dict[ProcessKey, Exit] = {}
        self._rows = {INIT: FakeProcess(pid=INIT, parent=0, session=INIT, start_ticks=1, argv=("init",))}

    # -- what a test does

    def add(
        self,
        *,
        pid: int | None = None,
        parent: int = INIT,
        new_session: bool = False,
        env: Mapping[str, str] | None = None,
        argv: Sequence[str] = ("sleep",),
        inode: int | None = None,
        ignores: Iterable[int] = (),
        answers: Mapping[int, Exit] | None = None,
    ) -> ProcessKey:
        """Start a process; its session is its parent's unless it makes one."""
        if pid is None:
            self._next_pid += 1
            pid = self._next_pid
        self._ticks += 1
        self._rows[pid] = FakeProcess(
            pid=pid,
            parent=parent,
            session=pid if new_session else self._rows[parent].session,
            start_ticks=self._ticks,
            inode=inode,
            env=dict(env or {}),
            argv=tuple(argv),
            ignores=frozenset(ignores),
            answers=dict(answers or {}),
        )
        return self._rows[pid].key

    def row(self, pid: int) -> FakeProcess:
        """The process itself, to be changed by the test."""
        return self._rows[pid]

    def end(self, pid: int, how: Exit = Exit(code=0)) -> None:  # noqa: B008  frozen
        """The process ends: a zombie until its parent reaps it; its children get a new parent."""
        row = self._rows[pid]
        row.state, row.end = "Z", how
        heir = self._heir(row.parent)
        for child in [r for r in self._rows.values() if r.parent == pid]:
            child.parent = heir
            self._reaped_by_init(child)
        self._reaped_by_init(row)

    def reap(self, pid: int) -> Exit:
        """Its parent waits for it: the zombie is gone."""
        row = self._rows.pop(pid)
        self._ends[row.key] = row.end
        return row.end

    def reuse(self, pid: int, *, env: Mapping[str, str] | None = None) -> ProcessKey:
        """The process is gone, and a stranger has got its pid."""
        if pid in self._rows:
            if self._rows[pid].state != "Z":
                self.end(pid)
            if pid in self._rows:
                self.reap(pid)
        return self.add(pid=pid, env=env, argv=("stranger",))

    def hide(self, pid: int) -> None:
        """From now on the table does not say."""
        self._rows[pid].hidden = True

    def deliver(self, pid: int, number: int) -> None:
        """A signal arrives and has its effect."""
        row = self._rows[pid]
        if number in row.ignores or number in _IGNORED_BY_DEFAULT:
            return
        if number == signal.SIGSTOP:
            self._fork(row)
            row.state = "T"
        elif number == signal.SIGCONT:
            self._continue(row)
        elif row.state == "T" and number != signal.SIGKILL:
            row.pending.append(number)
        else:
            self.end(pid, row.answers.get(number, Exit(signal=number)))

    def zombies_of(self, parent: int) -> list[int]:
        """The ended children that a parent has not reaped."""
        return [r.pid for r in self._rows.values() if r.parent == parent and r.state == "Z"]

    def end_of(self, key: ProcessKey) -> Exit | None:
        """How a reaped process ended; None while it has not, or was never here."""
        return self._ends.get(key)

    def alive(self, key: ProcessKey) -> bool:
        """Whether exactly this process runs."""
        row = self._rows.get(key.pid)
        return row is not None and row.start_ticks == key.start_ticks and row.state != "Z"

    def _fork(self, row: FakeProcess) -> None:
        if row.forks and row.state != "T":
            row.forks -= 1
            child = self.add(parent=row.pid, env=row.env, argv=row.argv, ignores=row.ignores)
            self._rows[child.pid].forks = row.forks

    def _continue(self, row: FakeProcess) -> None:
        row.state = "S"
        pending, row.pending = row.pending, []
        for number in pending:
            if row.state == "S":
                self.deliver(row.pid, number)

    def _heir(self, pid: int) -> int:
        while pid != INIT and pid in self._rows:
            if pid in self.subreapers and self._rows[pid].state != "Z":
                return pid
            pid = self._rows[pid].parent
        return INIT

    def _reaped_by_init(self, row: FakeProcess) -> None:
        if row.parent == INIT and row.state == "Z":
            self.reap(row.pid)

    # -- the port

    def machine(self) -> Machine:
        """The observer's machine."""
        return self.machine_here

    def probe(self, pid: int) -> Seen:
        """One pid: its key, `Gone` (also for a zombie), or `Unreadable`."""
        row = self._rows.get(pid)
        if row is None or row.state == "Z":
            return Gone()
        return Unreadable() if row.hidden else row.key

    def identify(self, pid: int) -> ProcessKey | None:
        """The key of a process that is not reaped yet (it may be a zombie), None when there is none."""
        row = self._rows.get(pid)
        return row.key if row and not row.hidden else None

    def children(self, pid: int) -> Sequence[int] | None:
        """The direct children, zombies among them."""
        return [r.pid for r in self._rows.values() if r.parent == pid]

    def snapshot(self) -> Mapping[int, Process]:
        """All processes, without zombies."""
        self.looks += 1
        return {
            r.pid: Process(r.pid, r.parent, r.session, r.start_ticks, r.state)
            for r in self._rows.values()
            if r.state != "Z" and not r.hidden
        }

    def environment(self, pid: int) -> Mapping[str, str]:
        """The environment the process was started with; empty when gone."""
        row = self._rows.get(pid)
        return dict(row.env) if row and row.state != "Z" and not row.hidden else {}

    def command(self, pid: int) -> Sequence[str]:
        """The command line; empty when gone."""
        row = self._rows.get(pid)
        return list(row.argv) if row and row.state != "Z" and not row.hidden else ()

    def parent_of(self, pid: int) -> int | None:
        """The parent's pid, None when the process is gone or has none."""
        row = self._rows.get(pid)
        return (row.parent or None) if row else None
