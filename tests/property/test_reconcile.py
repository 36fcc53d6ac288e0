"""Reconcile twice is reconcile once, and only what is provably dead is changed."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from supervisor.core.entry import (
    AgentIdentity,
    Entry,
    Generation,
    KeeperRef,
    ResumeContext,
    Starting,
    is_live,
    unconfirmed,
)
from supervisor.core.identity import Gone, ProcessKey, ProcessRef, Seen, Unreadable
from supervisor.core.launch_plan import RestartPlan
from supervisor.core.liveness import Beat, Judgement, Now, Verdict, judge
from supervisor.core.reconcile import Action, Attach, Change, Remove, reconcile
from supervisor.core.timing import MS, RESUMABLE_RETENTION_MS
from supervisor.core.transitions import kept_by
from supervisor.testing import MACHINE, make_beat, make_entry, make_plan
from tests.property.strategies import states

NOW = Now(MACHINE, wall_ms=2**53 + RESUMABLE_RETENTION_MS // 2, monotonic_ns=2**53)
NEW_KEEPER = KeeperRef("keeper-new", ProcessRef(MACHINE, ProcessKey(999, 999)))
MACHINES = [
    MACHINE,
    replace(MACHINE, boot_id="boot-0"),
    replace(MACHINE, host_id="host-2"),
    replace(MACHINE, pid_namespace=1),
]


class Case(Struct, frozen=True):
    """An entry, and what a look would give."""

    entry: Entry
    agent: Seen | None
    keeper: Seen | None
    beat: Beat | None


AGENT, KEEPER = ProcessKey(300, 7000), ProcessKey(200, 6000)
LOOKS_AT_AGENT: list[Seen | None] = [AGENT, Gone(), Unreadable(), None, ProcessKey(300, 7)]
LOOKS_AT_KEEPER: list[Seen | None] = [KEEPER, Gone(), Unreadable(), ProcessKey(200, 8)]
contexts = st.sampled_from([None, ResumeContext(profile="demo", cwd="/work")])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    machine = draw(st.sampled_from(MACHINES))
    state = draw(states)
    process = None if isinstance(state, Starting) and draw(st.booleans()) else ProcessRef(machine, AGENT)
    entry = make_entry(
        state=state,
        generation=Generation(nonce="n", process=process),
        keeper=KeeperRef("keeper-old", ProcessRef(machine, KEEPER)),
        agent=AgentIdentity(agent_id="a", resume_context=draw(contexts)),
        want=draw(st.sampled_from(["up", "down"])),
        plan=make_plan(restart=RestartPlan(policy=draw(st.sampled_from(["temporary", "transient", "permanent"])))),
    )
    agent = draw(st.sampled_from(LOOKS_AT_AGENT))
    keeper = draw(st.sampled_from(LOOKS_AT_KEEPER))
    age = draw(st.none() | st.integers(-1, 10_000))
    beat = None
    if age is not None:
        beat = make_beat(entry.keeper, wall_ms=NOW.wall_ms - age, monotonic_ns=NOW.monotonic_ns - age * MS)
    return Case(entry, agent, keeper, beat)


matrices = st.lists(cases(), max_size=4).map(
    lambda found: [replace(c, entry=replace(c.entry, entry_id=f"e{n}")) for n, c in enumerate(found)]
)


def judgements(matrix: Sequence[Case]) -> dict[str, Judgement]:
    return {c.entry.entry_id: judge(c.entry, agent=c.agent, keeper=c.keeper, beat=c.beat, now=NOW) for c in matrix}


def plan(matrix: Sequence[Case]) -> tuple[Action, ...]:
    return reconcile([c.entry for c in matrix], judgements=judgements(matrix), boot_id=MACHINE.boot_id, now=NOW.wall_ms)


def applied(matrix: Sequence[Case]) -> list[Case]:
    """The matrix once the plan is carried out: changes written, removals made, a new keeper for whom one is wanted."""
    actions = {a.entry.entry_id: a for a in plan(matrix)}
    out = []
    for case in matrix:
        action = actions.get(case.entry.entry_id)
        if isinstance(action, Change):
            out.append(replace(case, entry=action.after))
        elif isinstance(action, Attach):
            kept = kept_by(case.entry, NEW_KEEPER, now=NOW.wall_ms)
            out.append(replace(case, entry=kept, keeper=NEW_KEEPER.process.key))
        elif not isinstance(action, Remove):
            out.append(case)
    return out


@given(matrices)
def test_reconciling_twice_is_reconciling_once(matrix: list[Case]) -> None:
    assert plan(applied(matrix)) == ()


@given(matrices)
def test_each_entry_gets_one_action_at_most(matrix: list[Case]) -> None:
    ids = [a.entry.entry_id for a in plan(matrix)]
    assert sorted(set(ids)) == sorted(ids)


@given(matrices)
def test_a_live_entry_is_touched_only_when_its_keeper_is_certainly_gone(matrix: list[Case]) -> None:
    judged = judgements(matrix)
    touched = [judged[a.entry.entry_id] for a in plan(matrix) if is_live(a.entry)]
    assert [j for j in touched if not j.keeper_gone or j.verdict in (Verdict.ALIVE, Verdict.UNKNOWN)] == []


@given(matrices)
def test_only_who_is_provably_dead_is_recorded_as_ended(matrix: list[Case]) -> None:
    judged = judgements(matrix)
    changed = [judged[a.entry.entry_id].verdict for a in plan(matrix) if isinstance(a, Change)]
    assert {Verdict.DEAD_PID} >= set(changed)


@given(matrices)
def test_nobody_is_removed_before_it_has_ended(matrix: list[Case]) -> None:
    assert [a for a in plan(matrix) if isinstance(a, Remove) and is_live(a.entry)] == []


@given(matrices)
def test_an_unknown_end_is_never_recorded_as_a_code(matrix: list[Case]) -> None:
    changes = [a for a in plan(matrix) if isinstance(a, Change) and unconfirmed(a.entry) is None]
    ends = [a.after.hand_off for a in changes]
    assert [e for e in ends if e is None or (e.outcome, e.code, e.success) != ("unknown", None, None)] == []


@given(matrices, st.permutations(range(4)))
def test_the_order_of_the_records_does_not_matter(matrix: list[Case], order: list[int]) -> None:
    shuffled = [matrix[i] for i in order if i < len(matrix)]
    by_id = {a.entry.entry_id: a for a in plan(matrix)}
    assert by_id == {a.entry.entry_id: a for a in plan(shuffled)}
