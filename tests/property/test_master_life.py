"""The life of masters as a simulation: launches, resumes, recoveries and adoptions, each in steps, in any order.

Anything is killed at any port call. Real keepers, records and use cases over fakes of the outside.
"""

from __future__ import annotations

import shutil
import tempfile

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from supervisor.core.entry import Entry, Running, as_parent, is_live
from supervisor.core.fences import Fence
from supervisor.core.handoffs import undelivered
from supervisor.core.identity import ProcessKey
from supervisor.core.ports import Exit
from supervisor.core.session_proof import Above, SessionProof, encode_proof
from supervisor.core.transitions import wanted_down
from supervisor.testing import make_state
from tests.property import commands
from tests.property.actors import Actor
from tests.property.machines import World, cast_entry
from tests.property.ports import Fault

MASTERS, WORKERS = 2, 3
DAY_MS = 24 * 3600 * 1000
master = st.integers(0, MASTERS - 1)
worker = st.integers(0, WORKERS - 1)
anybody = st.one_of(master.map(lambda n: f"lead-{n}"), worker.map(lambda n: f"worker-{n}"), st.just("twin"))
USES = ["resume", "adopt", "recover", "release", "wait"]
turns = st.lists(st.tuples(st.booleans(), st.integers(1, 4)), max_size=12)
MOODS = ["well", "another", "silent", "dies"]


class MasterLife(RuleBasedStateMachine):
    """Anything may happen to anybody, in any order, also amid what they do. `fault` and `kind` are planted."""

    fault = Fault()
    kind = commands.Command

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="supervisor-master-life-")
        self.world = World(self.folder, self.fault)
        self.world.make_scan = lambda: self._begin("scan", commands.reconciling)
        self.keys: dict[str, str] = {}
        self.old: list[Entry] = []
        self.outcomes: list[Entry | Fence] = []
        self.strangers: list[ProcessKey] = []
        self.ended = 1
        for n in range(MASTERS):
            self._cast(f"lead-{n}", None)
        for n in range(WORKERS):
            self._cast(f"worker-{n}", self.on_disk("lead-0"))
        self._cast_twin()

    def _cast(self, name: str, parent: Entry | None) -> None:
        self._launch(cast_entry(name, len(self.keys) + 1, parent, self.world))
        self.settle()

    def _launch(self, intent: Entry) -> None:
        self.keys[intent.name] = intent.key
        self._begin("launch", commands.launch(intent))

    def _cast_twin(self) -> None:
        """Another record of the session of a lead: that was resumed by hand once, under another profile."""
        twin = cast_entry("twin", len(self.keys) + 1, None, self.world, session="s-lead-0")
        self.keys["twin"] = twin.key
        self.world.disk.create(replace(twin, state=make_state("closed", since=self.world.clock.wall_ms())))

    def settle(self) -> None:
        """Every command comes to its end."""
        for _ in range(400):
            for actor in self._waiting():
                actor.step()
            self.world.go(100)
            if not self._waiting():
                return self.world.go(1000)
        raise AssertionError(f"{[a.name for a in self._waiting()]} do not come to an end")

    def _begin(self, name: str, use: commands.Use) -> Actor:
        return commands.begin(self.world, name, use, kind=self.kind)

    def on_disk(self, name: str) -> Entry | None:
        return self.world.disk.read(self.keys[name])

    def _waiting(self) -> list[Actor]:
        return [a for a in self.world.actors if not a.done]

    # -- commands begin

    @rule(name=anybody, by=st.none() | master)
    def somebody_resumes(self, name: str, by: int | None) -> None:
        self._begin("resume", commands.resume(self.keys[name], by=self.keys[f"lead-{by}"] if by is not None else None))

    @rule(n=master, heard=st.booleans())
    def somebody_recovers(self, n: int, heard: bool) -> None:
        self._begin("recover", commands.recover(self.keys[f"lead-{n}"], heard=heard))

    @rule(n=worker, by=master)
    def somebody_adopts(self, n: int, by: int) -> None:
        use = commands.adopting(self.keys[f"worker-{n}"], self.keys[f"lead-{by}"], self.outcomes)
        self._begin("adopt", use)

    @rule(n=worker)
    def somebody_releases(self, n: int) -> None:
        self._begin("release", commands.releasing(self.keys[f"worker-{n}"]))

    @rule(n=worker)
    def somebody_waits(self, n: int) -> None:
        self._begin("wait", commands.waiting_for(self.keys[f"worker-{n}"]))

    @rule()
    def somebody_reconciles(self) -> None:
        self._begin("reconcile", commands.reconciling)

    @rule(n=master)
    def somebody_launches_into_a_session(self, n: int) -> None:
        """`launch … -- --resume SESSION`: which session it is in it proves only later."""
        if "guest" not in self.keys:
            guest = cast_entry("guest", len(self.keys) + 1, None, self.world)
            plan = replace(guest.plan, argv=("/bin/guest", "--resume", f"s-lead-{n}"))
            self._launch(replace(guest, plan=plan))

    @rule(name=anybody, uses=st.tuples(st.sampled_from(USES), st.sampled_from(USES)), turns=turns)
    def two_commands_race_for_one(self, name: str, uses: tuple[str, str], turns: list[tuple[bool, int]]) -> None:
        self._race([self._racer(use, name, n) for n, use in enumerate(uses)], turns)

    @precondition(lambda self: not self.world.in_session("s-lead-0"))
    @rule(turns=turns)
    def two_resume_into_one_session(self, turns: list[tuple[bool, int]]) -> None:
        self._race([self._racer("resume", name, 0) for name in ("lead-0", "twin")], turns)

    def _race(self, racers: list[Actor], turns: list[tuple[bool, int]]) -> None:
        """Step by step, each with the keepers that it forks."""
        for first, steps in turns:
            for _ in range(steps):
                racers[first].step()
                for keeper in [a for a in self._waiting() if a.name == "keeper"]:
                    keeper.step()

    def _racer(self, use: str, name: str, n: int) -> Actor:
        key, lead = self.keys[name], self.keys[f"lead-{n}"]
        if use == "adopt" and not name.startswith("worker"):
            use = "resume"
        run = {
            "resume": commands.resume(key),
            "adopt": commands.adopting(key, lead, self.outcomes),
            "recover": commands.recover(lead),
            "release": commands.releasing(key),
            "wait": commands.waiting_for(key),
        }[use]
        return self._begin(use, run)

    # -- commands and keepers go on, or are killed

    @precondition(lambda self: self._waiting())
    @rule(which=st.integers(0, 7), steps=st.integers(1, 12))
    def a_command_goes_on(self, which: int, steps: int) -> None:
        waiting = self._waiting()
        for _ in range(steps):
            waiting[which % len(waiting)].step()

    @precondition(lambda self: self._waiting())
    @rule(rounds=st.sampled_from([1, 4, 16, 60]))
    def all_commands_go_on_in_turn(self, rounds: int) -> None:
        for _ in range(rounds):
            for actor in self._waiting():
                actor.step()
            self.world.go(50)

    @precondition(lambda self: self._waiting())
    @rule(which=st.integers(0, 7))
    def a_command_is_killed(self, which: int) -> None:
        waiting = self._waiting()
        self.world.kill(waiting[which % len(waiting)].process)

    @rule(after=st.integers(0, 12))
    def a_keeper_is_killed_amid_its_turn(self, after: int) -> None:
        self.world.interrupt(after, self.world.kill)

    @precondition(lambda self: self._waiting())
    @rule(after=st.integers(0, 6), which=st.integers(0, 7), steps=st.integers(1, 12))
    def a_command_goes_on_amid_a_keepers_turn(self, after: int, which: int, steps: int) -> None:
        waiting = self._waiting()
        actor = waiting[which % len(waiting)]
        self.world.interrupt(after, lambda _process: [actor.step() for _ in range(steps)] and None)

    @rule(name=anybody)
    def a_keeper_is_killed(self, name: str) -> None:
        keeper = self.world.keeper_of(self.keys[name])
        if keeper is not None:
            self.world.kill(keeper.process)

    @rule(name=anybody, stopped=st.booleans())
    def a_keeper_is_stopped_or_continued(self, name: str, stopped: bool) -> None:
        keeper = self.world.keeper_of(self.keys[name])
        if keeper is not None:
            keeper.stopped = stopped

    # -- agents live and die

    @rule(mood=st.sampled_from(MOODS))
    def the_next_agent_is(self, mood: str) -> None:
        self.world.mood = mood

    @rule(name=anybody)
    def an_agent_ends(self, name: str) -> None:
        entry = self.on_disk(name)
        self.ended += 1
        for key in self.world.processes_of(entry) if entry else ():
            self.world.processes.end(key.pid, Exit(code=self.ended % 256))

    @rule(name=anybody)
    def an_agent_and_its_keeper_are_killed(self, name: str) -> None:
        entry, keeper = self.on_disk(name), self.world.keeper_of(self.keys[name])
        if keeper is not None:
            self.world.kill(keeper.process)
        for key in self.world.processes_of(entry) if entry else ():
            self.world.processes.end(key.pid, Exit(signal=9))

    @rule(n=master, ms=st.sampled_from([1, 1_000, 10_000]))
    def a_master_is_lost(self, n: int, ms: int) -> None:
        self.an_agent_and_its_keeper_are_killed(f"lead-{n}")
        self.world.go(ms)

    @rule(n=master)
    def a_master_begins_another_session(self, n: int) -> None:
        entry = self.on_disk(f"lead-{n}")
        for key in self.world.processes_of(entry) if entry else ():
            assert entry is not None
            session = self.world.switches(key)
            generation = self.world.processes.environment(key.pid)["SUPERVISOR_GENERATION"]
            above = (Above(key.pid, key.start_ticks, key.pid),)
            proof = SessionProof(session, "clear", None, generation, key.pid, above)
            self.world.proofs.content[entry.entry_id] = encode_proof(proof)

    @rule(name=anybody)
    def somebody_wants_it_down(self, name: str) -> None:
        entry = self.on_disk(name)
        if entry is not None and is_live(entry):
            self.world.disk.replace_if_unchanged(entry, wanted_down(entry, grace_ms=None))

    @rule(name=anybody)
    def the_pid_of_a_dead_agent_is_used_again(self, name: str) -> None:
        entry = self.on_disk(name)
        process = entry.generation.process if entry else None
        # not before it was reaped: a zombie keeps its pid
        if process is not None and self.world.processes.identify(process.key.pid) is None:
            self.strangers.append(self.world.processes.reuse(process.key.pid))

    # -- time

    @rule(ms=st.sampled_from([1, 250, 1_000, 6_000, 12_000, 60_000, 300_000]))
    def time_passes(self, ms: int) -> None:
        self.world.go(ms)

    @rule(ms=st.sampled_from([-2 * DAY_MS, -3_600_000, 3_600_000, 2 * DAY_MS, 31 * DAY_MS]))
    def the_wall_clock_is_set(self, ms: int) -> None:
        self.world.step_wall(ms)

    # -- old writers

    @rule(name=anybody)
    def somebody_remembers_a_record(self, name: str) -> None:
        entry = self.on_disk(name)
        if entry is not None:
            self.old.append(entry)

    @precondition(lambda self: bool(self.old))
    @rule()
    def an_old_writer_comes_late(self) -> None:
        old = self.old.pop()

        def write(command: commands.Command) -> None:
            command.context.store.replace_if_unchanged(old, replace(old, heartbeat_at=self.world.clock.wall_ms()))

        self._begin("old", write)

    # -- what always holds

    @invariant()
    def nobody_runs_twice(self) -> None:
        sessions = list(self.world.sessions().values())
        assert len(set(sessions)) == len(sessions), f"two are in one session: {sessions}"
        for name in self.keys:
            entry = self.on_disk(name)
            assert entry is None or len(self.world.processes_of(entry)) <= 1, f"{name} runs twice"

    @invariant()
    def who_lives_is_not_recorded_as_over(self) -> None:
        on_record = {e.entry_id for e in self.world.disk.list() if is_live(e)}
        for key in self.world.sessions():
            assert self.world.processes.environment(key.pid)["SUPERVISOR_ENTRY_ID"] in on_record, "unrecorded"

    @invariant()
    def no_stranger_has_heard_anything(self) -> None:
        assert all(self.world.processes.alive(s) for s in self.strangers)

    def teardown(self) -> None:
        """When everybody goes on, every command ends, every end is on record, and a master is told what is its."""
        try:
            self._all_comes_to_rest()
            self._masters_come_back()
        finally:
            self.close()

    def close(self) -> None:
        """No thread and no file stays behind."""
        self.world.close()
        shutil.rmtree(self.folder)

    def _all_comes_to_rest(self) -> None:
        for keeper in self.world.keepers:
            keeper.stopped = False
        self.settle()
        for _ in range(3):
            self._begin("reconcile", commands.reconciling)
            self.settle()
            self.world.go(320_000)
        for name in self.keys:
            entry = self.on_disk(name)
            if entry is not None and self.world.processes_of(entry):
                assert isinstance(entry.state, Running), f"{name} is stuck {entry.status}"
            else:
                assert entry is None or not is_live(entry), f"{name} is stuck {entry.status}"
                assert entry is None or entry.hand_off is not None, f"the end of {name} is lost"

    def _masters_come_back(self) -> None:
        self.world.mood = "well"
        for n in range(MASTERS):
            self._begin("resume", commands.resume(self.keys[f"lead-{n}"]))
            self.settle()
            self._begin("recover", commands.recover(self.keys[f"lead-{n}"]))
            self.settle()
            lead = self.on_disk(f"lead-{n}")
            if lead is not None and is_live(lead):
                assert as_parent(lead).process is not None
                left = [
                    e.name
                    for e in undelivered(self.world.disk.list())
                    if e.parent and e.parent.session_id == lead.session_id
                ]
                assert not left, f"{lead.name} was not told how {left} ended"


MasterLife.TestCase.settings = settings(stateful_step_count=40, deadline=None)
test_master_life = MasterLife.TestCase


def test_the_simulated_machine_brings_back_what_is_a_masters() -> None:
    """That it happens at all: one child lives on and is adopted, one is dead and resumed, the end of one is told."""
    life = MasterLife()
    try:
        life.an_agent_ends("worker-0")
        life.an_agent_and_its_keeper_are_killed("worker-1")
        life.a_master_is_lost(0, 10_000)
        before = life.on_disk("worker-2")
        life.somebody_resumes("lead-0", None)
        life.settle()
        lead, *workers = (life.on_disk(name) for name in ("lead-0", "worker-0", "worker-1", "worker-2"))
        ended, resumed, adopted = workers
        assert lead and ended and resumed and adopted and before and ended.hand_off
        assert [e.status for e in (before, lead, *workers)] == ["resumable", "running", "closed", "running", "running"]
        assert ended.hand_off.delivered_at is not None
        assert life.world.told == {("worker-0", "exited with 2")}
        assert {e.parent for e in (resumed, adopted)} == {as_parent(lead)}
        assert adopted.generation == before.generation
    finally:
        life.close()
