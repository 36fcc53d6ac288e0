"""Which agents a tmux server has taken along, parents first, and what is told of those that are brought back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from supervisor.core import transitions
from supervisor.core.entry import AgentIdentity, Closed, Entry, ParentRef, ResumeContext, Running, Terminal
from supervisor.runtime.recovering import Event
from supervisor.runtime.tmux_recovery import TOGETHER_MS, await_proofs, lost_together
from supervisor.testing import FakeClock, make_entry, make_hand_off, make_ref

AT = 1_000_000
CONTEXT = ResumeContext(profile="demo", cwd="/w", provider_session_id="s")


def lost(name: str, *, at: int = AT, socket: str = "/s", kind: Any = "tmux", **end: Any) -> Entry:
    """Hung up on, unless said otherwise."""
    how = {"outcome": "signaled", "code": None, "signal": "HUP", "success": False, "observed_at": at, **end}
    return make_entry(
        name,
        terminal=Terminal(kind=kind, pane="%1", socket=socket),
        agent=AgentIdentity(agent_id=name, resume_context=CONTEXT),
        state=Closed(since=at, hand_off=make_hand_off(**how)),
    )


def names(*entries: Entry) -> list[str]:
    return [e.name for e in lost_together(entries)]


def test_parents_come_first() -> None:
    kid = lost("kid")
    kid = make_entry(
        "kid", terminal=kid.terminal, agent=kid.agent, state=kid.state, parent=ParentRef(session_id="session-lead")
    )
    assert names(kid, lost("lead")) == ["lead", "kid"]


def test_a_window_that_was_closed_earlier_is_none_of_it() -> None:
    assert names(lost("a"), lost("b", at=AT - TOGETHER_MS), lost("old", at=AT - TOGETHER_MS - 1)) == ["a", "b"]


def test_each_server_has_its_own_last_time() -> None:
    assert names(lost("a"), lost("b", socket="/other", at=AT - 10 * TOGETHER_MS)) == ["a", "b"]


def test_who_was_dropped_is_left_alone() -> None:
    assert names(lost("a"), replace(lost("b"), want="down")) == ["a"]


@pytest.mark.parametrize(
    "end",
    [
        {"outcome": "exited", "signal": None, "code": 129},
        {"outcome": "exited", "signal": None, "code": 0, "success": None, "hung_up": True},
        {"outcome": "unknown", "cause": "lost", "signal": None, "success": None},
    ],
)
def test_it_may_have_heard_the_signal_or_been_found_dead(end: dict[str, Any]) -> None:
    assert names(lost("a", **end)) == ["a"]


@pytest.mark.parametrize(
    "end",
    [
        {"cause": "stopped"},
        {"signal": "TERM"},
        {"outcome": "exited", "signal": None, "code": 0, "success": True},
        {"kind": "detached"},
    ],
)
def test_who_ended_otherwise_or_elsewhere_is_not_brought_back(end: dict[str, Any]) -> None:
    assert names(lost("a", **end)) == []


# -- what is told of those that are brought back


def opened(name: str = "a") -> Entry:
    """Its pane is open, its agent has said nothing yet."""
    claimed = transitions.resuming(lost(name), nonce="n2", session="s", now=AT)
    before = claimed.state.unconfirmed  # type: ignore[union-attr]
    generation = replace(claimed.generation, process=make_ref())
    return replace(claimed, state=Running(since=AT, unconfirmed=before), generation=generation)


def confirmed(entry: Entry) -> Entry:
    generation = replace(entry.generation, session="s")
    return replace(entry, state=Running(since=AT, ready_at=AT), generation=generation)


def told(*records: list[Entry]) -> list[Event]:
    """Each agent's record at one look after the other (the last one stays)."""
    events: list[Event] = []
    looks = {r[0].key: r for r in records}
    clock = FakeClock()

    def read(key: str) -> Entry:
        return looks[key].pop(0) if len(looks[key]) > 1 else looks[key][0]

    await_proofs([r[0] for r in records], events.append, read=read, clock=clock, pause=lambda: clock.advance(1000))
    return events


def test_an_agent_is_told_of_as_resumed_once_it_has_confirmed_its_session_not_before() -> None:
    silent = opened("silent")
    quick, slow = opened("quick"), opened("slow")
    events = told([silent], [slow, slow, slow, confirmed(slow)], [quick, confirmed(quick)])
    assert [(e.event, e.name) for e in events] == [
        ("resumed", "quick"),
        ("resumed", "slow"),
        ("unconfirmed", "silent"),
    ]
    seconds = silent.plan.ready_timeout_ms // 1000
    assert events[-1].why == f"it has not confirmed its session within {seconds} s"


def test_each_has_the_time_of_its_own_profile() -> None:
    quick, slow = opened("quick"), opened("slow")
    patient = replace(slow, plan=replace(slow.plan, ready_timeout_ms=2 * quick.plan.ready_timeout_ms))
    looks = quick.plan.ready_timeout_ms // 1000 + 2
    events = told([quick], [*[patient] * looks, confirmed(patient)])
    assert [(e.event, e.name) for e in events] == [("unconfirmed", "quick"), ("resumed", "slow")]


def test_one_that_is_taken_back_is_told_of_with_the_reason() -> None:
    before = opened()
    strange = replace(before, generation=replace(before.generation, session="another"))
    (event,) = told([before, strange, transitions.rolled_back(strange, "it came up in another session", now=AT)])
    assert (event.event, event.why) == ("failed", "it came up in another session")


def test_one_that_has_confirmed_and_ended_since_was_resumed() -> None:
    done = transitions.closed(confirmed(opened()), make_hand_off(), now=AT)
    assert [e.event for e in told([opened(), done])] == ["resumed"]


def test_one_that_was_stopped_before_it_confirmed_was_not() -> None:
    stopped = transitions.closed(opened(), make_hand_off(cause="stopped"), now=AT)
    assert [(e.event, e.why) for e in told([opened(), stopped])] == [("failed", "it has ended again")]
