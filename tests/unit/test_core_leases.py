"""One session of a CLI has one agent: held from the intent until the agent is gone, and on doubt held."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from supervisor.core.entry import (
    AgentIdentity,
    Closed,
    Entry,
    Generation,
    Resumable,
    ResumeContext,
    Status,
)
from supervisor.core.leases import holds, owner_of, owner_of_words
from supervisor.testing import make_entry, make_hand_off, make_plan, make_ref, make_state

SESSION = "11111111-1111-4111-8111-111111111111"
AGENT = AgentIdentity(
    agent_id="a", resume_context=ResumeContext(profile="demo", cwd="/work", provider_session_id=SESSION)
)


def judged(verdict: bool | None) -> Callable[[Entry], bool | None]:
    return lambda _entry: verdict


def closed(**changes: Any) -> Entry:
    return make_entry(agent=AGENT, state=Closed(since=1, hand_off=make_hand_off(**changes)))


@pytest.mark.parametrize("status", ["starting", "running", "winding_down", "adopted"])
@pytest.mark.parametrize("alive", [True, False, None])
def test_a_live_entry_holds_its_session_whoever_keeps_it(status: Status, alive: bool | None) -> None:
    assert holds(make_entry(agent=AGENT, status=status), alive)


@pytest.mark.parametrize(
    ("entry", "alive", "held"),
    [
        (closed(), False, False),
        (closed(), True, True),
        (closed(), None, False),
        (closed(outcome="unknown"), None, True),
        (closed(survivors=("pid 7",)), None, True),
        (make_entry(state=Resumable(since=1, agent=AGENT)), False, False),
        (make_entry(state=Resumable(since=1, agent=AGENT)), True, True),
        (make_entry(state=Resumable(since=1, agent=AGENT)), None, True),
        (make_entry(state=Resumable(since=1, agent=AGENT), generation=Generation(nonce="n")), None, False),
    ],
)
def test_an_ended_entry_holds_it_only_while_its_process_may_live(entry: Entry, alive: bool | None, held: bool) -> None:
    assert holds(entry, alive) is held


def test_the_owner_is_found_by_every_session_that_it_may_be_in() -> None:
    resumes = make_entry("a", generation=Generation(nonce="n", process=make_ref(), resumes=SESSION))
    proven = make_entry("b", generation=Generation(nonce="n", process=make_ref(), session=SESSION))
    stored = make_entry("c", agent=AGENT)
    for entry in (resumes, proven, stored):
        assert owner_of(SESSION, [make_entry(), entry], judged(True)) == entry


def test_another_session_has_no_owner() -> None:
    assert owner_of("another", [make_entry(agent=AGENT)], judged(True)) is None


@pytest.mark.parametrize("words", [["--resume", SESSION], [f"--resume={SESSION}"], [SESSION]])
def test_a_session_among_the_arguments_of_a_launch_has_its_owner(words: list[str]) -> None:
    entry = make_entry(agent=AGENT)
    assert owner_of_words(words, [entry], judged(True)) == entry
    assert owner_of_words(["--resume", "another"], [entry], judged(True)) is None


def launched_into(session: str, **changes: Any) -> Entry:
    """`launch demo -- --resume SESSION`."""
    return make_entry("guest", **{"plan": make_plan(argv=("/bin/agent", "--resume", session)), **changes})


def test_a_session_that_was_named_at_the_launch_is_held_until_the_agent_proves_another() -> None:
    guest = launched_into(SESSION)
    assert guest == owner_of(SESSION, [closed(), guest], lambda e: e is guest)
    moved_on = replace(guest, generation=replace(guest.generation, session="another"))
    assert owner_of(SESSION, [moved_on], judged(True)) is None
    assert owner_of(SESSION, [launched_into(SESSION, state=make_state("closed"))], judged(False)) is None


def test_of_two_launches_into_one_session_the_second_finds_the_first() -> None:
    guest = launched_into(SESSION)
    assert guest == owner_of_words(("--resume", SESSION), [closed(), guest], lambda e: e is guest)
    assert owner_of_words(("--resume", "another"), [closed(), guest], lambda e: e is guest) is None
