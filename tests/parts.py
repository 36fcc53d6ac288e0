"""Parts of fakes, and a stage on which a keeper plays: turn by turn, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from supervisor.core.entry import Entry, Generation, KeeperRef, Output, Starting
from supervisor.core.identity import ProcessKey, ProcessRef
from supervisor.core.ports import Exit, SpawnRequest
from supervisor.runtime.keeper import Keeper
from supervisor.runtime.kept_agent import KeptAgent
from supervisor.runtime.parts import Limits, Parts
from supervisor.testing import (
    FakeClock,
    FakeExitWatch,
    FakeProcessTable,
    FakeSessionFiles,
    FakeSignals,
    FakeSpawner,
    MemoryBeats,
    MemoryBells,
    MemoryProofs,
    MemoryStore,
    MemoryTranscripts,
    make_entry,
    make_plan,
)

SPIN = 200  # turns at one moment: whoever needs more does not wait for anything


class Fakes(Struct, kw_only=True):
    """Every fake of one process."""

    clock: FakeClock
    processes: FakeProcessTable
    signals: FakeSignals
    spawner: FakeSpawner
    exit_watch: FakeExitWatch
    store: MemoryStore
    beats: MemoryBeats
    bells: MemoryBells
    transcripts: MemoryTranscripts
    session_files: FakeSessionFiles
    proofs: MemoryProofs


MakeSpawner = Callable[[FakeProcessTable, int, MemoryBeats], FakeSpawner]


def make_fakes(
    processes: FakeProcessTable, *, me: int, poll_only: bool = False, make_spawner: MakeSpawner | None = None
) -> Fakes:
    """Fakes around one process table."""
    beats = MemoryBeats()
    return Fakes(
        clock=FakeClock(),
        processes=processes,
        signals=FakeSignals(processes, me=me),
        spawner=make_spawner(processes, me, beats) if make_spawner else FakeSpawner(processes, parent=me),
        exit_watch=FakeExitWatch(processes, poll_only=poll_only),
        store=MemoryStore(),
        beats=beats,
        bells=MemoryBells(),
        transcripts=MemoryTranscripts(),
        session_files=FakeSessionFiles(),
        proofs=MemoryProofs(),
    )


def make_parts(fakes: Fakes, *, heartbeat_ms: int = 30_000, transcript_bytes: int = 1 << 26) -> Parts:
    """The runtime's parts, made of fakes."""
    limits = Limits(
        heartbeat_ms=heartbeat_ms, watcher_poll_ms=25_000, adoption_grace_ms=300_000, transcript_bytes=transcript_bytes
    )
    return Parts(
        home="/state",
        limits=limits,
        clock=fakes.clock,
        processes=fakes.processes,
        signals=fakes.signals,
        spawner=fakes.spawner,
        exit_watch=fakes.exit_watch,
        store=fakes.store,
        beats=fakes.beats,
        bells=fakes.bells,
        transcripts=fakes.transcripts,
        session_files=fakes.session_files,
        proofs=fakes.proofs,
    )


class FakeWatches:
    """The loop's side of descriptors."""

    def __init__(self) -> None:
        self.fds: set[int] = set()

    def watch(self, fd: int) -> None:
        self.fds.add(fd)

    def forget(self, fd: int) -> None:
        self.fds.discard(fd)


class Stage:
    """One keeper over fakes. `go` lets time pass as the real loop would: from one due time to the next."""

    def __init__(
        self,
        *,
        foreground: bool = False,
        poll_only: bool = False,
        transcript_bytes: int = 1 << 26,
        make_spawner: MakeSpawner | None = None,
    ) -> None:
        self.processes = FakeProcessTable()
        keeper = self.processes.add(argv=("supervisor", "keeper"), new_session=True)
        self.processes.subreapers.add(keeper.pid)
        self.me = keeper.pid
        self.fakes = make_fakes(self.processes, me=keeper.pid, poll_only=poll_only, make_spawner=make_spawner)
        self.clock = self.fakes.clock
        self.store = self.fakes.store
        self.spawner = self.fakes.spawner
        self.signals = self.fakes.signals
        self.beats = self.fakes.beats
        self.transcripts = self.fakes.transcripts
        self.parts = make_parts(self.fakes, transcript_bytes=transcript_bytes)
        self.watches = FakeWatches()
        self.news: list[tuple[str, str]] = []
        self.scans = 0
        self.due: int | None = 0
        self.keeper = Keeper(
            self.parts,
            keeper_id="keeper-1",
            me=ProcessRef(self.processes.machine(), keeper),
            watches=self.watches,
            subreaper=True,
            foreground=foreground,
            call_scan=self._scan,
            report=self._report,
        )

    # -- casting

    def add(self, name: str = "lead", *, env: Mapping[str, str] | None = None, **changes: Any) -> KeptAgent:
        """An agent whose intent is on record, not started yet. Its program bears its name."""
        agent = self._cast(name, env or {}, changes)
        assert self.store.create(agent.entry) is None
        self.keeper.add(agent)
        return agent

    def add_unwritten(self, name: str, **changes: Any) -> KeptAgent:
        """The same while the disk takes nothing: its intent got on record just before."""
        broken = self.store.broken
        self.store.mend()
        agent = self.add(name, **changes)
        if broken is not None:
            self.store.break_writes(broken)
        return agent

    def _cast(self, name: str, env: Mapping[str, str], changes: dict[str, Any]) -> KeptAgent:
        plan = changes.pop("plan", None) or make_plan()
        if plan.argv == make_plan().argv:
            plan = replace(plan, argv=(f"/bin/{name}",))
        entry = make_entry(
            name,
            status="starting",
            **{"plan": plan, "keeper": self.keeper.ref, "state": Starting(since=self.clock.wall_ms()), **changes},
        )
        return KeptAgent(entry, env, parts=self.parts, report=self.keeper.tell)

    def attach(self, name: str = "lead", *, parent: int = 1, **changes: Any) -> KeptAgent:
        """A running agent that an earlier keeper has started: not our child."""
        entry_id = f"entry-{name}"
        key = self.processes.add(parent=parent, new_session=True, env={"SUPERVISOR_ENTRY_ID": entry_id})
        process = ProcessRef(self.processes.machine(), key)
        generation = Generation(nonce=f"nonce-{name}", process=process)
        entry = make_entry(name, **{"generation": generation, "keeper": self.keeper.ref, **changes})
        assert self.store.create(entry) is None
        agent = KeptAgent(entry, {}, parts=self.parts, report=self.keeper.tell, attached=True)
        self.keeper.add(agent)
        return agent

    def transcript(self, name: str = "lead") -> Output:
        """An empty transcript, for `add(output=…)`."""
        path = self.transcripts.path(f"entry-{name}")
        self.transcripts.create(path)
        return Output(transcript=path)

    # -- time

    def turn(self, *signals: int) -> int | None:
        """The loop wakes: it hears what there is, and makes one pass."""
        self.keeper.hear(set(signals), self.fakes.exit_watch.readable() & self.watches.fds)
        self.due = self.keeper.turn()
        return self.due

    def go(self, ms: float, *, until: Callable[[], bool] = lambda: False) -> None:
        """Let time pass, waking when the keeper wants to or something ends. Fails when it spins."""
        end = self.clock.monotonic_ns() + int(ms * 1_000_000)
        at_once = 0
        while not until():
            due = self.turn()
            if until():
                return None
            now = self.clock.monotonic_ns()
            if due is not None and self._woken():
                due = now
            if due is None or due > end:
                return self.clock.advance_to(end)
            at_once = at_once + 1 if due <= now else 0
            assert at_once < SPIN, "the keeper comes back at once, again and again"
            self.clock.advance_to(due)
        return None

    def _woken(self) -> bool:
        """SIGCHLD, or a watched descriptor that became readable."""
        return bool(self.processes.zombies_of(self.me) or self.fakes.exit_watch.readable() & self.watches.fds)

    # -- looking

    def on_disk(self, agent: KeptAgent) -> Entry:
        """The record as anybody reads it."""
        entry = self.store.another().read(agent.entry.key)
        assert entry is not None
        return entry

    def pid(self, agent: KeptAgent) -> int:
        """The agent's process."""
        return self.key(agent).pid

    def key(self, agent: KeptAgent) -> ProcessKey:
        """The agent's process by identity."""
        process = agent.entry.generation.process
        assert process is not None
        return process.key

    def kill(self, agent: KeptAgent) -> None:
        """SIGKILL from outside."""
        self.processes.end(self.pid(agent), Exit(signal=9))

    def wants_down(self, agent: KeptAgent, *, grace_ms: int | None = None) -> None:
        """Another process writes `want=down`, and does not ring."""
        elsewhere = self.store.another()
        entry = elsewhere.read(agent.entry.key)
        assert entry is not None
        landed = elsewhere.replace_if_unchanged(entry, replace(entry, want="down", stop_grace_ms=grace_ms))
        assert isinstance(landed, Entry)

    def requests(self, name: str) -> list[SpawnRequest]:
        """The spawns of one agent."""
        return [r for r in self.spawner.requests if r.argv[0] == f"/bin/{name}"]

    def taken_over(self, agent: KeptAgent, *, keeper: KeeperRef | None = None) -> Entry:
        """Another keeper claims the entry and starts a new generation of it."""
        elsewhere = self.store.another()
        entry = elsewhere.read(agent.entry.key)
        assert entry is not None
        theirs = keeper or KeeperRef("keeper-2", ProcessRef(self.processes.machine(), self.processes.add()))
        process = ProcessRef(self.processes.machine(), self.processes.add())
        after = replace(entry, keeper=theirs, generation=Generation(nonce="nonce-new", process=process))
        landed = elsewhere.replace_if_unchanged(entry, after)
        assert isinstance(landed, Entry)
        return landed

    def _report(self, key: str, what: str) -> None:
        self.news.append((key, what))

    def _scan(self) -> None:
        self.scans += 1
