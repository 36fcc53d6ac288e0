"""Whether a parent is lost, case by case, and what its worker does next, state by state."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from supervisor.core.entry import (
    Adopted,
    Closed,
    Entry,
    Grace,
    ParentRef,
    Resumable,
    Running,
    Starting,
    WindingDown,
    as_parent,
)
from supervisor.core.identity import Gone, Machine, ProcessKey, Seen, Unreadable
from supervisor.core.launch_plan import RestartPlan
from supervisor.core.liveness import Judgement, Now, Verdict
from supervisor.core.parent_loss import (
    Done,
    Expire,
    Follow,
    Held,
    Lost,
    Offer,
    Parent,
    Return,
    TakeUp,
    Wait,
    WindDown,
    judge_parent,
    next_step,
    stale_after_ms,
)
from supervisor.core.timing import (
    ENTRY_HEARTBEAT_MS,
    HEARTBEAT_STALE_MS,
    MS,
    WATCHER_POLL_MS,
)
from supervisor.testing import MACHINE, make_entry, make_hand_off, make_plan, make_ref, make_state

WALL_MS = 1_750_000_000_000
BOUND = stale_after_ms(heartbeat_ms=ENTRY_HEARTBEAT_MS, watcher_poll_ms=WATCHER_POLL_MS)
NOW = Now(MACHINE, WALL_MS, 500 * MS)
LEAD = make_entry("lead")
REF = as_parent(LEAD)
ALIVE = Judgement(Verdict.ALIVE, "beat 1s ago")
KEEPERLESS = Judgement(Verdict.STALE, "its keeper is gone", True)
HUNG = Judgement(Verdict.STALE, "its keeper has not beaten for 90s")
DEAD = Judgement(Verdict.DEAD_PID, "pid 300 is gone", True)
DEAD_KEPT = Judgement(Verdict.DEAD_PID, "pid 300 is gone")
UNKNOWN = Judgement(Verdict.UNKNOWN, "another host")


def judged(entry: Entry | None = LEAD, verdict: Judgement | None = None, **facts: Any) -> Parent:
    given: dict[str, Any] = {"seen": None, "silent_ms": 0, "dead_ms": 0, "ref": REF, **facts}
    ref = given.pop("ref")
    return judge_parent(ref, entry, judged=verdict, bound_ms=BOUND, now=NOW, **given)


def permanent(entry: Entry = LEAD) -> Entry:
    return replace(entry, plan=make_plan(restart=RestartPlan(policy="permanent")))


def test_the_bound_is_two_renewals_and_a_poll() -> None:
    assert BOUND == 85_000


@pytest.mark.parametrize(
    ("verdict", "facts", "expected"),
    [
        (ALIVE, {}, Held(REF)),
        (KEEPERLESS, {"silent_ms": BOUND}, Held(REF, scan=True)),
        (HUNG, {"silent_ms": BOUND - 1}, Held(REF)),
        (HUNG, {"silent_ms": BOUND}, Lost("lead: its keeper has not beaten for 1m 25s")),
        (DEAD, {}, Lost("lead: pid 300 is gone")),
        (DEAD_KEPT, {}, Held(settles=True)),
        (DEAD_KEPT, {"silent_ms": HEARTBEAT_STALE_MS}, Lost("lead: pid 300 is gone")),
        (DEAD_KEPT, {"dead_ms": BOUND}, Lost("lead: pid 300 is gone")),
        (UNKNOWN, {"silent_ms": 10 * BOUND, "dead_ms": 10 * BOUND}, Held()),
    ],
)
def test_a_parent_on_record_is_judged_by_its_verdict(
    verdict: Judgement, facts: dict[str, Any], expected: Parent
) -> None:
    assert expected == judged(LEAD, verdict, **facts)


def test_one_whose_policy_starts_it_again_is_not_lost_for_a_while() -> None:
    assert judged(permanent(), DEAD) == Held(scan=True, settles=True)
    assert isinstance(judged(permanent(), DEAD, dead_ms=BOUND), Lost)


def test_one_that_is_about_to_be_started_is_not_lost() -> None:
    starting = make_entry("lead", state=Starting(since=1, attempt=2, not_before=9))
    assert judged(starting, ALIVE) == Held(as_parent(starting))
    assert judged(starting, DEAD) == Held(scan=True, settles=True)


def test_a_policy_of_another_boot_starts_nobody_again() -> None:
    other = replace(permanent().keeper.process, machine=Machine("host-1", "boot-0", MACHINE.pid_namespace))
    entry = replace(permanent(), keeper=replace(LEAD.keeper, process=other))
    assert isinstance(judged(entry, DEAD), Lost)


@pytest.mark.parametrize(
    ("end", "lost"),
    [
        ({}, False),
        ({"code": 1, "success": False}, True),
        ({"outcome": "signaled", "code": None, "signal": "KILL", "success": False}, True),
        ({"outcome": "unknown", "code": None, "success": None}, True),
        ({"cause": "stopped"}, True),
        ({"cause": "lost", "outcome": "unknown", "code": None, "success": None}, True),
        ({"outcome": "not_started", "cause": "spawn_failed", "success": False}, True),
    ],
)
def test_only_one_that_ended_by_itself_with_success_is_done(end: dict[str, Any], lost: bool) -> None:
    entry = make_entry("lead", state=Closed(since=1, hand_off=make_hand_off(**end)))
    assert isinstance(judged(entry), Lost if lost else Done)


def test_one_that_is_resumable_and_dead_is_lost() -> None:
    assert isinstance(judged(make_entry("lead", status="resumable")), Lost)


def test_one_that_is_an_orphan_itself_lives() -> None:
    orphan = make_entry("lead", state=Resumable(since=1, agent=LEAD.agent, grace=GRACE))
    assert judged(orphan, ALIVE) == Held(as_parent(orphan))


@pytest.mark.parametrize(
    ("seen", "lost"),
    [(Gone(), True), (ProcessKey(300, 7000), False), (ProcessKey(300, 9999), True), (Unreadable(), False)],
)
def test_a_session_that_is_not_on_record_is_judged_by_the_process_that_the_worker_knew(seen: Seen, lost: bool) -> None:
    assert isinstance(judged(None, seen=seen), Lost) is lost


@pytest.mark.parametrize("seen", [Gone(), None, ProcessKey(300, 1)])
def test_a_bare_pid_proves_nothing(seen: Seen | None) -> None:
    assert judged(None, seen=seen, ref=ParentRef(session_id="session-lead", pid=300)) == Held()


# -- the worker's next step

GRACE = Grace(until=1, until_ns=900 * MS, evidence="lead: pid 300 is gone", ready_at=5)
OVER = replace(GRACE, until_ns=500 * MS)
GONE = Lost("lead: pid 300 is gone")
OTHER = as_parent(make_entry("other", generation=replace(LEAD.generation, process=make_ref(7))))
AGAIN = replace(REF, process=make_ref(8), pid=8)
MARKED = WindingDown(since=1, reason="parent_lost", detail="why")


def orphan_in(grace: Grace) -> Resumable:
    return Resumable(since=1, agent=LEAD.agent, grace=grace)


@pytest.mark.parametrize(
    ("state", "parent", "expected"),
    [
        (Running(since=1), Held(REF), Wait()),
        (Running(since=1), Held(), Wait()),
        (Running(since=1), Done("lead exited with 0"), Wait()),
        (Running(since=1), Held(AGAIN), Follow(AGAIN)),
        (Running(since=1, ready_at=1), GONE, WindDown(GONE.evidence)),
        (Running(since=1), GONE, Wait((500 + 60_000) * MS)),
        (MARKED, GONE, Offer("why")),
        (MARKED, Held(REF), TakeUp()),
        (orphan_in(GRACE), GONE, Wait(GRACE.until_ns)),
        (orphan_in(GRACE), Held(), Wait(GRACE.until_ns)),
        (orphan_in(GRACE), Held(REF), Return(REF)),
        (orphan_in(GRACE), Held(AGAIN), Wait(GRACE.until_ns)),
        (orphan_in(OVER), GONE, Expire()),
        (orphan_in(OVER), Held(AGAIN), Expire()),
        (orphan_in(OVER), Done("lead exited with 0"), Expire()),
        (Adopted(since=1, by_session="s", grace=GRACE), Held(OTHER), TakeUp()),
        (Adopted(since=1, by_session="s", grace=GRACE), Held(settles=True), Wait()),
        (Adopted(since=1, by_session="s", grace=GRACE), GONE, Offer(GONE.evidence, GRACE)),
        (Adopted(since=1, by_session="s", grace=GRACE), Held(), Offer("s is not there to be its parent", GRACE)),
        (make_state("winding_down"), GONE, Wait()),
    ],
)
def test_what_a_worker_does_next(state: Any, parent: Parent, expected: object) -> None:
    assert expected == next_step(make_entry("worker", parent=REF, state=state), parent, NOW)


def test_one_that_never_proves_itself_up_is_wound_down_all_the_same() -> None:
    worker = make_entry("worker", parent=REF, state=Running(since=1))
    limit = worker.plan.ready_timeout_ms
    assert isinstance(next_step(worker, GONE, NOW, lost_ms=limit - 1), Wait)
    assert next_step(worker, GONE, NOW, lost_ms=limit) == WindDown(GONE.evidence)


def test_one_that_was_enrolled_is_not_wound_down() -> None:
    assert next_step(make_entry("worker", parent=REF, enrolled=True), GONE, NOW) == Wait()
