"""The life of workers as a simulation: keepers, leads, scans and directives in any order, and anything killed between.

Real keepers, records and adoptions over fakes of the outside; the clock, the pids and the store are the test's.
"""

from __future__ import annotations

from typing import cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from supervisor.core.entry import (
    AgentIdentity,
    Entry,
    Generation,
    Resumable,
    ResumeContext,
    Running,
    Starting,
    WindingDown,
    as_parent,
    grace_of,
    is_live,
)
from supervisor.core.identity import ProcessKey, ProcessRef
from supervisor.core.ports import Conflict, Exit
from supervisor.core.reconcile import Attach
from supervisor.core.transitions import MOVES, wanted_down
from supervisor.runtime.adopting import adopt, release
from supervisor.runtime.attaching import attach_all
from supervisor.runtime.compose import Context
from supervisor.runtime.keeper import Keeper
from supervisor.runtime.kept_agent import KeptAgent
from supervisor.runtime.parts import Parts
from supervisor.runtime.scan import Scan, carry_out, plan, scan
from supervisor.testing import (
    FakeClock,
    FakeExitWatch,
    FakeProcessTable,
    FakeSessionFiles,
    FakeSignals,
    FakeSpawner,
    MemoryBeats,
    MemoryStore,
    make_entry,
    make_plan,
)
from tests.parts import SPIN, FakeWatches, make_fakes, make_parts

GRACE_MS = 300_000
WORKERS, LEADS = 2, 2
CONTEXT = ResumeContext(profile="demo", cwd="/work")


class Audit:
    """What is true of every write, however it comes about."""

    def __init__(self) -> None:
        self.stores: list[AuditedStore] = []

    def wrote(self, before: Entry, after: Entry) -> None:
        if before.status != after.status:
            assert after.status in MOVES[before.status], f"{before.status} → {after.status}"
        assert not isinstance(after.state, Resumable) or after.state.agent == after.agent, "two identities"
        had, has = grace_of(before), grace_of(after)
        if had is not None and has is not None:
            assert had.until_ns == has.until_ns, "a grace was begun anew"
        if not is_live(before):
            assert before.hand_off is None or is_live(after) or _same_end(before, after), "a hand-off was overwritten"


def _same_end(before: Entry, after: Entry) -> bool:
    one, other = before.hand_off, after.hand_off
    return (
        one is not None and other is not None and replace(one, delivered_at=None) == replace(other, delivered_at=None)
    )


class AuditedStore(MemoryStore):
    """The matrix; each landed write is looked at."""

    def __init__(self, audit: Audit | None = None) -> None:
        super().__init__()
        self.audit = audit or Audit()

    def another(self) -> AuditedStore:
        other = AuditedStore(self.audit)
        other._disk = self._disk
        return other

    def replace_if_unchanged(self, expected: Entry, after: Entry) -> Entry | Conflict:
        result = super().replace_if_unchanged(expected, after)
        if isinstance(result, Entry):
            self.audit.wrote(expected, result)
        return result


class AuditedSignals(FakeSignals):
    """Signals; an agent hears one only when its record says why."""

    def __init__(self, processes: FakeProcessTable, *, me: int, store: MemoryStore) -> None:
        super().__init__(processes, me=me)
        self._store = store

    def send(self, key: ProcessKey, signal: int) -> bool:
        entry = next((e for e in self._store.list() if e.generation.process and e.generation.process.key == key), None)
        assert entry is not None, f"a signal to {key}, which is no recorded agent"
        marked = isinstance(entry.state, WindingDown) and entry.state.reason != "parent_lost"
        assert entry.want == "down" or marked, f"{entry.name} is signalled while it is {entry.status}"
        return super().send(key, signal)


class SimKeeper:
    """One keeper process."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.process = world.processes.add(argv=("supervisor", "keeper"), new_session=True)
        world.processes.subreapers.add(self.process.pid)
        store = world.store.another()
        self.parts: Parts = replace(
            world.parts,
            store=store,
            spawner=FakeSpawner(world.processes, parent=self.process.pid),
            signals=AuditedSignals(world.processes, me=self.process.pid, store=world.store.another()),
            exit_watch=FakeExitWatch(world.processes, poll_only=number % 3 == 2),
        )
        self.watches = FakeWatches()
        self.keeper = Keeper(
            self.parts,
            keeper_id=f"keeper-{number}",
            me=ProcessRef(world.processes.machine(), self.process),
            watches=self.watches,
            subreaper=True,
            call_scan=world.call_scan,
        )
        self.keeper.announce()
        self.stopped = False

    @property
    def runs(self) -> bool:
        return self.world.processes.alive(self.process) and not self.stopped

    def turn(self) -> int | None:
        watch = cast(FakeExitWatch, self.parts.exit_watch)
        self.keeper.hear(set(), watch.readable() & self.watches.fds)
        due = self.keeper.turn()
        if due is None:
            self.keeper.close()
            self.world.processes.end(self.process.pid)
        return due


class FakeContext:
    """What `attach_all` needs of a context."""

    class profiles:
        @staticmethod
        def known() -> tuple[object, ...]:
            return ()

    def __init__(self, keeper: SimKeeper) -> None:
        self.parts = keeper.parts
        self.store = keeper.parts.store
        self.clock = keeper.parts.clock
        self.processes = keeper.parts.processes
        self.env: dict[str, str] = {}


class World:
    """One machine."""

    def __init__(self) -> None:
        self.processes = FakeProcessTable()
        self.clock = FakeClock()
        self.store = AuditedStore()
        fakes = make_fakes(self.processes, me=self.processes.add().pid)
        self.beats: MemoryBeats = fakes.beats
        self.parts = replace(make_parts(fakes), clock=self.clock, store=self.store, session_files=FakeSessionFiles())
        self.keepers: list[SimKeeper] = []
        self.scans_wanted = 0
        self.leads = [self.launch(f"lead-{n}", None) for n in range(LEADS)]
        self.go(1000)
        lead = self.on_disk(self.leads[0])
        self.workers = [self.launch(f"worker-{n}", lead) for n in range(WORKERS)]
        self.go(1000)

    def launch(self, name: str, parent: Entry | None) -> str:
        keeper = self.new_keeper()
        entry = make_entry(
            name,
            status="starting",
            state=Starting(since=self.clock.wall_ms()),
            keeper=keeper.keeper.ref,
            plan=make_plan(argv=(f"/bin/{name}",), stop_grace_ms=2000),
            agent=AgentIdentity(agent_id=f"agent-{name}", resume_context=CONTEXT),
            generation=Generation(nonce=f"nonce-{name}"),
            parent=as_parent(parent) if parent else None,
        )
        assert keeper.parts.store.create(entry) is None
        keeper.keeper.add(KeptAgent(entry, {}, parts=keeper.parts, report=keeper.keeper.tell))
        return entry.key

    def new_keeper(self) -> SimKeeper:
        keeper = SimKeeper(self, len(self.keepers) + 1)
        self.keepers.append(keeper)
        return keeper

    def call_scan(self) -> None:
        self.scans_wanted += 1

    def on_disk(self, key: str) -> Entry:
        found = self.store.another().read(key)
        assert found is not None, f"the record of {key} is gone"
        return found

    def keeper_of(self, key: str) -> SimKeeper | None:
        keeper_id = self.on_disk(key).keeper.keeper_id
        return next((k for k in self.keepers if k.keeper.ref.keeper_id == keeper_id), None)

    def processes_of(self, key: str) -> list[ProcessKey]:
        entry_id = self.on_disk(key).entry_id
        rows = self.processes.snapshot()
        return [
            self.processes.row(pid).key
            for pid in rows
            if self.processes.environment(pid).get("SUPERVISOR_ENTRY_ID") == entry_id
        ]

    def reconcile(self, seen: Scan | None = None) -> None:
        """A scan in a process of its own, which becomes the keeper of what it claims."""
        seen = seen or scan(self.parts)
        done = carry_out(self.parts, plan(self.parts, seen))
        self.attach(list(done.attach))

    def attach(self, wanted: list[Attach]) -> None:
        if wanted:
            keeper = self.new_keeper()
            attach_all(cast(Context, FakeContext(keeper)), [a.entry for a in wanted], keeper.keeper, keeper.keeper.tell)
            keeper.turn()

    def go(self, ms: int) -> None:
        """Time passes for every keeper that runs."""
        end = self.clock.monotonic_ns() + ms * 1_000_000
        at_once = 0
        while True:
            dues = [due for k in self.keepers if k.runs and (due := k.turn()) is not None]
            while self.scans_wanted:
                self.scans_wanted = 0
                self.reconcile()
                dues.append(self.clock.monotonic_ns())
            now = self.clock.monotonic_ns()
            due = min(dues, default=end + 1)
            at_once = at_once + 1 if due <= now else 0
            assert at_once < SPIN, "somebody comes back at once, again and again"
            if due > end:
                self.clock.advance_to(end)
                return
            self.clock.advance_to(max(due, now))


class WorkerLife(RuleBasedStateMachine):
    """Anything may happen to anybody, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.old: list[Entry] = []
        self.seen: Scan | None = None
        self.strangers: list[ProcessKey] = []

    worker = st.integers(0, WORKERS - 1)
    lead = st.integers(0, LEADS - 1)

    @rule(ms=st.sampled_from([1, 3, 250, 1_000, 6_000, 60_000, 100_000, GRACE_MS]))
    def time_passes(self, ms: int) -> None:
        self.world.go(ms)

    @rule(n=worker, code=st.sampled_from([0, 1, -9]))
    def a_worker_ends(self, n: int, code: int) -> None:
        for key in self.world.processes_of(self.world.workers[n]):
            self.world.processes.end(key.pid, Exit(signal=9) if code < 0 else Exit(code=code))

    @rule(n=lead)
    def a_lead_is_killed(self, n: int) -> None:
        for key in self.world.processes_of(self.world.leads[n]):
            self.world.processes.end(key.pid, Exit(signal=9))

    @rule(key=st.one_of(worker.map(lambda n: ("w", n)), lead.map(lambda n: ("l", n))))
    def a_keeper_is_killed(self, key: tuple[str, int]) -> None:
        keeper = self.world.keeper_of(self._key(key))
        if keeper is not None and self.world.processes.alive(keeper.process):
            self.world.processes.end(keeper.process.pid, Exit(signal=9))

    @rule(key=st.one_of(worker.map(lambda n: ("w", n)), lead.map(lambda n: ("l", n))), stopped=st.booleans())
    def a_keeper_is_stopped_or_continued(self, key: tuple[str, int], stopped: bool) -> None:
        keeper = self.world.keeper_of(self._key(key))
        if keeper is not None:
            keeper.stopped = stopped

    @rule()
    def somebody_looks(self) -> None:
        """A scan whose plan is carried out later, when it is old."""
        self.seen = scan(self.world.parts)

    @precondition(lambda self: self.seen is not None)
    @rule()
    def an_old_plan_is_carried_out(self) -> None:
        self.world.reconcile(self.seen)

    @rule()
    def somebody_reconciles(self) -> None:
        self.world.reconcile()

    @rule(n=worker, by=lead, old=st.booleans())
    def somebody_adopts(self, n: int, by: int, old: bool) -> None:
        orphan, parent = self.world.on_disk(self.world.workers[n]), self.world.on_disk(self.world.leads[by])
        seen = self.seen if old else None
        adopt(replace(self.world.parts, store=self.world.store.another()), orphan, parent, seen=seen, wait_s=self._wait)

    @rule(n=worker)
    def somebody_releases(self, n: int) -> None:
        release(self.world.parts, self.world.on_disk(self.world.workers[n]))

    @rule(n=lead)
    def somebody_stops_a_lead(self, n: int) -> None:
        entry = self.world.on_disk(self.world.leads[n])
        if is_live(entry):
            self.world.store.another().replace_if_unchanged(entry, wanted_down(entry, grace_ms=None))

    @rule(n=worker)
    def somebody_remembers_a_record(self, n: int) -> None:
        self.old.append(self.world.on_disk(self.world.workers[n]))

    @precondition(lambda self: bool(self.old))
    @rule()
    def an_old_writer_comes_late(self) -> None:
        old = self.old.pop()
        now = self.world.on_disk(old.key)
        result = self.world.store.another().replace_if_unchanged(old, replace(old, heartbeat_at=1))
        assert isinstance(result, Conflict) or now.revision == old.revision

    @rule(n=worker)
    def the_pid_of_a_dead_worker_is_used_again(self, n: int) -> None:
        process = self.world.on_disk(self.world.workers[n]).generation.process
        # not before it was reaped: a zombie keeps its pid
        if process is not None and self.world.processes.identify(process.key.pid) is None:
            self.strangers.append(self.world.processes.reuse(process.key.pid))

    def _wait(self, seconds: float) -> None:
        self.world.go(max(int(seconds * 1000), 1))

    def _key(self, which: tuple[str, int]) -> str:
        return (self.world.workers if which[0] == "w" else self.world.leads)[which[1]]

    @invariant()
    def nobody_runs_twice(self) -> None:
        for key in (*self.world.workers, *self.world.leads):
            assert len(self.world.processes_of(key)) <= 1

    @invariant()
    def no_stranger_has_heard_anything(self) -> None:
        for stranger in self.strangers:
            assert self.world.processes.alive(stranger)

    @invariant()
    def who_lives_is_not_recorded_as_over(self) -> None:
        for key in self.world.workers:
            if self.world.processes_of(key):
                assert is_live(self.world.on_disk(key))

    def teardown(self) -> None:
        """When everybody goes on and somebody looks, every end is on record and no mark stays behind."""
        for keeper in self.world.keepers:
            keeper.stopped = False
        for _ in range(3):
            self.world.go(10_000)
            self.world.reconcile()
        self.world.go(2 * GRACE_MS)
        self.world.reconcile()
        self.world.go(10_000)
        for key in self.world.workers:
            entry = self.world.on_disk(key)
            if self.world.processes_of(key):
                assert is_live(entry)
                assert isinstance(entry.state, Running), f"{entry.name} is stuck {entry.status}"
            else:
                assert not is_live(entry), f"{entry.name} is stuck {entry.status}"
                assert entry.hand_off is not None, f"the end of {entry.name} is lost"


WorkerLife.TestCase.settings = settings(stateful_step_count=30, deadline=None)
test_worker_life = WorkerLife.TestCase
