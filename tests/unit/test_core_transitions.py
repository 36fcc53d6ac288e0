"""The table of legal moves, pair by pair, and the functions that make them."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from supervisor.core import transitions
from supervisor.core.entry import (
    MAX_DEATHS,
    AgentIdentity,
    Closed,
    Death,
    Entry,
    FailedResume,
    Generation,
    Grace,
    KeeperRef,
    ParentRef,
    Resumable,
    ResumeContext,
    Running,
    Starting,
    Status,
    WindingDown,
    failed_resume,
)
from supervisor.core.errors import EXIT_INTERNAL, IllegalMove
from supervisor.testing import STATUSES, make_entry, make_hand_off, make_ref

NOW = 1_750_000_100_000
DEATH = Death(at=NOW, boot_id="boot-1", monotonic_ns=5, code=3)

PARENT = ParentRef(session_id="session-parent")

ALLOWED = {
    "starting": {"starting", "running", "winding_down", "resumable", "closed"},
    "running": {"starting", "running", "winding_down", "resumable", "closed"},
    "winding_down": {"running", "winding_down", "resumable", "closed"},
    "resumable": {"starting", "winding_down", "resumable", "adopted", "closed"},
    "adopted": {"running", "winding_down", "resumable", "closed"},
    "closed": {"closed", "starting"},
}
MOVES: dict[str, Callable[[Entry], Entry]] = {
    "starting": lambda e: transitions.restarting(e, nonce="n2", death=DEATH, attempt=1, not_before=None, now=NOW),
    "running": lambda e: transitions.spawned(e, make_ref(), now=NOW),
    "winding_down": lambda e: transitions.winding_down(e, "user_cleanup", now=NOW),
    "resumable": lambda e: transitions.resumable(e, make_hand_off(), now=NOW),
    "closed": lambda e: transitions.closed(e, make_hand_off(), now=NOW),
}
OF_ITS_OWN: dict[tuple[str, str], Callable[[Entry], Entry]] = {
    ("resumable", "starting"): lambda e: transitions.resuming(e, nonce="n2", session="s", now=NOW),
    ("closed", "starting"): lambda e: transitions.resuming(e, nonce="n2", session="s", now=NOW),
    ("resumable", "winding_down"): lambda e: transitions.not_adopted(in_grace(e), now=NOW),
    ("starting", "resumable"): lambda _: transitions.rolled_back(claimed("resumable"), "why", now=NOW),
}
PAIRS = [(source, target) for source in STATUSES for target in STATUSES]


def in_grace(entry: Entry) -> Entry:
    """An orphan that lives on."""
    assert isinstance(entry.state, Resumable)
    return replace(entry, state=replace(entry.state, grace=Grace(until=1, until_ns=1, evidence="lost")))


def claimed(status: Status) -> Entry:
    """One that was claimed for a resume."""
    return transitions.resuming(make_entry(status=status), nonce="n2", session="s", now=NOW)


def move(source: str, target: str) -> Callable[[Entry], Entry]:
    """The function that makes this move."""
    return OF_ITS_OWN.get((source, target), MOVES.get(target, lambda e: e))


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_the_table_allows_exactly_the_moves_of_the_design(source: Status, target: Status) -> None:
    assert (target in ALLOWED[source]) is transitions.may_move(source, target)


@pytest.mark.parametrize(("source", "target"), [p for p in PAIRS if p[1] in MOVES and p[1] in ALLOWED[p[0]]])
def test_a_legal_move_leads_to_its_state(source: Status, target: Status) -> None:
    assert target == move(source, target)(make_entry(status=source)).status


@pytest.mark.parametrize(("source", "target"), [p for p in PAIRS if p[1] in MOVES and p[1] not in ALLOWED[p[0]]])
def test_an_illegal_move_is_a_bug_of_the_caller(source: Status, target: Status) -> None:
    with pytest.raises(IllegalMove) as raised:
        MOVES[target](make_entry(status=source))
    assert (
        raised.value.exit_code,
        raised.value.code,
        raised.value.fields["entry"],
    ) == (EXIT_INTERNAL, "illegal_move", "entry-lead")


def test_a_spawn_keeps_the_nonce_of_its_intent() -> None:
    intent = make_entry(status="starting")
    running = transitions.spawned(intent, make_ref(17), now=NOW)
    assert (intent.generation.nonce, make_ref(17), NOW) == (
        running.generation.nonce,
        running.generation.process,
        running.heartbeat_at,
    )


def test_a_spawned_agent_is_not_ready_yet() -> None:
    assert Running(since=NOW) == transitions.spawned(make_entry(status="starting"), make_ref(), now=NOW).state


def test_an_agent_becomes_ready_once() -> None:
    ready = transitions.ready(make_entry(state=Running(since=1)), now=7)
    assert (Running(since=1, ready_at=7), ready) == (ready.state, transitions.ready(ready, now=9))


@pytest.mark.parametrize("status", [s for s in STATUSES if s != "running"])
def test_only_a_running_agent_becomes_ready(status: Status) -> None:
    entry = make_entry(status=status)
    assert entry == transitions.ready(entry, now=NOW)


def test_a_restart_is_a_new_generation_without_a_process() -> None:
    again = transitions.restarting(make_entry(), nonce="n2", death=DEATH, attempt=2, not_before=9, now=NOW)
    assert (Starting(since=NOW, attempt=2, not_before=9), "n2", None, (DEATH,)) == (
        again.state,
        again.generation.nonce,
        again.generation.process,
        again.deaths,
    )


def test_the_tally_of_deaths_is_bounded_and_keeps_the_latest() -> None:
    old = tuple(Death(at=n, boot_id="boot-1", monotonic_ns=n) for n in range(MAX_DEATHS))
    after = transitions.closed(make_entry(deaths=old), make_hand_off(), death=DEATH, now=NOW)
    assert (MAX_DEATHS, old[1], DEATH) == (len(after.deaths), after.deaths[0], after.deaths[-1])


def test_closing_without_a_death_leaves_the_tally_alone() -> None:
    assert transitions.closed(make_entry(deaths=(DEATH,)), make_hand_off(), now=NOW).deaths == (DEATH,)


def test_winding_down_says_why() -> None:
    after = transitions.winding_down(make_entry(), "parent_lost", detail="pid 3 is gone", now=NOW)
    assert WindingDown(since=NOW, reason="parent_lost", detail="pid 3 is gone") == after.state


def test_a_resumable_entry_holds_one_clone_of_its_identity() -> None:
    agent = AgentIdentity(agent_id="a", resume_context=ResumeContext(profile="demo", cwd="/work"))
    entry = make_entry(agent=agent, task_ref="T-1", task_summary="tests")
    end = make_hand_off(outcome="unknown", code=None, success=None)
    assert Resumable(since=NOW, agent=agent, task_ref="T-1", task_summary="tests", hand_off=end) == (
        transitions.resumable(entry, end, now=NOW).state
    )


def test_an_end_is_delivered_once() -> None:
    told = transitions.delivered(make_entry(status="closed"), now=7)
    assert isinstance(told.state, Closed)
    assert (7, told) == (told.state.hand_off.delivered_at, transitions.delivered(told, now=9))


@pytest.mark.parametrize("status", [s for s in STATUSES if s != "closed"])
def test_only_a_closed_entry_has_an_end_to_deliver(status: Status) -> None:
    entry = make_entry(status=status)
    assert entry == transitions.delivered(entry, now=NOW)


@pytest.mark.parametrize("status", ["starting", "running", "winding_down", "adopted"])
def test_a_new_keeper_takes_over_a_live_entry_in_its_state(status: Status) -> None:
    entry = make_entry(status=status)
    keeper = KeeperRef("keeper-2", make_ref(400))
    kept = transitions.kept_by(entry, keeper, now=NOW)
    assert (keeper, NOW, entry.state, entry.generation) == (kept.keeper, kept.heartbeat_at, kept.state, kept.generation)


@pytest.mark.parametrize("status", ["resumable", "closed"])
def test_an_ended_entry_gets_no_keeper(status: Status) -> None:
    with pytest.raises(IllegalMove):
        transitions.kept_by(make_entry(status=status), KeeperRef("keeper-2", make_ref(400)), now=NOW)


def test_a_wish_to_stop_keeps_the_state() -> None:
    entry = make_entry()
    down = transitions.wanted_down(entry, grace_ms=250)
    assert ("down", 250, entry.state) == (down.want, down.stop_grace_ms, down.state)


def test_no_move_touches_the_revision() -> None:
    assert {1} == {move(s, t)(make_entry(status=s)).revision for s, t in PAIRS if t in MOVES and t in ALLOWED[s]}


# -- resuming


@pytest.mark.parametrize("status", ["resumable", "closed"])
def test_a_claim_for_a_resume_keeps_what_comes_back(status: Status) -> None:
    before = make_entry(status=status, parent=PARENT, want="down", stop_grace_ms=5)
    after = transitions.resuming(before, nonce="n2", session="s", now=NOW, parent=None)
    assert (after.want, after.stop_grace_ms, after.parent, after.generation) == (
        "up",
        None,
        None,
        Generation(nonce="n2", resumes="s"),
    )
    back = transitions.rolled_back(after, "it came up in another session", now=NOW)
    assert (back.status, back.parent, back.agent) == (status, PARENT, before.agent)
    assert failed_resume(back) == FailedResume(at=NOW, why="it came up in another session")


@pytest.mark.parametrize("status", ["starting", "running", "winding_down", "adopted"])
def test_only_who_has_ended_is_claimed_for_a_resume(status: Status) -> None:
    with pytest.raises(IllegalMove):
        transitions.resuming(make_entry(status=status), nonce="n2", session="s", now=NOW)


def test_a_resumed_agent_is_ready_by_its_confirmation_and_by_nothing_else() -> None:
    running = transitions.spawned(claimed("resumable"), make_ref(), now=NOW)
    assert transitions.ready(running, now=NOW) == running
    assert transitions.confirmed(running, now=7).state == Running(since=NOW, ready_at=7)


def test_a_resume_that_ends_before_it_was_confirmed_is_taken_back() -> None:
    running = transitions.spawned(claimed("closed"), make_ref(), now=NOW)
    after = transitions.over(running, make_hand_off(code=3), now=NOW)
    assert (after.status, after.hand_off) == ("closed", make_hand_off())
    assert (found := failed_resume(after)) is not None
    assert found.why == "it exited with 3 before it had confirmed its session"


def test_a_resume_that_is_killed_is_said_so() -> None:
    running = transitions.spawned(claimed("closed"), make_ref(), now=NOW)
    after = transitions.over(running, make_hand_off(outcome="signaled", code=None, signal="KILL"), now=NOW)
    assert (found := failed_resume(after)) is not None
    assert found.why == "it was killed by KILL before it had confirmed its session"


def test_a_resume_that_is_stopped_is_an_end_like_any_other() -> None:
    running = transitions.spawned(claimed("resumable"), make_ref(), now=NOW)
    after = transitions.over(running, make_hand_off(cause="stopped"), now=NOW)
    assert (after.status, after.hand_off, failed_resume(after)) == ("closed", make_hand_off(cause="stopped"), None)


def test_a_new_claim_forgets_the_last_failure() -> None:
    failed = transitions.rolled_back(claimed("closed"), "first", now=NOW)
    again = transitions.resuming(failed, nonce="n3", session="s", now=NOW)
    assert failed_resume(transitions.rolled_back(again, "second", now=8)) == FailedResume(at=8, why="second")


@pytest.mark.parametrize("status", STATUSES)
def test_without_a_resume_there_is_nothing_to_take_back(status: Status) -> None:
    with pytest.raises(IllegalMove):
        transitions.rolled_back(make_entry(status=status), "why", now=NOW)
