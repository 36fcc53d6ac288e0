"""What the simulation of masters asserts can fail: each fault that is planted here is found, by the machine itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from msgspec.structs import replace

from supervisor.core import transitions
from supervisor.core.entry import Closed, Entry, HandOff
from supervisor.core.identity import ProcessKey
from supervisor.core.ports import EntryStore
from supervisor.runtime.delivering import note_told
from supervisor.runtime.resuming import Resumer
from supervisor.testing import make_hand_off
from tests.property.commands import Command
from tests.property.machines import SimKeeper
from tests.property.ports import Fault, SimStore
from tests.property.test_master_life import MasterLife


class NotesFirst(Command):
    """An end is acknowledged before it is delivered."""

    @staticmethod
    def deliver(store: EntryStore, ended: Entry, tell: Callable[[Entry, HandOff], None], *, now: int) -> None:
        assert ended.hand_off is not None
        note_told(store, ended, now=now)
        tell(ended, ended.hand_off)


class Leaseless(Resumer):
    """Nobody asks who is in the session."""

    def facts(self, entry: Entry) -> Any:
        return replace(super().facts(entry), owner=None)


class ResumesWithoutLease(Command):
    def drafts(self, requests: Any, activated: Any, refused: Any) -> Any:
        return [Leaseless(self.context, activated).draft(r) for r in requests]


class StaleWrites(MasterLife):
    fault = Fault(stale_writes=True)


class CarelessSignals(MasterLife):
    fault = Fault(careless_signals=True)


class OpenLock(MasterLife):
    fault = Fault(open_lock=True)


class Noting(MasterLife):
    kind = NotesFirst


class Leasing(MasterLife):
    kind = ResumesWithoutLease


HUNT = settings(
    max_examples=200,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        (StaleWrites, "newer record"),
        (Leasing, "in use|in one session"),
        (CarelessSignals, "no recorded agent|strangers"),
    ],
)
def test_the_machine_finds_what_is_planted(planted: type[MasterLife], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        run_state_machine_as_test(planted, settings=HUNT)


def test_a_lock_that_keeps_nobody_out_is_found_where_two_resume_into_one_session() -> None:
    """And with one that does the same steps find nothing."""
    for planted, found in ((MasterLife, False), (OpenLock, True)):
        life = planted()
        life.an_agent_ends("lead-0")
        life.world.go(1000)
        with pytest.raises(AssertionError, match="in use|in one session") if found else contextlib.nullcontext():
            life.two_resume_into_one_session([(False, 1), (True, 1)] * 20)
            life.settle()
            life.nobody_runs_twice()
        life.close()


def test_an_end_that_is_noted_before_it_is_told_is_found() -> None:
    for planted, found in ((MasterLife, False), (Noting, True)):
        life = planted()
        end_of(life, "worker-0")
        life.somebody_waits(0)
        with pytest.raises(AssertionError, match="told to nobody") if found else contextlib.nullcontext():
            life.settle()
        life.close()


@pytest.fixture
def life() -> Iterator[MasterLife]:
    life = MasterLife()
    yield life
    life.close()


def end_of(life: MasterLife, name: str) -> Entry:
    life.an_agent_ends(name)
    life.world.go(1000)
    entry = life.on_disk(name)
    assert entry is not None and isinstance(entry.state, Closed)
    return entry


def write(life: MasterLife, before: Entry, after: Entry, *, process: ProcessKey | None = None) -> None:
    process = process or life.world.processes.add()
    SimStore(life.world, process).replace_if_unchanged(before, after)


def test_an_end_that_is_overwritten_is_seen(life: MasterLife) -> None:
    entry = end_of(life, "worker-0")
    assert isinstance(entry.state, Closed)
    other = replace(entry.state, hand_off=replace(entry.state.hand_off, code=99))
    with pytest.raises(AssertionError, match="another"):
        write(life, entry, replace(entry, state=other))


def test_an_end_that_is_removed_before_its_time_is_seen(life: MasterLife) -> None:
    entry = end_of(life, "worker-0")
    with pytest.raises(AssertionError, match="too early"):
        SimStore(life.world, life.world.processes.add()).remove_if_unchanged(entry)


def test_a_write_of_another_keeper_is_seen(life: MasterLife) -> None:
    entry, other = life.on_disk("worker-0"), life.world.keeper_of(life.keys["worker-1"])
    assert entry is not None and other is not None
    with pytest.raises(AssertionError, match="which lost it"):
        write(life, entry, replace(entry, heartbeat_at=1), process=other.process)
    entry = life.on_disk("worker-0")
    assert entry is not None
    with pytest.raises(AssertionError, match="taken from a keeper"):
        write(life, entry, replace(entry, keeper=other.ref), process=other.process)


def test_a_generation_that_nobody_keeps_is_seen(life: MasterLife) -> None:
    entry = life.on_disk("worker-0")
    assert entry is not None
    with pytest.raises(AssertionError, match="new generation"):
        write(life, entry, replace(entry, generation=replace(entry.generation, nonce="another")))


def test_a_failed_resume_that_leaves_something_behind_is_seen(life: MasterLife) -> None:
    before = end_of(life, "worker-0")
    store = SimStore(life.world, life.world.processes.add())
    keeper = SimKeeper(life.world, 99)
    claim = transitions.resuming(before, nonce="n", session="s-worker-0", now=1, keeper=keeper.ref)
    claimed = store.replace_if_unchanged(before, claim)
    assert isinstance(claimed, Entry)
    back = transitions.rolled_back(claimed, "why", now=1)
    with pytest.raises(AssertionError, match="as it was"):
        store.replace_if_unchanged(claimed, replace(back, parent=None))


def test_who_runs_twice_or_unrecorded_is_seen(life: MasterLife) -> None:
    entry = life.on_disk("worker-0")
    assert entry is not None and entry.generation.process is not None
    env = life.world.processes.environment(entry.generation.process.key.pid)
    life.world.processes.add(env=env)
    with pytest.raises(AssertionError, match="runs twice"):
        life.nobody_runs_twice()
    ended = transitions.closed(entry, make_hand_off(), now=1)
    life.world.disk.replace_if_unchanged(entry, ended)
    with pytest.raises(AssertionError, match="unrecorded"):
        life.who_lives_is_not_recorded_as_over()
