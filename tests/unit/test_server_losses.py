"""A killed tmux server is one event, not one for each of its agents."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.cli.render import rich_losses
from supervisor.core.entry import AgentIdentity, Closed, Entry, ResumeContext, Terminal
from supervisor.core.events import Event
from supervisor.runtime.server_losses import HOLD_MS, ServerLosses, still_gone
from supervisor.testing import make_entry, make_hand_off

GONE, THERE = "/tmp/gone", "/tmp/there"


def in_pane(name: str, *, signal: str | None = None, socket: str = GONE, resumable: bool = False, **end: Any) -> Entry:
    """Live, or ended by a signal."""
    context = ResumeContext(profile="demo", cwd="/w", provider_session_id="s") if resumable else None
    entry = make_entry(
        name,
        terminal=Terminal(kind="tmux", pane="%1", socket=socket),
        agent=AgentIdentity(agent_id=name, resume_context=context),
    )
    if signal is None and not end:
        return entry
    how = {"outcome": "signaled", "code": None, "signal": signal, "success": False, **end}
    state = Closed(since=1, hand_off=make_hand_off(**how))
    return make_entry(name, terminal=entry.terminal, agent=entry.agent, state=state)


def exited(name: str, code: int, **end: Any) -> Entry:
    return in_pane(name, **{"outcome": "exited", "code": code, "success": code == 0, **end})


def ended(entry: Entry, at: int = 1000) -> Event:
    return Event(
        at=at, what="ended", name=entry.name, entry_id=entry.entry_id, session_id=entry.session_id, pid=1,
        status="closed", verdict="dead_pid", detail="killed by HUP",
    )  # fmt: skip


def losses() -> ServerLosses:
    return ServerLosses(lambda socket: socket == THERE)


def test_the_ends_of_its_agents_are_one_event_once_all_have_ended() -> None:
    a, b, live = in_pane("a", signal="HUP", resumable=True), in_pane("b", signal="HUP"), in_pane("b")
    held = losses()
    assert held.take([ended(a)], [a, live], now=1000) == []
    (event,) = held.take([ended(b)], [a, b], now=1200)
    assert (event.what, event.name) == ("server_gone", GONE)
    assert event.detail == (
        "the tmux server is gone, and 2 of its agents with it: a, b; to bring them back: supervisor recover --tmux"
    )
    assert held.take([], [a, b], now=1300) == []


def test_an_agent_that_does_not_end_is_not_waited_for_for_ever() -> None:
    a, live = in_pane("a", signal="HUP"), in_pane("b")
    held = losses()
    assert held.take([ended(a)], [a, live], now=1000) == []
    (event,) = held.take([], [a, live], now=1001 + HOLD_MS)
    assert event.what == "server_gone"


def test_a_closed_pane_of_a_server_that_lives_is_an_end_like_others() -> None:
    a = in_pane("a", signal="HUP", socket=THERE)
    assert losses().take([ended(a)], [a], now=1000) == [ended(a)]


def test_an_agent_that_has_heard_the_signal_and_ended_with_a_code_belongs_to_it() -> None:
    a, b = in_pane("a", signal="HUP"), exited("b", 129)
    (event,) = losses().take([ended(a), ended(b)], [a, b], now=1000)
    assert event.what == "server_gone"


def test_an_agent_that_was_hung_up_on_belongs_to_it_whatever_its_code() -> None:
    a = exited("a", 0, success=None, hung_up=True)
    (event,) = losses().take([ended(a)], [a], now=1000)
    assert event.what == "server_gone"


@pytest.mark.parametrize("code", [0, 3])
def test_the_last_agent_that_ends_by_itself_and_takes_the_server_along_has_just_ended(code: int) -> None:
    a = exited("a", code)
    assert losses().take([ended(a)], [a], now=1000) == [ended(a)]


def test_an_agent_that_was_stopped_is_none_of_it() -> None:
    a = in_pane("a", signal="TERM", cause="stopped")
    assert losses().take([ended(a)], [a], now=1000) == [ended(a)]


def test_a_live_view_shows_each_server_that_is_gone_until_an_agent_runs_in_it_again() -> None:
    a, other = in_pane("a", signal="HUP", resumable=True), in_pane("b", signal="HUP", socket="/tmp/other")
    events = losses().take([ended(a), ended(other)], [a, other], now=1000)

    gone = still_gone([*events, *events, ended(a)], [a, other])

    lost = "the tmux server is gone, and 1 of its agents with it"
    assert [line.plain for line in rich_losses(gone)] == [
        f"{GONE}: {lost}: a; to bring them back: supervisor recover --tmux",
        f"/tmp/other: {lost}: b",
    ]
    assert [e.name for e in still_gone(gone, [in_pane("a"), other])] == ["/tmp/other"]
