"""What waits to be recovered, and what of it comes back without anybody being asked."""

from typing import Any

import pytest
from msgspec.structs import replace

from supervisor.core.entry import (
    AgentIdentity,
    Closed,
    Entry,
    Generation,
    Grace,
    ParentRef,
    Resumable,
    ResumeContext,
    WindingDown,
    as_parent,
)
from supervisor.core.handoffs import addressed_to, undelivered
from supervisor.core.liveness import Judgement, Verdict
from supervisor.core.recovery import Found, downwards, find, foreign, session_fence
from supervisor.core.tasks import Task
from supervisor.testing import make_entry, make_hand_off, make_ref

CONTEXT = ResumeContext(profile="demo", cwd="/work", provider_session_id="s-1")
ALIVE = Judgement(Verdict.ALIVE, "alive")
DEAD = Judgement(Verdict.DEAD_PID, "pid 300 is gone", True)
GRACE = Grace(until=9, until_ns=9, evidence="lead: pid 300 is gone")
LOST = ParentRef(session_id="session-boss")
BOSS = make_entry("boss", state=Closed(since=1, hand_off=make_hand_off(outcome="signaled", signal="KILL", code=None)))


def agent(name: str, **changes: Any) -> Entry:
    return make_entry(name, **{"agent": AgentIdentity(agent_id=name, resume_context=CONTEXT), **changes})


def dead(name: str, **changes: Any) -> Entry:
    entry = agent(name, **{"parent": LOST, **changes})
    return replace(entry, state=Resumable(since=1, agent=entry.agent, task_ref=entry.task_ref))


def orphan(name: str, **changes: Any) -> Entry:
    return agent(name, **{"parent": LOST, **changes})


LEAD = agent("lead")
OWN = as_parent(LEAD)


def recover(*entries: Entry, active: Entry | None = LEAD, tasks: Any = (), **judged: Judgement) -> tuple[Found, ...]:
    everybody = [*([active] if active else []), BOSS, *entries]
    judgements = {e.entry_id: judged.get(e.name, ALIVE) for e in everybody}
    return find(everybody, judgements, active=active, tasks=tasks)


def names(found: tuple[Found, ...]) -> list[tuple[str, str, bool]]:
    return [(f.entry.name, f.kind, f.exact) for f in found]


def test_an_own_dead_child_is_exact_and_comes_back_by_itself() -> None:
    (found,) = recover(dead("kid", parent=OWN))
    assert (found.kind, found.exact, found.automatic) == ("dead", True, True)


def test_an_own_child_that_lives_and_has_its_parent_needs_nothing() -> None:
    assert recover(agent("kid", parent=OWN)) == ()


def test_everything_else_is_foreign_masters_first() -> None:
    found = recover(dead("kid"), orphan("tests"), dead("master", parent=None))
    assert names(found) == [("master", "dead", False), ("tests", "live", False), ("kid", "dead", False)]
    assert [f.automatic for f in found] == [False, False, False]


def test_for_a_person_at_a_shell_everything_is_foreign() -> None:
    assert [f.exact for f in recover(dead("kid", parent=OWN), active=None)] == [False]


def test_what_is_its_own_comes_before_what_is_not() -> None:
    found = recover(dead("other"), dead("kid", parent=OWN))
    assert [f.entry.name for f in found] == ["kid", "other"]


@pytest.mark.parametrize(
    "entry",
    [
        orphan("kid", want="down"),
        dead("kid", want="down"),
        orphan("kid", state=WindingDown(since=1, reason="user_cleanup")),
        agent("kid", parent=LOST, state=Closed(since=1, hand_off=make_hand_off())),
        agent("kid"),
    ],
)
def test_who_is_ending_or_has_ended_or_never_had_a_parent_does_not_wait(entry: Entry) -> None:
    assert recover(entry) == ()


def test_a_child_of_a_dead_agent_that_is_still_on_record_as_running_is_an_orphan() -> None:
    boss = agent("boss2")
    (found, *_) = recover(agent("kid", parent=as_parent(boss)), boss, boss2=DEAD)
    assert (found.entry.name, found.kind) == ("kid", "live")


def test_who_recovers_does_not_find_itself_or_those_above_it() -> None:
    above = dead("above", parent=None)
    lead = agent("lead", parent=as_parent(above))
    assert recover(above, active=lead) == ()


# -- fences of the exact ones


@pytest.mark.parametrize(
    ("task", "tasks", "code"),
    [
        ("G-7", (), "task_mismatch"),
        (None, (), None),
    ],
)
def test_another_task_than_that_of_the_session_is_not_recovered_by_itself(
    task: str | None, tasks: Any, code: str | None
) -> None:
    (found,) = recover(dead("kid", parent=OWN, task_ref=task), tasks=tasks)
    assert (found.fence.code if found.fence else None) == code


@pytest.mark.parametrize(
    ("tasks", "code"),
    [
        ((), None),
        ((Task(ref="G-7", status="open", at=1),), None),
        ((Task(ref="G-7", status="blocked", at=1),), "task_blocked"),
        ((Task(ref="G-7", status="done", at=1),), "task_done"),
        ((Task(ref="G-8", status="done", at=1),), None),
        (None, "tasks_unreadable"),
    ],
)
def test_a_task_that_is_not_open_keeps_its_agents_from_coming_back(tasks: Any, code: str | None) -> None:
    lead = replace(LEAD, task_ref="G-7")
    (found,) = recover(dead("kid", parent=OWN, task_ref="G-7"), active=lead, tasks=tasks)
    assert (found.fence.code if found.fence else None, found.automatic) == (code, code is None)


def test_a_record_that_says_two_things_about_its_task_is_looked_at_by_a_person() -> None:
    lead = replace(LEAD, task_ref="G-7")
    kid = replace(dead("kid", parent=OWN, task_ref="G-8"), task_ref="G-7")
    (found,) = recover(kid, active=lead)
    assert found.fence is not None
    assert found.fence.code == "task_mismatch"


@pytest.mark.parametrize(
    ("grace", "command"), [(None, "supervisor resume kid"), (GRACE, "supervisor adopt kid --as lead")]
)
def test_who_is_kept_back_by_its_task_is_told_of_with_the_command_that_does_it(grace: Any, command: str) -> None:
    kid = dead("kid", parent=OWN, task_ref="G-8")
    (found,) = recover(replace(kid, state=replace(kid.state, grace=grace)))
    assert found.fence is not None
    assert found.fence.hint == f"By name it can be: {command}"


def test_a_dead_one_of_whom_nothing_more_is_known_is_told_of_with_its_end() -> None:
    entry = dead("kid")
    end = make_hand_off(outcome="signaled", signal="KILL", code=None, cause="stopped")
    (found,) = recover(replace(entry, state=replace(entry.state, hand_off=end)))
    assert found.evidence == "it was killed by KILL (stopped)"


def test_who_cannot_be_resumed_is_told_of_with_the_reason() -> None:
    (found,) = recover(dead("kid", parent=OWN, agent=AgentIdentity(agent_id="kid")))
    assert found.fence is not None
    assert found.fence.code == "no_resume_context"


# -- the session in whose name it is done


def test_the_session_must_be_there_by_the_very_process() -> None:
    other = replace(LEAD, generation=Generation(nonce="another", process=make_ref()))
    assert session_fence(LEAD, LEAD, ALIVE) is None
    for now, judged in [
        (None, None),
        (LEAD, DEAD),
        (replace(LEAD, want="down"), ALIVE),
        (other, ALIVE),
        (make_entry("lead", status="closed"), ALIVE),
    ]:
        fence = session_fence(LEAD, now, judged)
        assert fence is not None
        assert fence.code == "session_ended"


def test_all_who_were_resumed_get_their_own_back_however_many_they_are_and_each_once() -> None:
    children = {"lead": [agent(f"a{n}") for n in range(100)], "a99": [agent("b"), LEAD]}
    recovered: list[str] = []

    def recover(active: Entry) -> list[Entry]:
        recovered.append(active.name)
        return children.get(active.name, [])

    downwards(LEAD, recover)
    assert recovered == ["lead", *(f"a{n}" for n in range(100)), "b"]


def test_what_is_of_others_is_what_does_not_come_back_with_a_session() -> None:
    lead = dead("lead", parent=None)
    kid = dead("kid", parent=as_parent(lead))
    entries = [BOSS, lead, kid, dead("grandkid", parent=as_parent(kid)), orphan("tests"), agent("fine")]
    found = find(entries, {e.entry_id: ALIVE for e in entries}, active=None, tasks=())
    assert sorted(f.entry.name for f in found) == ["grandkid", "kid", "lead", "tests"]
    assert [f.entry.name for f in foreign(found, entries, lead)] == ["tests"]


# -- hand-offs


def closed(name: str, parent: ParentRef | None, **changes: Any) -> Entry:
    state = Closed(since=changes.pop("since", 1), hand_off=make_hand_off(**changes))
    return make_entry(name, parent=parent, state=state)


def test_an_end_is_addressed_to_the_session_that_launched_the_agent_and_to_no_other() -> None:
    for_lead, for_boss = closed("a", OWN), closed("b", LOST)
    assert addressed_to(LEAD.session_id, [for_lead, for_boss]) == [for_lead]


def test_what_was_told_and_what_a_person_launched_is_not_handed_off() -> None:
    entries = [closed("told", OWN, delivered_at=5), closed("master", None), dead("kid"), closed("late", OWN, since=9)]
    assert undelivered([*entries, closed("early", OWN, since=2)]) == [closed("early", OWN, since=2), entries[-1]]
