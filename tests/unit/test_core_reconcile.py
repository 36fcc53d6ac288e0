"""What a scan does with what is on record: one action for each situation, and none a second time."""

import pytest
from msgspec.structs import replace

from supervisor.core.entry import (
    AgentIdentity,
    Closed,
    Entry,
    FailedResume,
    Grace,
    HandOff,
    KeeperRef,
    Resumable,
    ResumeContext,
    Starting,
    Status,
)
from supervisor.core.launch_plan import RestartPlan
from supervisor.core.liveness import Judgement, Now, Verdict, judge
from supervisor.core.profile import Policy
from supervisor.core.reconcile import Action, Attach, Change, Remove, reconcile
from supervisor.core.timing import AGE_SLACK_MS, ENDED_RETENTION_MS, RESUMABLE_RETENTION_MS
from supervisor.testing import MACHINE, STATUSES, make_entry, make_hand_off, make_plan, make_ref, make_state

NOW = 1_750_000_000_000 + 90 * 24 * 3600 * 1000
ALIVE = Judgement(Verdict.ALIVE, "beat 1s ago")
KEEPERLESS = Judgement(Verdict.STALE, "its keeper is gone", True)
HUNG = Judgement(Verdict.STALE, "has not beaten for 9s")
DEAD = Judgement(Verdict.DEAD_PID, "pid 300 is gone", True)
DEAD_KEPT = Judgement(Verdict.DEAD_PID, "pid 300 is gone")
UNKNOWN = Judgement(Verdict.UNKNOWN, "another host")
ABSENT = Judgement(Verdict.ABSENT, "closed, no process expected")
LIVE: tuple[Status, ...] = ("starting", "running", "winding_down", "adopted")
LOST = HandOff(outcome="unknown", cause="lost", observed_at=NOW, detail="pid 300 is gone")
RESUMING = AgentIdentity(agent_id="agent-lead", resume_context=ResumeContext(profile="demo", cwd="/work"))


def plan(entry: Entry, judged: Judgement, *, boot_id: str = "boot-1") -> tuple[Action, ...]:
    return reconcile([entry], judgements={entry.entry_id: judged}, boot_id=boot_id, now=NOW)


def running(policy: Policy = "temporary", *, status: Status = "running", resumes: bool = False) -> Entry:
    entry = make_entry(status=status, plan=make_plan(restart=RestartPlan(policy=policy)))
    return replace(entry, agent=RESUMING) if resumes else entry


@pytest.mark.parametrize("status", LIVE)
@pytest.mark.parametrize("judged", [ALIVE, HUNG, UNKNOWN, DEAD_KEPT])
def test_whoever_has_a_keeper_or_cannot_be_judged_is_left_alone(status: Status, judged: Judgement) -> None:
    assert plan(make_entry(status=status), judged) == ()


@pytest.mark.parametrize("status", ["running", "winding_down", "adopted"])
def test_a_live_agent_without_a_keeper_gets_a_new_one(status: Status) -> None:
    entry = make_entry(status=status)
    assert (Attach(entry, "its keeper is gone, the agent lives"),) == plan(entry, KEEPERLESS)


def test_a_start_that_lost_its_keeper_is_looked_into_by_a_new_one() -> None:
    entry = make_entry(status="starting")
    assert (Attach(entry, "its keeper died while starting it"),) == plan(entry, DEAD)


def test_a_start_of_another_boot_is_closed() -> None:
    entry = make_entry(status="starting")
    closed = replace(entry, state=Closed(since=NOW, hand_off=LOST))
    assert (Change(entry, closed, "it was never seen running"),) == plan(entry, DEAD, boot_id="boot-2")


def test_a_permanent_agent_found_dead_is_started_again_by_a_new_keeper() -> None:
    entry = running("permanent")
    assert (Attach(entry, "it and its keeper are gone, its policy is permanent"),) == plan(entry, DEAD)


def test_a_permanent_agent_of_another_boot_is_not_started_behind_the_users_back() -> None:
    entry = running("permanent")
    closed = replace(entry, state=Closed(since=NOW, hand_off=LOST))
    assert (Change(entry, closed, "found dead"),) == plan(entry, DEAD, boot_id="boot-2")


def test_a_permanent_agent_that_is_wanted_down_stays_down() -> None:
    entry = replace(running("permanent"), want="down")
    closed = replace(entry, state=Closed(since=NOW, hand_off=LOST))
    assert (Change(entry, closed, "found dead"),) == plan(entry, DEAD)


@pytest.mark.parametrize("policy", ["temporary", "transient"])
@pytest.mark.parametrize("status", ["running", "winding_down", "adopted"])
def test_an_agent_found_dead_is_closed_as_lost_and_unknown(policy: Policy, status: Status) -> None:
    entry = running(policy, status=status)
    closed = replace(entry, state=Closed(since=NOW, hand_off=LOST))
    assert (Change(entry, closed, "found dead"),) == plan(entry, DEAD)


@pytest.mark.parametrize("status", ["running", "winding_down", "adopted"])
def test_an_agent_found_dead_that_can_be_resumed_becomes_resumable(status: Status) -> None:
    entry = running(resumes=True, status=status)
    after = replace(entry, state=Resumable(since=NOW, agent=RESUMING, hand_off=LOST))
    assert (Change(entry, after, "found dead, can be resumed"),) == plan(entry, DEAD)


def test_an_agent_that_is_wanted_down_is_not_offered_for_resume() -> None:
    entry = replace(running(resumes=True), want="down")
    closed = replace(entry, state=Closed(since=NOW, hand_off=LOST))
    assert (Change(entry, closed, "found dead"),) == plan(entry, DEAD)


@pytest.mark.parametrize(
    ("age_ms", "delivered_ago_ms", "why"),
    [
        (1000, None, None),
        (ENDED_RETENTION_MS + 1, None, None),
        (ENDED_RETENTION_MS + 1, ENDED_RETENTION_MS, None),
        (ENDED_RETENTION_MS + 1, ENDED_RETENTION_MS + 1, "ended and delivered"),
        (RESUMABLE_RETENTION_MS, None, None),
        (RESUMABLE_RETENTION_MS + 1, None, "ended 30 days ago"),
        (RESUMABLE_RETENTION_MS + 1, 5, "ended 30 days ago"),
    ],
)
def test_an_ended_entry_is_kept_until_it_is_told_or_old(
    age_ms: int, delivered_ago_ms: int | None, why: str | None
) -> None:
    told = None if delivered_ago_ms is None else NOW - delivered_ago_ms
    entry = make_entry(state=Closed(since=NOW - age_ms, hand_off=make_hand_off(delivered_at=told)))
    assert (() if why is None else (Remove(entry, why),)) == plan(entry, ABSENT)


@pytest.mark.parametrize(("age_ms", "why"), [(RESUMABLE_RETENTION_MS, None), (RESUMABLE_RETENTION_MS + 1, "x")])
def test_a_resumable_entry_is_kept_for_thirty_days(age_ms: int, why: str | None) -> None:
    entry = make_entry(state=Resumable(since=NOW - age_ms, agent=RESUMING))
    assert (() if why is None else (Remove(entry, "resumable for 30 days"),)) == plan(entry, ABSENT)


@pytest.mark.parametrize("status", [s for s in STATUSES if s in ("closed", "resumable")])
def test_a_clock_set_back_removes_nothing(status: Status) -> None:
    ahead = NOW + RESUMABLE_RETENTION_MS * 2
    entry = make_entry(state=make_state(status, since=ahead), started_at=ahead, heartbeat_at=ahead)
    assert plan(entry, ABSENT) == ()


@pytest.mark.parametrize("status", ["closed", "resumable"])
def test_a_clock_set_back_removes_nobody_who_has_lived_long(status: Status) -> None:
    ahead = NOW + AGE_SLACK_MS + 1
    old = NOW - RESUMABLE_RETENTION_MS - 1
    entry = make_entry(state=make_state(status, since=ahead), started_at=old, heartbeat_at=ahead)
    assert plan(entry, ABSENT) == ()


def test_a_clock_set_back_removes_nobody_who_was_found_dead_late() -> None:
    ahead = NOW + AGE_SLACK_MS + 1
    end = make_hand_off(observed_at=ahead)
    state = Resumable(since=ahead, agent=RESUMING, hand_off=end)
    assert plan(make_entry(state=state, heartbeat_at=NOW - RESUMABLE_RETENTION_MS - 1), ABSENT) == ()


def test_a_resume_tried_on_a_clock_set_back_since_makes_nothing_older() -> None:
    failed = FailedResume(at=NOW + AGE_SLACK_MS + 1, why="why")
    state = Resumable(since=NOW - 1, agent=RESUMING, failed_resume=failed)
    assert plan(make_entry(state=state, heartbeat_at=NOW - RESUMABLE_RETENTION_MS - 1), ABSENT) == ()


def test_nobody_was_told_of_an_end_before_it() -> None:
    told = NOW + AGE_SLACK_MS + 1  # a clock was set back since
    state = Closed(since=NOW - ENDED_RETENTION_MS, hand_off=make_hand_off(delivered_at=told))
    entry = make_entry(state=state, heartbeat_at=NOW - ENDED_RETENTION_MS - 1)
    assert plan(entry, ABSENT) == ()


@pytest.mark.parametrize("since", [0, -5, NOW + RESUMABLE_RETENTION_MS * 2])
@pytest.mark.parametrize("status", ["closed", "resumable"])
def test_a_date_that_cannot_be_read_is_taken_from_the_last_heartbeat(status: Status, since: int) -> None:
    old = make_entry(state=make_state(status, since=since), heartbeat_at=NOW - RESUMABLE_RETENTION_MS - 1)
    young = replace(old, heartbeat_at=NOW - RESUMABLE_RETENTION_MS)
    assert ([Remove], []) == ([type(a) for a in plan(old, ABSENT)], list(plan(young, ABSENT)))


@pytest.mark.parametrize("status", ["closed", "resumable"])
def test_a_record_without_any_date_is_counted_from_now_and_not_kept_for_ever(status: Status) -> None:
    entry = make_entry(state=make_state(status, since=0), started_at=0, heartbeat_at=0)
    (action,) = plan(entry, ABSENT)
    assert isinstance(action, Change)
    assert (action.after.state.since, plan(action.after, ABSENT)) == (NOW, ())


GRACE = Grace(until=NOW, until_ns=1, evidence="lead is gone")


def orphan(policy: Policy = "temporary", *, resumes: bool = True) -> Entry:
    return replace(running(policy, resumes=resumes), state=Resumable(since=NOW - 1, agent=RESUMING, grace=GRACE))


def test_an_orphan_in_its_grace_that_lost_its_keeper_gets_a_new_one() -> None:
    assert (Attach(orphan(), "its keeper is gone, the agent lives"),) == plan(orphan(), KEEPERLESS)


@pytest.mark.parametrize("judged", [ALIVE, HUNG, UNKNOWN, DEAD_KEPT])
def test_an_orphan_in_its_grace_is_left_to_its_keeper_however_old_its_record(judged: Judgement) -> None:
    entry = replace(orphan(), state=Resumable(since=1, agent=RESUMING, grace=GRACE))
    assert plan(entry, judged) == ()


@pytest.mark.parametrize("policy", ["temporary", "transient", "permanent"])
def test_an_orphan_found_dead_stays_resumable_and_is_not_started_again(policy: Policy) -> None:
    entry = orphan(policy)
    after = replace(entry, state=Resumable(since=NOW, agent=RESUMING, hand_off=LOST))
    assert (Change(entry, after, "found dead, can be resumed"),) == plan(entry, DEAD)


def test_an_orphan_found_dead_that_cannot_be_resumed_is_closed() -> None:
    entry = orphan(resumes=False)
    assert [a.after.status for a in plan(entry, DEAD) if isinstance(a, Change)] == ["closed"]


@pytest.mark.parametrize("status", LIVE)
def test_a_reboot_leaves_nothing_unknown_and_nothing_for_ever(status: Status) -> None:
    """Adopted and never taken up, for one: its keeper went with the boot."""
    entry = running(status=status, resumes=True)
    now = Now(replace(MACHINE, boot_id="boot-2"), NOW, 1)
    (found,) = plan(entry, judge(entry, agent=None, keeper=None, beat=None, now=now), boot_id="boot-2")
    assert isinstance(found, Change)
    aged = replace(found.after, state=replace(found.after.state, since=NOW - RESUMABLE_RETENTION_MS - 1))
    assert [Remove] == [type(a) for a in plan(aged, ABSENT, boot_id="boot-2")]


@pytest.mark.parametrize("status", LIVE)
def test_what_cannot_be_judged_from_here_is_kept_however_old(status: Status) -> None:
    """It may live: without its record a second agent could be started in its session."""
    entry = replace(make_entry(status=status), started_at=1, heartbeat_at=1)
    assert plan(entry, UNKNOWN) == ()


def test_every_entry_is_planned_for_on_its_own() -> None:
    one, two, three = make_entry("one"), make_entry("two"), make_entry("three")
    judgements = {"entry-one": ALIVE, "entry-two": KEEPERLESS, "entry-three": DEAD}
    actions = reconcile([one, two, three], judgements=judgements, boot_id="boot-1", now=NOW)
    assert [(Attach, two), (Change, three)] == [(type(a), a.entry) for a in actions]


@pytest.mark.parametrize("status", LIVE)
@pytest.mark.parametrize("resumes", [False, True])
def test_a_change_leaves_nothing_to_change(status: Status, resumes: bool) -> None:
    (first,) = plan(running(status=status, resumes=resumes), DEAD, boot_id="boot-2")
    assert isinstance(first, Change)
    assert plan(first.after, ABSENT, boot_id="boot-2") == ()


def test_an_attached_agent_needs_no_second_keeper() -> None:
    entry = replace(make_entry(), keeper=KeeperRef("keeper-2", make_ref(400, machine=MACHINE)))
    assert plan(entry, ALIVE) == ()


def test_a_restart_that_lost_its_keeper_goes_on_with_its_tally() -> None:
    entry = replace(running("permanent", status="starting"), state=Starting(since=1, attempt=3, not_before=77))
    assert (Attach(entry, "its keeper died while starting it"),) == plan(entry, DEAD)
