"""Which agents a tmux server has taken along: those that were last hung up on together, parents first."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.core.entry import AgentIdentity, Closed, Entry, ParentRef, ResumeContext, Terminal
from supervisor.runtime.tmux_recovery import TOGETHER_MS, lost_together
from supervisor.testing import make_entry, make_hand_off

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


@pytest.mark.parametrize(
    "end",
    [
        {"outcome": "exited", "signal": None, "code": 129},
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
