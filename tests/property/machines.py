"""One machine as a simulation: our processes over fakes, stopped before their port calls, and agents that live or die.

Owns who runs, which session each agent is in, and what was told.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import cast

from msgspec.structs import replace

from supervisor.core.entry import (
    AgentIdentity,
    Entry,
    Generation,
    Output,
    ResumeContext,
    Starting,
    as_parent,
)
from supervisor.core.identity import ProcessKey, ProcessRef
from supervisor.core.launch_plan import LaunchPlan, ResumeLine
from supervisor.core.ports import Exit, SpawnRequest
from supervisor.runtime.keeper import Keeper
from supervisor.runtime.kept_agent import Report
from supervisor.runtime.parts import Parts
from supervisor.testing import (
    FakeClock,
    FakeExitWatch,
    FakeProcessTable,
    MemoryStore,
    make_entry,
    make_plan,
)
from tests.parts import SPIN, FakeWatches, make_fakes, make_parts
from tests.property.actors import Actor, Killed, Lock, running
from tests.property.audit import Audit
from tests.property.ports import Fault, SimSignals, SimSpawner, SimStore

SAYS = "session_id"
Ends = tuple[str, str]
"""An end as it is told: whose, and how."""


def agent_plan(name: str) -> LaunchPlan:
    """A CLI that begins a session, goes on with one, and says which in its first line."""
    line = ResumeLine(argv=(f"/bin/{name}", "--resume", ""), session_at=2, takes="stdin", ready="session")
    return make_plan(
        argv=(f"/bin/{name}", "--session", f"s-{name}"),
        cwd="/",
        capture_key=SAYS,
        ready="session",
        ready_timeout_ms=10_000,
        stop_grace_ms=2000,
        resume_argv=line.argv,
        session_at=2,
        resume_lines={"headless": line},
    )


class SimKeeper:
    """One keeper process."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.process = world.processes.add(argv=("supervisor", "keeper"), new_session=True)
        world.processes.subreapers.add(self.process.pid)
        self.parts = world.parts_of(self.process, poll_only=number % 3 == 2)
        self.watches = FakeWatches()
        self.news: list[tuple[str, str]] = []
        self.filled = self.stopped = False
        self.keeper = Keeper(
            self.parts,
            keeper_id=f"keeper-{number}",
            me=ProcessRef(world.processes.machine(), self.process),
            watches=self.watches,
            subreaper=True,
            call_scan=world.call_scan,
            report=lambda key, what: self.news.append((key, what)),
        )
        self.ref = self.keeper.ref

    @property
    def alive(self) -> bool:
        return self.world.processes.alive(self.process)

    def turn(self) -> int | None:
        """One pass, if it runs; killed within it, it is gone."""
        if not self.alive or self.stopped or not self.filled:
            return None
        watch = cast(FakeExitWatch, self.parts.exit_watch)
        try:
            self.keeper.hear(set(), watch.readable() & self.watches.fds)
            due = self.keeper.turn()
            if due is None:
                self.keeper.close()
                self.world.processes.end(self.process.pid)
            return due
        except Killed:
            return None


class World:
    """One machine, and what was said on it."""

    def __init__(self, folder: str, fault: Fault = Fault()) -> None:  # noqa: B008  frozen
        self.folder = folder
        self.fault = fault
        self.processes = FakeProcessTable()
        self.clock = FakeClock()
        self.disk = MemoryStore()
        self.audit = Audit(self)
        fakes = make_fakes(self.processes, me=self.processes.add().pid)
        self.transcripts, self.proofs = fakes.transcripts, fakes.proofs
        self._parts = replace(make_parts(fakes), clock=self.clock)
        self.keepers: list[SimKeeper] = []
        self.actors: list[Actor] = []
        self.names = Lock(self.processes.alive, ignored=fault.open_lock)
        self.told: set[Ends] = set()
        self.mood = "well"
        self.scans_wanted = 0
        self.make_scan: Callable[[], Actor] | None = None
        self._in_session: dict[ProcessKey, str] = {}
        self._latest_ms = 0
        self._interrupt: tuple[int, Callable[[ProcessKey], None]] | None = None

    # -- processes of ours

    def parts_of(self, process: ProcessKey, *, poll_only: bool = False) -> Parts:
        """The ports of one process."""
        return replace(
            self._parts,
            store=SimStore(self, process),
            spawner=SimSpawner(self, process),
            signals=SimSignals(self, process),
            exit_watch=FakeExitWatch(self.processes, poll_only=poll_only),
        )

    def port(self, process: ProcessKey) -> None:
        """Before every port call: the others have their turn, or the caller its end."""
        actor = running()
        if actor is not None:
            actor.pause()
        elif self._interrupt is not None:
            left, what = self._interrupt
            self._interrupt = (left - 1, what) if left else None
            if not left:
                what(process)
        if not self.processes.alive(process):
            raise Killed

    def interrupt(self, after: int, what: Callable[[ProcessKey], None]) -> None:
        """So many port calls of keepers from now this happens, amid a turn."""
        self._interrupt = (after, what)

    def act(self, name: str, run: Callable[[ProcessKey], None], process: ProcessKey | None = None) -> Actor:
        """A process that is run step by step, and gone when it is done."""
        key = process or self.processes.add(argv=("supervisor", name), new_session=True)

        def whole() -> None:
            try:
                run(key)
            finally:
                if process is None and self.processes.alive(key):
                    self.processes.end(key.pid)

        actor = Actor(name, key, whole)
        self.actors.append(actor)
        return actor

    def fork_keeper(self, fill: Callable[[SimKeeper, Report], None], *, holding: Lock | None = None) -> SimKeeper:
        """A keeper that is filled in a process of its own; it holds what its launcher holds until it has its agents."""
        keeper = SimKeeper(self, len(self.keepers) + 1)
        self.keepers.append(keeper)
        if holding is not None:
            holding.share(keeper.process)

        def run(_process: ProcessKey) -> None:
            keeper.keeper.announce()
            fill(keeper, keeper.keeper.tell)
            if holding is not None:
                holding.let_go(keeper.process)
            keeper.news.append(("", "kept"))
            keeper.filled = True

        self.act("keeper", run, keeper.process)
        return keeper

    def kill(self, process: ProcessKey) -> None:
        """SIGKILL, from outside."""
        if self.processes.alive(process):
            self.processes.end(process.pid, Exit(signal=9))
        for actor in self.actors:
            if actor.process == process:
                actor.kill()

    def call_scan(self) -> None:
        self.scans_wanted += 1

    def keeper_of(self, key: str) -> SimKeeper | None:
        entry = self.disk.read(key)
        return next((k for k in self.keepers if entry and k.ref == entry.keeper), None)

    # -- agents

    def born(self, key: ProcessKey, request: SpawnRequest) -> None:
        """An agent is up: it says which session it is in, or not, and reads what it is told."""
        session = request.argv[2]
        mood, self.mood = self.mood, "well"
        self._in_session[key] = session
        if mood == "dies":
            return self.processes.end(key.pid, Exit(code=1))
        if mood == "silent":
            return None
        if mood == "another":
            session = self._in_session[key] = f"s-new-{key.pid}"
        elif request.stdin and os.path.exists(request.stdin):
            self._hear(request.stdin)
        assert request.output is not None
        self.transcripts.content[request.output] += json.dumps({SAYS: session}).encode() + b"\n"
        return None

    def _hear(self, prompt: str) -> None:
        with open(prompt, encoding="utf-8") as file:
            for line in file:
                name, colon, how = line.removeprefix("- ").rstrip("\n").partition(": ")
                if colon and line.startswith("- "):
                    self.told.add((name, how))

    def processes_of(self, entry: Entry) -> list[ProcessKey]:
        """The live processes of an agent."""
        table = self.processes
        rows = [table.row(pid).key for pid in table.snapshot()]
        return [k for k in rows if table.environment(k.pid).get("SUPERVISOR_ENTRY_ID") == entry.entry_id]

    def sessions(self) -> dict[ProcessKey, str]:
        """Who lives, and the CLI's session that it is in."""
        return {k: s for k, s in self._in_session.items() if self.processes.alive(k)}

    def in_session(self, session: str) -> bool:
        """Whether somebody lives in it."""
        return session in self.sessions().values()

    def switches(self, key: ProcessKey) -> str:
        """An agent begins another session inside."""
        self._in_session[key] = f"s-clear-{key.pid}"
        return self._in_session[key]

    # -- time

    def latest_ms(self) -> int:
        """The furthest that the wall clock has been."""
        self._latest_ms = max(self._latest_ms, self.clock.wall_ms())
        return self._latest_ms

    def step_wall(self, ms: int) -> None:
        """Somebody sets it."""
        self.latest_ms()
        self.clock.step_wall(ms)

    def go(self, ms: int) -> None:
        """Time passes for every keeper that runs; scans that they call are made."""
        end = self.clock.monotonic_ns() + ms * 1_000_000
        at_once = 0
        while True:
            dues = [due for k in list(self.keepers) if (due := k.turn()) is not None]
            if self.scans_wanted and self.make_scan is not None:
                self.scans_wanted = 0
                self.run(self.make_scan())
                dues.append(self.clock.monotonic_ns())
            now = self.clock.monotonic_ns()
            due = min(dues, default=end + 1)
            at_once = at_once + 1 if due <= now else 0
            assert at_once < SPIN, "somebody comes back at once, again and again"
            if due > end:
                return self.clock.advance_to(end)
            self.clock.advance_to(max(due, now))

    def run(self, actor: Actor, steps: int = 400) -> None:
        """One process runs to its end, with what it forks; one that waits for others is left waiting."""
        for _ in range(steps):
            if actor.done:
                return
            for one in [a for a in self.actors if not a.done and (a is actor or a.name == "keeper")]:
                one.step()

    def close(self) -> None:
        """No thread stays behind."""
        for actor in self.actors:
            if not actor.done:
                actor.kill()


def cast_entry(name: str, number: int, parent: Entry | None, world: World, *, session: str | None = None) -> Entry:
    """A new agent's intent, its ids derived from its name."""
    return make_entry(
        name,
        status="starting",
        state=Starting(since=world.clock.wall_ms()),
        entry_id=f"{number:012x}",
        plan=agent_plan(name),
        agent=AgentIdentity(
            agent_id=f"agent-{name}",
            resume_context=ResumeContext(profile="demo", cwd="/", provider_session_id=session or f"s-{name}"),
        ),
        generation=Generation(nonce=f"nonce-{name}"),
        parent=as_parent(parent) if parent else None,
        started_at=world.clock.wall_ms(),
        output=Output(transcript=world.transcripts.path(f"{number:012x}")),
    )
