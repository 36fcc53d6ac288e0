"""Whatever happens to an agent while it is resumed, in whatever order: its identity stays, and so does its past."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core import transitions
from supervisor.core.entry import (
    LIVE,
    AgentIdentity,
    Death,
    Entry,
    ParentRef,
    ResumeContext,
    Running,
    failed_resume,
    unconfirmed,
)
from supervisor.core.errors import IllegalMove
from supervisor.core.leases import holds, sessions_of
from supervisor.testing import make_entry, make_hand_off, make_ref

SESSION = "s-1"
AGENT = AgentIdentity(
    agent_id="a", resume_context=ResumeContext(profile="demo", cwd="/work", provider_session_id=SESSION)
)
DEATH = Death(at=1, boot_id="boot-1", monotonic_ns=1)
LOST = make_hand_off(outcome="unknown", cause="lost", code=None, success=None)
STOPPED = make_hand_off(cause="stopped")
EVENTS: dict[str, Callable[[Entry], Entry]] = {
    "resuming": lambda e: transitions.resuming(e, nonce="n", session=SESSION, now=1, parent=None),
    "spawned": lambda e: transitions.spawned(e, make_ref(), now=1),
    "ready": lambda e: transitions.ready(e, now=1),
    "in_another": lambda e: transitions.in_session(e, "s-2", "/s-2") if isinstance(e.state, Running) else e,
    "confirmed": lambda e: transitions.confirmed(e, now=1),
    "rolled_back": lambda e: transitions.rolled_back(e, "why", now=1),
    "restarting": lambda e: transitions.restarting(e, nonce="n", death=DEATH, attempt=1, not_before=None, now=1),
    "winding_down": lambda e: transitions.winding_down(e, "parent_lost", now=1),
    "ended": lambda e: transitions.over(e, make_hand_off(code=3), now=1),
    "lost": lambda e: transitions.over(e, LOST, now=1),
    "stopped": lambda e: transitions.over(e, STOPPED, now=1),
    "resumable": lambda e: transitions.resumable(e, None, now=1),
    "delivered": lambda e: transitions.delivered(e, now=1),
    "wanted_down": lambda e: transitions.wanted_down(e, grace_ms=None),
}
sequences = st.lists(st.sampled_from(sorted(EVENTS)), max_size=40)


def play(events: list[str]) -> list[tuple[str, Entry]]:
    """What led to each entry; a move that the table forbids leaves it as it was."""
    entry = make_entry(agent=AGENT, status="resumable", parent=ParentRef(session_id="session-boss"))
    history = [("", entry)]
    for event in events:
        try:
            after = EVENTS[event](entry)
        except IllegalMove:
            continue
        history.append((event, after))
        entry = after
    return history


@given(sequences)
def test_only_a_resume_brings_back_who_has_ended(events: list[str]) -> None:
    history = play(events)
    for (_, before), (event, after) in zip(history, history[1:], strict=False):
        assert transitions.may_move(before.status, after.status) or before.status == after.status
        if before.status not in LIVE and after.status in LIVE:
            assert event == "resuming"


@given(sequences)
def test_a_resume_that_fails_leaves_state_parent_and_identity_as_they_were(events: list[str]) -> None:
    history = play(events)
    claimed: Entry | None = None
    for (_, before), (event, after) in zip(history, history[1:], strict=False):
        if event == "resuming":
            claimed = before
        if unconfirmed(before) is not None and unconfirmed(after) is None and failed_resume(after) is not None:
            assert claimed is not None
            assert (after.status, after.parent, after.hand_off) == (claimed.status, claimed.parent, claimed.hand_off)
            assert after.agent == claimed.agent


@given(sequences)
def test_a_resumed_agent_is_never_ready_before_it_is_confirmed(events: list[str]) -> None:
    for _, entry in play(events):
        if isinstance(entry.state, Running) and entry.state.unconfirmed is not None:
            assert entry.state.ready_at is None


@given(sequences)
def test_whoever_may_run_holds_a_session(events: list[str]) -> None:
    for _, entry in play(events):
        if entry.status in LIVE:
            assert holds(entry, alive=None) and sessions_of(entry)
