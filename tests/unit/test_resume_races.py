"""A thousand resumes of one agent, raced: one wins each time, nothing is spawned by the loser, and it is told."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from supervisor.adapters.entry_files import EntryFiles
from supervisor.core import transitions
from supervisor.core.entry import Entry, KeeperRef
from supervisor.core.ports import EntryStore
from supervisor.runtime.intents import Draft, start_all
from supervisor.testing import FakeProcessTable, MemoryStore, make_entry, make_ref
from tests.parts import make_fakes, make_parts

ROUNDS = 1_000
RACERS = 3


class Racer:
    """One `resume` of its own: a store, a keeper and the news that it tells."""

    def __init__(self, number: int, store: EntryStore) -> None:
        parts = make_parts(make_fakes(FakeProcessTable(), me=1))
        self._context = cast(Any, SimpleNamespace(store=store, parts=parts, clock=parts.clock))
        self._number = number
        self.ref = KeeperRef(f"keeper-{number}", make_ref(500 + number))
        self.kept: list[Any] = []
        self.news: list[tuple[str, str]] = []

    def add(self, agent: Any) -> None:
        self.kept.append(agent)

    def resume(self, before: Entry) -> None:
        after = transitions.resuming(before, nonce=f"n-{self._number}-{before.revision}", session="s", now=1)
        start_all(self._context, [Draft(after, {}, None, before)], cast(Any, self), self._tell)

    def _tell(self, key: str, what: str) -> None:
        self.news.append((key, what))


def race(store: EntryStore, racers: list[Racer]) -> None:
    entry = make_entry(status="resumable")
    assert store.create(entry) is None
    for number in range(ROUNDS):
        current = store.read(entry.key)
        assert current is not None
        together = threading.Barrier(len(racers))

        def run(racer: Racer, before: Entry = current, together: threading.Barrier = together) -> None:
            together.wait()
            racer.resume(before)

        threads = [threading.Thread(target=run, args=(r,)) for r in racers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        claimed = store.read(entry.key)
        assert claimed is not None
        winners = [r for r in racers if r.ref == claimed.keeper]
        assert (len(winners), [len(r.kept) for r in winners]) == (1, [1]), f"round {number}"
        assert sum(len(r.kept) for r in racers) == 1
        assert sorted(len(r.news) for r in racers) == [0, *[1] * (len(racers) - 1)], "the losers are told"
        back = transitions.rolled_back(claimed, "next round", now=1)
        assert isinstance(store.replace_if_unchanged(claimed, back), Entry)
        for racer in racers:
            racer.kept.clear()
            racer.news.clear()


def test_a_thousand_raced_resumes_have_one_winner_each() -> None:
    store = MemoryStore()
    race(store, [Racer(n, store.another()) for n in range(RACERS)])


def test_the_same_over_files(tmp_path: Path) -> None:
    for name in ("matrix", "locks"):
        (tmp_path / name).mkdir()

    def files() -> EntryFiles:
        return EntryFiles(str(tmp_path / "matrix"), str(tmp_path / "locks"))

    race(files(), [Racer(n, files()) for n in range(RACERS)])
