"""How an end is told: first said, then noted, so that whoever is killed between the two loses nothing."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from supervisor.core import transitions
from supervisor.core.entry import Entry, HandOff, ParentRef
from supervisor.runtime.delivering import deliver
from supervisor.testing import MemoryStore, make_entry

NOW = 7


def ended(store: MemoryStore) -> Entry:
    entry = make_entry("kid", status="closed", parent=ParentRef(session_id="session-lead"))
    assert store.create(entry) is None
    return entry


def test_an_end_is_told_and_noted() -> None:
    store, said = MemoryStore(), list[str]()
    deliver(store, ended(store), lambda e, _end: said.append(e.name), now=NOW)
    assert (said, [e.hand_off.delivered_at for e in store.list() if e.hand_off]) == (["kid"], [NOW])


def test_who_is_killed_while_telling_has_noted_nothing() -> None:
    store = MemoryStore()
    entry = ended(store)

    def killed(_entry: Entry, _end: HandOff) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deliver(store, entry, killed, now=NOW)
    assert [entry] == store.list()


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda e: transitions.delivered(e, now=NOW),
        lambda e: transitions.resuming(e, nonce="n", session="s", now=NOW),
        lambda e: replace(e, state=replace(e.state, hand_off=replace(e.hand_off, code=9))),
    ],
)
def test_an_end_that_was_told_or_is_another_meanwhile_is_not_told(meanwhile: Callable[[Entry], Entry]) -> None:
    store, said = MemoryStore(), list[str]()
    entry = ended(store)
    now = store.replace_if_unchanged(entry, meanwhile(entry))
    deliver(store, entry, lambda e, _end: said.append(e.name), now=NOW)
    assert ([], [now]) == (said, store.list())
