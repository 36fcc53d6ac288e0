"""Whatever happens to an entry, in whatever order: it stays within the table, and an illegal move changes nothing."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core import transitions
from supervisor.core.entry import LIVE, MAX_DEATHS, Closed, Death, Entry, Resumable
from supervisor.core.errors import IllegalMove
from supervisor.testing import make_entry, make_hand_off, make_ref

DEATH = Death(at=1, boot_id="boot-1", monotonic_ns=1)
EVENTS: dict[str, Callable[[Entry], Entry]] = {
    "spawned": lambda e: transitions.spawned(e, make_ref(), now=1),
    "ready": lambda e: transitions.ready(e, now=1),
    "restarting": lambda e: transitions.restarting(e, nonce="n", death=DEATH, attempt=1, not_before=None, now=1),
    "winding_down": lambda e: transitions.winding_down(e, "user_cleanup", now=1),
    "closed": lambda e: transitions.closed(e, make_hand_off(), death=DEATH, now=1),
    "resumable": lambda e: transitions.resumable(e, None, now=1),
    "delivered": lambda e: transitions.delivered(e, now=1),
    "kept_by": lambda e: transitions.kept_by(e, e.keeper, now=1),
    "wanted_down": lambda e: transitions.wanted_down(e, grace_ms=None),
}
sequences = st.lists(st.sampled_from(sorted(EVENTS)), max_size=40)


def play(events: list[str]) -> list[Entry]:
    """The entry after each event; one that the table forbids leaves it as it was."""
    entry = make_entry(status="starting")
    history = [entry]
    for event in events:
        try:
            entry = EVENTS[event](entry)
        except IllegalMove:
            continue
        history.append(entry)
    return history


@given(sequences)
def test_no_sequence_leaves_the_table(events: list[str]) -> None:
    history = play(events)
    moves = [(a.status, b.status) for a, b in zip(history, history[1:], strict=False) if a.status != b.status]
    assert [m for m in moves if not transitions.may_move(*m)] == []


@given(sequences)
def test_what_is_closed_stays_closed(events: list[str]) -> None:
    statuses = [e.status for e in play(events)]
    first = statuses.index("closed") if "closed" in statuses else len(statuses)
    assert {"closed"} >= set(statuses[first:])


@given(sequences)
def test_a_wish_to_stop_is_never_forgotten(events: list[str]) -> None:
    wants = [e.want for e in play(events)]
    assert sorted(wants, reverse=True) == wants


@given(sequences)
def test_the_tally_never_outgrows_its_bound(events: list[str]) -> None:
    assert max(len(e.deaths) for e in play(events)) <= MAX_DEATHS


@given(sequences)
def test_only_what_is_not_live_has_an_end(events: list[str]) -> None:
    for entry in play(events):
        assert (entry.status not in LIVE) is isinstance(entry.state, Closed | Resumable)


@given(sequences)
def test_nobody_changes_who_the_entry_is(events: list[str]) -> None:
    assert len({(e.entry_id, e.session_id, e.agent, e.key) for e in play(events)}) == 1
