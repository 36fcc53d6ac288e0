"""Adopting and releasing over fakes: one conditional write, one winner, and everybody else is told who."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from supervisor.core import transitions
from supervisor.core.entry import Adopted, Entry, Generation, Grace, KeeperRef, Resumable, WindingDown, as_parent
from supervisor.core.fences import Fence
from supervisor.core.identity import ProcessRef
from supervisor.runtime.adopting import adopt, release
from supervisor.runtime.parts import Parts
from supervisor.testing import FakeProcessTable, make_beat, make_entry
from tests.parts import Fakes, make_fakes, make_parts

RACES = 1000


class World:
    """Any number of leads that live, and orphans of a lead that is gone."""

    def __init__(self) -> None:
        self.processes = FakeProcessTable()
        self.fakes: Fakes = make_fakes(self.processes, me=self.processes.add().pid)
        self.parts: Parts = make_parts(self.fakes)
        self.store = self.fakes.store
        self.keeper = KeeperRef("keeper-1", self._process())
        self.fakes.bells.listen("keeper-1")
        self.fakes.beats.beat(make_beat(self.keeper, monotonic_ns=self.fakes.clock.monotonic_ns()))
        self.gone = self.add("gone")
        assert self.gone.generation.process is not None
        self.processes.end(self.gone.generation.process.key.pid)

    def _process(self) -> ProcessRef:
        return ProcessRef(self.processes.machine(), self.processes.add(new_session=True))

    def add(self, name: str, **changes: object) -> Entry:
        generation = Generation(nonce=f"nonce-{name}", process=self._process())
        entry = make_entry(name, keeper=self.keeper, generation=generation, **changes)
        assert self.store.create(entry) is None
        return entry

    def orphan(self, name: str = "orphan") -> Entry:
        entry = self.add(name, parent=as_parent(self.gone))
        grace = Grace(until=1, until_ns=1 << 62, evidence="gone: pid 3 is gone")
        after = replace(entry, state=Resumable(since=1, agent=entry.agent, grace=grace))
        written = self.store.replace_if_unchanged(entry, after)
        assert isinstance(written, Entry)
        return written

    def on_disk(self, entry: Entry) -> Entry:
        found = self.store.another().read(entry.key)
        assert found is not None
        return found

    def another(self) -> Parts:
        """The same matrix as another process sees it."""
        return replace(self.parts, store=self.store.another())


@pytest.fixture
def world() -> World:
    return World()


def test_an_adoption_is_one_write_of_the_parents_session_pid_and_process(world: World) -> None:
    orphan, lead = world.orphan(), world.add("lead")
    result = adopt(world.parts, orphan, lead)
    assert isinstance(result, Entry)
    after = world.on_disk(orphan)
    assert (after.revision, after.parent) == (orphan.revision + 1, as_parent(lead))
    assert isinstance(after.state, Adopted)
    assert (after.state.by_session, after.generation, after.keeper) == (
        lead.session_id,
        orphan.generation,
        orphan.keeper,
    )
    assert world.fakes.signals.sent == []


def test_both_keepers_are_rung(world: World) -> None:
    adopt(world.parts, world.orphan(), world.add("lead"))
    assert world.fakes.bells.drain("keeper-1") == 2


def test_who_comes_second_is_told_who_was_first_and_changes_nothing(world: World) -> None:
    orphan, lead, other = world.orphan(), world.add("lead"), world.add("other")
    adopt(world.parts, orphan, lead)
    before = world.on_disk(orphan)
    result = adopt(world.another(), orphan, other)
    assert isinstance(result, Fence)
    assert (result.code, "lead" in result.why, world.on_disk(orphan)) == ("claimed", True, before)


def test_the_same_parent_twice_is_once(world: World) -> None:
    orphan, lead = world.orphan(), world.add("lead")
    first, second = adopt(world.parts, orphan, lead), adopt(world.another(), orphan, lead)
    assert first == second


def test_an_adoption_waits_for_a_keeper_that_is_about_to_offer_it(world: World) -> None:
    orphan, lead = world.orphan(), world.add("lead")
    marked = world.store.replace_if_unchanged(orphan, replace(orphan, state=WindingDown(since=1, reason="parent_lost")))
    assert isinstance(marked, Entry)
    waits: list[float] = []

    def the_keeper_moves_on(seconds: float) -> None:
        waits.append(seconds)
        assert isinstance(world.store.replace_if_unchanged(marked, replace(marked, state=orphan.state)), Entry)

    result = adopt(world.parts, orphan, lead, wait_s=the_keeper_moves_on)
    assert (isinstance(result, Entry), len(waits)) == (True, 1)


def test_a_fence_changes_nothing(world: World) -> None:
    orphan = world.orphan()
    result = adopt(world.parts, orphan, world.gone)
    assert isinstance(result, Fence)
    assert (result.code, world.on_disk(orphan)) == ("parent_not_alive", orphan)


def test_a_parent_of_another_state_root_is_none(world: World) -> None:
    orphan, stranger = world.orphan(), World().add("stranger")
    result = adopt(world.parts, orphan, stranger)
    assert isinstance(result, Fence)
    assert (result.code, world.on_disk(orphan)) == ("parent_not_alive", orphan)


def test_a_release_is_a_wish_on_record_and_a_ring(world: World) -> None:
    orphan = world.orphan()
    assert isinstance(release(world.parts, orphan), Entry)
    after = world.on_disk(orphan)
    assert (after.want, after.state, world.fakes.bells.drain("keeper-1")) == ("down", orphan.state, 1)


def test_a_released_orphan_is_not_adopted_any_more(world: World) -> None:
    orphan, lead = world.orphan(), world.add("lead")
    release(world.parts, orphan)
    result = adopt(world.parts, orphan, lead)
    assert isinstance(result, Fence)
    assert result.code == "ending"


def race(*runners: Callable[[], object]) -> list[object]:
    """Run them at once, each in a thread of its own; their results in order."""
    barrier, results = threading.Barrier(len(runners)), [None] * len(runners)

    def run(number: int) -> None:
        barrier.wait()
        results[number] = runners[number]()  # type: ignore[call-overload]

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(runners))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_of_raced_adoptions_exactly_one_wins_each_time_and_the_other_is_told_who(world: World) -> None:
    """R6. The orphan's keeper takes each adoption up meanwhile, or not yet."""
    leads = [world.add("lead-a"), world.add("lead-b")]
    parts = [world.another(), world.another(), world.another()]
    for number in range(RACES):
        orphan = world.orphan(f"orphan-{number}")

        def keeper_takes_up(orphan: Entry = orphan) -> None:
            for _ in range(20):
                now = parts[2].store.read(orphan.key)
                if now is not None and isinstance(now.state, Adopted):
                    parts[2].store.replace_if_unchanged(now, transitions.under_parent(now, now=2))
                    return

        first, second, _ = race(
            lambda o=orphan: adopt(parts[0], o, leads[0]),
            lambda o=orphan: adopt(parts[1], o, leads[1]),
            keeper_takes_up,
        )
        won = [isinstance(first, Entry), isinstance(second, Entry)]
        assert sorted(won) == [False, True]
        winner, told = leads[won.index(True)], (second if won[0] else first)
        assert isinstance(told, Fence)
        after = world.on_disk(orphan)
        assert (told.code, winner.name in told.why, after.parent) == ("claimed", True, as_parent(winner))
        world.store.remove_if_unchanged(after)
