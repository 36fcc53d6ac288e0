"""What a keeper does for workers whose parent is lost: wound down, offered, adopted, ended."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from supervisor.core import transitions
from supervisor.core.entry import (
    AgentIdentity,
    Entry,
    Generation,
    KeeperRef,
    ParentRef,
    Resumable,
    ResumeContext,
    as_parent,
    grace_of,
)
from supervisor.core.identity import ProcessKey, ProcessRef
from supervisor.core.launch_plan import RestartPlan
from supervisor.core.ports import Exit
from supervisor.runtime.kept_agent import KeptAgent
from supervisor.testing import make_beat, make_entry, make_hand_off, make_plan
from tests.parts import Stage

RESUMING = AgentIdentity(agent_id="agent-child", resume_context=ResumeContext(profile="demo", cwd="/work"))
GRACE_MS = 300_000
SILENCE_MS = 2 * 30_000 + 25_000


class Family:
    """A worker on the stage whose parent lives elsewhere, under a keeper of its own."""

    def __init__(self, stage: Stage, *, parent: str = "lead", resumes: bool = True, **changes: object) -> None:
        self.stage = stage
        self.keeper_process = stage.processes.add(argv=("supervisor", "keeper"), new_session=True)
        self.keeper = KeeperRef("keeper-parent", self._ref(self.keeper_process))
        self.parent_process = stage.processes.add(parent=self.keeper_process.pid, new_session=True)
        self.elsewhere = stage.store.another()
        self.parent = make_entry(
            parent,
            keeper=self.keeper,
            generation=Generation(nonce="nonce-parent", process=self._ref(self.parent_process)),
        )
        assert self.elsewhere.create(self.parent) is None
        self.beats = 0
        self.beat()
        agent = RESUMING if resumes else AgentIdentity(agent_id="agent-child")
        cast = {"parent": as_parent(self.parent), "role": "worker", "agent": agent, **changes}
        self.child = stage.add("child", **cast)
        self.go(100)
        assert self.record.status == "running"

    def _ref(self, key: ProcessKey) -> ProcessRef:
        return ProcessRef(self.stage.processes.machine(), key)

    @property
    def record(self) -> Entry:
        """The worker as anybody reads it."""
        return self.stage.on_disk(self.child)

    def beat(self) -> None:
        self.beats += 1
        clock = self.stage.clock
        self.stage.beats.beat(
            make_beat(self.keeper, beat=self.beats, wall_ms=clock.wall_ms(), monotonic_ns=clock.monotonic_ns())
        )

    def go(self, ms: int, *, beating: bool = True) -> None:
        """Time passes, while the parent's keeper beats."""
        while ms > 0:
            if beating:
                self.beat()
            self.stage.go(min(ms, 1000))
            ms -= 1000

    def lose(self, *, keeper: bool = True) -> None:
        """SIGKILL of the parent's keeper and of the parent."""
        if keeper:
            self.stage.processes.end(self.keeper_process.pid, Exit(signal=9))
        self.stage.processes.end(self.parent_process.pid, Exit(signal=9))

    def write_parent(self, after: Entry) -> None:
        landed = self.elsewhere.replace_if_unchanged(self.parent, after)
        assert isinstance(landed, Entry)
        self.parent = landed

    def adopt(self, parent: Entry) -> Entry:
        """What `adopt` writes."""
        current = self.elsewhere.read(self.child.entry.key)
        assert current is not None
        after = transitions.adopted(current, as_parent(parent), now=self.stage.clock.wall_ms())
        landed = self.elsewhere.replace_if_unchanged(current, after)
        assert isinstance(landed, Entry)
        return landed

    def another_parent(self, name: str = "other") -> Entry:
        """A second lead that lives, under the same keeper as the first (which must live)."""
        process = self._ref(self.stage.processes.add(new_session=True))
        keeper = KeeperRef("keeper-other", self._ref(self.stage.processes.add(new_session=True)))
        entry = make_entry(name, keeper=keeper, generation=Generation(nonce=f"nonce-{name}", process=process))
        assert self.elsewhere.create(entry) is None
        clock = self.stage.clock
        self.stage.beats.beat(make_beat(keeper, wall_ms=clock.wall_ms(), monotonic_ns=clock.monotonic_ns()))
        return entry


def signals_to(stage: Stage, agent: KeptAgent) -> list[int]:
    return stage.signals.to(stage.pid(agent))


def test_a_worker_whose_parent_and_its_keeper_are_killed_is_offered_at_once() -> None:
    family = Family(Stage())
    began = family.stage.clock.monotonic_ns()
    family.lose()
    family.stage.turn()
    state = family.record.state
    assert isinstance(state, Resumable)
    assert (state.agent, state.hand_off) == (RESUMING, None)
    assert state.grace is not None
    assert state.grace.evidence == f"lead: pid {family.parent_process.pid} is gone"
    assert state.grace.until_ns == began + GRACE_MS * 1_000_000
    assert signals_to(family.stage, family.child) == []


def test_where_exits_cannot_be_watched_it_is_learned_at_the_next_beat() -> None:
    family = Family(Stage(poll_only=True))
    family.lose()
    family.go(1100, beating=False)
    assert grace_of(family.record) is not None


def test_the_two_writes_are_winding_down_and_then_resumable() -> None:
    family = Family(Stage())
    before = family.record.revision
    family.lose()
    family.stage.turn()
    assert family.record.revision == before + 2


def test_exactly_one_notice_stands_in_the_transcript() -> None:
    stage = Stage()
    family = Family(stage, output=stage.transcript("child"))
    family.lose()
    family.go(10_000, beating=False)
    text = stage.transcripts.content[stage.transcripts.path("entry-child")].decode()
    assert text.count("its parent is lost") == 1
    assert "supervisor adopt child --as SESSION" in text


def test_a_worker_whose_parent_merely_lost_its_keeper_goes_on_and_a_scan_is_called_once() -> None:
    family = Family(Stage())
    family.stage.processes.end(family.keeper_process.pid, Exit(signal=9))
    family.go(10_000, beating=False)
    assert (family.record.status, family.stage.scans) == ("running", 1)


def test_the_end_of_a_parent_is_waited_for_as_long_as_its_keeper_beats() -> None:
    family = Family(Stage())
    family.lose(keeper=False)
    family.go(3_000)
    assert family.record.status == "running"
    family.write_parent(transitions.closed(family.parent, make_hand_off(success=False, code=1), now=1))
    family.go(1_000)
    grace = grace_of(family.record)
    assert grace is not None
    assert grace.evidence == "lead exited with 1"


def test_a_parent_that_is_started_again_by_its_policy_is_not_lost_and_is_followed() -> None:
    family = Family(Stage())
    family.lose(keeper=False)
    family.stage.turn()
    again = ProcessRef(family.stage.processes.machine(), family.stage.processes.add(new_session=True))
    family.write_parent(replace(family.parent, generation=Generation(nonce="nonce-again", process=again)))
    family.go(2_000)
    parent = family.record.parent
    assert parent is not None
    assert (family.record.status, parent.process) == ("running", again)


def test_a_hung_keeper_with_a_dead_agent_is_waited_for_until_it_is_stale() -> None:
    family = Family(Stage())
    family.lose(keeper=False)
    family.go(4_000, beating=False)
    assert family.record.status == "running"
    family.go(2_000, beating=False)
    assert grace_of(family.record) is not None


def test_a_parent_whose_keeper_is_silent_beyond_the_bound_is_lost_and_back_when_it_beats() -> None:
    family = Family(Stage())
    family.go(SILENCE_MS - 3_000, beating=False)
    assert family.record.status == "running"
    family.go(6_000, beating=False)
    assert grace_of(family.record) is not None
    family.go(30_000)
    assert family.record.status == "running"


def test_a_sleep_of_everybody_loses_nobody() -> None:
    family = Family(Stage())
    family.stage.clock.advance(10 * SILENCE_MS)
    family.stage.turn()
    family.go(2_000)
    assert family.record.status == "running"


def test_a_parent_that_ended_with_success_is_done_and_its_workers_go_on() -> None:
    family = Family(Stage())
    family.lose()
    family.write_parent(transitions.closed(family.parent, make_hand_off(), now=1))
    family.go(2 * GRACE_MS, beating=False)
    assert (family.record.status, signals_to(family.stage, family.child)) == ("running", [])


def test_a_parent_that_cannot_be_judged_is_never_lost() -> None:
    family = Family(Stage())
    family.stage.processes.hide(family.parent_process.pid)
    family.go(3 * SILENCE_MS, beating=False)
    assert family.record.status == "running"


def test_a_recycled_pid_is_a_lost_parent_and_its_new_owner_is_not_signalled() -> None:
    family = Family(Stage())
    family.lose()
    stranger = family.stage.processes.reuse(family.parent_process.pid)
    family.stage.turn()
    assert grace_of(family.record) is not None
    assert family.stage.signals.to(stranger.pid) == []


def test_a_bare_pid_proves_nothing() -> None:
    stage = Stage()
    family = Family(stage, parent="lead")
    other = stage.add("lone", parent=ParentRef(session_id="session-nowhere", pid=4_000_000), role="worker")
    family.go(2 * SILENCE_MS)
    assert stage.on_disk(other).status == "running"


@pytest.mark.parametrize("poll_only", [False, True])
def test_the_end_of_a_parent_that_is_not_on_record_is_learned_like_any_other(poll_only: bool) -> None:
    stage = Stage(poll_only=poll_only)
    stranger = stage.processes.add(new_session=True)
    process = ProcessRef(stage.processes.machine(), stranger)
    parent = ParentRef(session_id="session-nowhere", pid=stranger.pid, process=process)
    child = stage.add("lone", parent=parent, role="worker", agent=RESUMING)
    stage.go(100)
    stage.processes.end(stranger.pid, Exit(signal=9))
    stage.go(1100 if poll_only else 0)
    stage.turn()
    grace = grace_of(stage.on_disk(child))
    assert grace is not None
    assert grace.evidence == f"pid {stranger.pid} is gone, and session-nowhere is not on record"


def test_a_parent_of_the_same_keeper_that_is_killed_loses_its_worker_in_the_same_turn() -> None:
    stage = Stage()
    lead = stage.add("lead")
    child = stage.add("child", parent=ParentRef(session_id="session-lead"), role="worker", agent=RESUMING)
    stage.go(100)
    stage.kill(lead)
    stage.go(1)
    grace = grace_of(stage.on_disk(child))
    assert grace is not None
    assert grace.evidence == "lead killed by KILL"


def test_a_parent_of_the_same_keeper_with_a_policy_is_not_lost() -> None:
    stage = Stage()
    lead = stage.add("lead", plan=make_plan(restart=RestartPlan(policy="permanent")))
    child = stage.add("child", parent=ParentRef(session_id="session-lead"), role="worker", agent=RESUMING)
    stage.go(100)
    stage.kill(lead)
    stage.go(1000)
    parent = stage.on_disk(child).parent
    assert parent is not None
    assert (stage.on_disk(child).status, parent.pid) == ("running", stage.pid(lead))


def test_an_adoption_is_taken_up_without_a_relaunch() -> None:
    family = Family(Stage())
    pid, spawns = family.stage.pid(family.child), len(family.stage.spawner.requests)
    family.lose()
    family.stage.turn()
    family.adopt(family.another_parent())
    family.go(1_500, beating=False)
    record = family.record
    assert (record.status, family.stage.pid(family.child), len(family.stage.spawner.requests)) == (
        "running",
        pid,
        spawns,
    )
    assert record.parent is not None
    assert record.parent.session_id == "session-other"
    assert family.child.is_ready


def test_an_adopted_worker_watches_its_new_parent() -> None:
    family = Family(Stage())
    family.lose()
    family.stage.turn()
    other = family.another_parent()
    family.adopt(other)
    family.go(1_500, beating=False)
    assert other.generation.process is not None
    family.stage.processes.end(other.keeper.process.key.pid)
    family.stage.processes.end(other.generation.process.key.pid)
    family.go(1_500, beating=False)
    grace = grace_of(family.record)
    assert grace is not None
    assert grace.evidence.startswith("other: pid")


def test_an_adoption_by_a_parent_that_is_gone_already_leaves_what_was_left_of_the_grace() -> None:
    family = Family(Stage())
    family.lose()
    family.stage.turn()
    before = grace_of(family.record)
    other = family.another_parent()
    assert other.generation.process is not None
    family.stage.processes.end(other.keeper.process.key.pid)
    family.stage.processes.end(other.generation.process.key.pid)
    family.adopt(other)
    family.go(1_500, beating=False)
    after = grace_of(family.record)
    assert before is not None and after is not None
    assert before.until_ns == after.until_ns


def test_nobody_came_so_it_is_ended_once_and_stays_resumable() -> None:
    family = Family(Stage())
    family.lose()
    family.go(GRACE_MS - 1000, beating=False)
    assert signals_to(family.stage, family.child) == []
    family.go(5_000, beating=False)
    state = family.record.state
    assert isinstance(state, Resumable)
    assert state.grace is None
    assert state.hand_off is not None
    assert (state.hand_off.cause, state.hand_off.signal, state.agent) == ("stopped", "TERM", RESUMING)
    assert state.hand_off.detail.startswith("nobody has adopted it (lead")
    assert family.stage.keeper.agents == []


def test_one_that_cannot_be_resumed_is_closed_when_nobody_came() -> None:
    family = Family(Stage(), resumes=False)
    family.lose()
    family.go(GRACE_MS + 5_000, beating=False)
    assert family.record.status == "closed"


def test_it_is_marked_before_the_first_signal_so_that_nobody_adopts_what_is_about_to_end() -> None:
    stage = Stage()
    family = Family(stage)
    stage.processes.row(stage.pid(family.child)).ignores = frozenset({15})
    family.lose()
    family.go(GRACE_MS + 1_000, beating=False)
    state = family.record.state
    assert (family.record.status, getattr(state, "reason", "")) == ("winding_down", "not_adopted")


def test_an_orphan_that_ends_by_itself_is_recorded_as_ended_and_not_started_again() -> None:
    family = Family(Stage(), plan=make_plan(restart=RestartPlan(policy="permanent")))
    family.lose()
    family.stage.turn()
    family.stage.processes.end(family.stage.pid(family.child), Exit(code=0))
    family.go(1_000, beating=False)
    end = family.record.hand_off
    assert end is not None
    assert (family.record.status, end.cause, end.code) == ("closed", "ended", 0)


def test_an_orphan_that_changes_its_session_is_followed_in_the_one_copy_too() -> None:
    context = replace(RESUMING.resume_context, session_file=None)  # type: ignore[type-var]
    agent = AgentIdentity(agent_id="agent-child", resume_context=context)
    family = Family(Stage(), agent=agent, plan=make_plan(session_files=("*.jsonl",)))
    family.lose()
    family.stage.turn()
    family.stage.fakes.session_files.there["*.jsonl"] = "/home/one.jsonl"
    family.go(2_000, beating=False)
    record = family.record
    assert isinstance(record.state, Resumable) and record.agent.resume_context is not None
    assert (record.agent.resume_context.session_file, record.state.agent) == ("/home/one.jsonl", record.agent)


def test_an_orphan_that_is_wanted_down_is_stopped_and_closed() -> None:
    family = Family(Stage())
    family.lose()
    family.stage.turn()
    family.stage.wants_down(family.child)
    family.go(2_000, beating=False)
    assert family.record.status == "closed"


def test_an_adoption_in_the_moment_of_the_expiry_wins_and_nothing_is_signalled() -> None:
    family = Family(Stage())
    family.lose()
    family.stage.turn()
    grace = grace_of(family.record)
    assert grace is not None
    family.stage.clock.advance_to(grace.until_ns)
    family.adopt(family.another_parent())  # its keeper has not read it when the time is over
    family.go(1_500, beating=False)
    assert (family.record.status, signals_to(family.stage, family.child)) == ("running", [])


def test_an_enrolled_agent_is_not_ours_to_end() -> None:
    family = Family(Stage(), enrolled=True)
    family.lose()
    family.go(2 * GRACE_MS, beating=False)
    assert (family.record.status, signals_to(family.stage, family.child)) == ("running", [])


def test_a_next_keeper_goes_on_with_what_is_left_of_the_grace() -> None:
    stage = Stage()
    family = Family(stage)
    family.lose()
    family.go(100_000, beating=False)
    entry = family.record
    grace = grace_of(entry)
    assert grace is not None
    stage.keeper.agents.clear()  # the keeper is killed; another one attaches
    successor = KeptAgent(entry, {}, parts=stage.parts, report=lambda _k, _w: None, attached=True)
    stage.keeper.add(successor)
    stage.go(1_000)
    assert grace_of(stage.on_disk(successor)) == grace
    stage.clock.advance_to(grace.until_ns - 1)
    stage.turn()
    assert signals_to(stage, successor) == []
    stage.go(3_000)
    assert signals_to(stage, successor) != []


def test_a_worker_whose_keeper_died_between_the_two_writes_is_offered_by_the_next_one() -> None:
    stage = Stage()
    family = Family(stage)
    stage.keeper.agents.clear()
    family.lose()
    entry = family.record
    marked = stage.store.another().replace_if_unchanged(
        entry, transitions.winding_down(entry, "parent_lost", detail="lead: gone", now=1)
    )
    assert isinstance(marked, Entry)
    stage.keeper.add(KeptAgent(marked, {}, parts=stage.parts, report=lambda _k, _w: None, attached=True))
    stage.go(1_000)
    assert grace_of(family.record) is not None


def test_one_that_was_marked_runs_on_when_its_parent_lives_after_all() -> None:
    stage = Stage()
    family = Family(stage)
    stage.keeper.agents.clear()
    entry = family.record
    marked = stage.store.another().replace_if_unchanged(
        entry, transitions.winding_down(entry, "parent_lost", detail="lead: gone", now=1)
    )
    assert isinstance(marked, Entry)
    stage.keeper.add(KeptAgent(marked, {}, parts=stage.parts, report=lambda _k, _w: None, attached=True))
    family.go(1_000)
    assert family.record.status == "running"


def test_one_that_is_adopted_by_its_own_parent_resumed_meanwhile_is_taken_up_at_once() -> None:
    """The same session as before, another process and keeper: what was known of it is not true any more."""
    family = Family(Stage())
    family.lose()
    family.stage.turn()
    assert grace_of(family.record) is not None
    again = family._ref(family.stage.processes.add(new_session=True))
    family.keeper = KeeperRef("keeper-again", family._ref(family.stage.processes.add(new_session=True)))
    family.beat()
    family.write_parent(
        replace(family.parent, keeper=family.keeper, generation=Generation(nonce="nonce-again", process=again))
    )
    family.adopt(family.parent)
    family.go(1500)
    assert (family.record.status, family.record.parent) == ("running", as_parent(family.parent))
