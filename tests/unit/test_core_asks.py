"""The waiting child's state machine: every ask ends in exactly one decision, and says truly who decided."""

from __future__ import annotations

import re

import pytest

from supervisor.core import ask_reasons
from supervisor.core.ask_reasons import Reason
from supervisor.core.ask_wire import Malformed, Response
from supervisor.core.asks import (
    Answered,
    AskEvent,
    AskState,
    Decision,
    Done,
    Effect,
    Judged,
    LookedAt,
    Moved,
    Waiting,
    Withdrawn,
    abandoned,
    begin,
    step,
)
from supervisor.core.serving import Judgement, Target
from supervisor.core.timing import MS

SECOND = 1000 * MS
MINUTE = 60 * SECOND
TARGET = Target("parent-1", "env")
ALIVE = Judged(Judgement("serving", "heartbeat", "alive", 300))
GONE = Judged(Judgement("not_serving", "heartbeat", "dead_pid", 1500))
UNKNOWABLE = Judged(Judgement("not_judgeable", "none", "unknown"))
YES = Response(approved=True, state="approved", responder="parent-1", ours={"code": "decided"})
NO = Response(approved=False, state="denied", responder="parent-1")
START = 1_000_000 * SECOND


def waiting(timeout_ms: int = 600_000) -> Waiting:
    return begin(TARGET, timeout_ms=timeout_ms, now=START)


def play(state: AskState, *events: tuple[float, AskEvent]) -> tuple[AskState, list[Effect]]:
    """Events at their seconds after the start."""
    effects: list[Effect] = []
    for at, event in events:
        state, more = step(state, event, now=START + int(at * SECOND))
        effects += more
    return state, effects


def ended(state: AskState) -> Decision:
    assert isinstance(state, Done)
    return state.decision


# -- answers


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (YES, (True, "approved", False, False)),
        (YES._replace(state="approved_for_session"), (True, "approved_for_session", True, False)),
        (YES._replace(state="approved_for_serving_session"), (True, "approved", False, False)),
        (NO, (False, "denied", False, False)),
        (NO._replace(state="denied_with_reason", reason="no"), (False, "denied_with_reason", False, False)),
        (NO._replace(decided_by={"kind": "user", "via": "select"}), (False, "denied", False, False)),
        (NO._replace(decided_by={"kind": "rule"}), (False, "denied", False, False)),
        (NO._replace(decided_by={"kind": "unavailable", "reason": "x"}), (False, "denied", False, True)),
        (NO._replace(decided_by={"kind": "gate_error", "reason": "x"}), (False, "denied", False, True)),
        (
            NO._replace(decided_by={"kind": "forwarded", "decision": {"kind": "unavailable"}}),
            (False, "denied", False, True),
        ),
        (NO._replace(decided_by={"kind": "forwarded", "decision": None}), (False, "denied", False, False)),
        (NO._replace(decided_by={"kind": ["unavailable"]}), (False, "denied", False, False)),
        (YES._replace(decided_by={"kind": "unavailable"}), (True, "approved", False, False)),
    ],
)
def test_an_answer_decides(response: Response, expected: tuple[bool, str, bool, bool]) -> None:
    state, effects = play(waiting(), (1, ALIVE), (2, Answered(response)))
    decision = ended(state)
    assert expected == (decision.approved, decision.state, decision.for_session, decision.unavailable)
    assert effects == ["remove_request", "remove_response"]


def test_a_reason_and_who_decided_reach_the_child() -> None:
    by = {"kind": "user", "via": "select"}
    response = NO._replace(state="denied_with_reason", reason="not\nnow", decided_by=by, ours={"code": "decided"})
    decision = ended(play(waiting(), (1, Answered(response)))[0])
    assert ("not\nnow", by, "parent-1", "decided") == (
        decision.reason,
        decision.decided_by,
        decision.responder,
        decision.code,
    )


@pytest.mark.parametrize("code", [None, 7, ["no_rule"], {}])
def test_a_code_that_is_no_text_is_ignored(code: object) -> None:
    assert ended(play(waiting(), (1, Answered(NO._replace(ours={"code": code}))))[0]).code == "decided"


def test_a_code_of_the_parent_is_kept() -> None:
    assert ended(play(waiting(), (1, Answered(NO._replace(ours={"code": "no_rule"}))))[0]).code == "no_rule"


def test_forwarded_for_ever_is_no_endless_loop() -> None:
    by: dict[str, object] = {"kind": "forwarded"}
    by["decision"] = by
    assert not ended(play(waiting(), (1, Answered(NO._replace(decided_by=by))))[0]).approved


def test_a_corrupt_response_is_a_denial_and_both_files_go() -> None:
    state, effects = play(waiting(), (1, Answered(Malformed("it is no JSON"))))
    decision = ended(state)
    assert (decision.approved, decision.code, decision.unavailable) == (False, "corrupt_response", True)
    assert effects == ["remove_request", "remove_response"]


def test_an_answer_counts_also_while_nobody_serves() -> None:
    assert ended(play(waiting(), (0, GONE), (1.9, GONE), (1.95, Answered(YES)))[0]).approved


# -- nobody there


def test_unserved_for_two_seconds_abandons() -> None:
    state, effects = play(waiting(), *[(t / 4, GONE) for t in range(8)])
    assert isinstance(state, Waiting) and effects == []
    state, effects = play(state, (2, GONE))
    decision = ended(state)
    assert (
        decision.approved,
        decision.state,
        decision.code,
        decision.unavailable,
    ) == (False, "denied", "not_serving", True)
    assert effects == ["remove_request"]


def test_the_refusal_names_session_evidence_and_age() -> None:
    reason = ended(play(waiting(), (0, GONE), (2, GONE))[0]).reason or ""
    assert "'parent-1'" in reason and "its process is gone" in reason and "1.5 s ago" in reason


def test_a_window_that_begins_late_is_as_long() -> None:
    assert isinstance(play(waiting(), (0, ALIVE), (100, GONE), (101.999, GONE))[0], Waiting)
    assert isinstance(play(waiting(), (0, ALIVE), (100, GONE), (102, GONE))[0], Done)


@pytest.mark.parametrize("reading", [ALIVE, UNKNOWABLE])
def test_any_reading_that_is_not_unserved_resets_the_window(reading: Judged) -> None:
    state, _ = play(waiting(), (0, GONE), (1.9, GONE), (1.95, reading), (2, GONE), (3.9, GONE))
    assert isinstance(state, Waiting)
    assert ended(play(state, (4, GONE))[0]).code == "not_serving"


def test_a_window_that_begins_at_clock_zero_ends() -> None:
    state: AskState = begin(TARGET, timeout_ms=1000, now=0)
    state, _ = step(state, GONE, now=0)
    state, _ = step(state, GONE, now=2 * SECOND)
    assert ended(state).code == "not_serving"


@pytest.mark.parametrize("seen", ["absent", "stale", "dead_pid", "unknown"])
@pytest.mark.parametrize("age", [None, 0, 6800])
def test_every_evidence_has_words(seen: str, age: int | None) -> None:
    judgement = Judgement("not_serving", "heartbeat", seen, age)  # type: ignore[arg-type]
    text = ask_reasons.not_serving("p", judgement).text
    assert "'p'" in text and ("last heartbeat" in text) is (age is not None)


# -- timeout, and somebody who looks


@pytest.mark.parametrize("reading", [ALIVE, UNKNOWABLE])
def test_served_and_never_answered_times_out(reading: Judged) -> None:
    state, effects = play(waiting(15_000), (14.999, reading))
    assert isinstance(state, Waiting) and effects == []
    state, effects = play(state, (15, reading))
    decision = ended(state)
    assert (
        decision.approved,
        decision.code,
        decision.unavailable,
        effects,
    ) == (False, "timeout", True, ["remove_request"])
    assert decision.reason == "session 'parent-1' did not answer within 15s"


def test_an_answer_at_the_deadline_counts() -> None:
    assert ended(play(waiting(15_000), (15, Answered(YES)), (15, ALIVE))[0]).approved


@pytest.mark.parametrize("every", [0.25, 10, 540])
def test_looked_at_for_nine_minutes_suspends_the_deadline(every: float) -> None:
    state: AskState = waiting(60_000)
    state, _ = play(state, (30, ALIVE), (30, LookedAt(True)))
    for n in range(1, round(540 / every) + 1):
        state, effects = play(state, (30 + n * every, LookedAt(True)), (30 + n * every, ALIVE))
        assert isinstance(state, Waiting) and effects == []
    state, _ = play(state, (570, LookedAt(False)), (570, ALIVE), (599.9, ALIVE))
    assert isinstance(state, Waiting)
    assert ended(play(state, (600, ALIVE))[0]).code == "timeout"


def test_looked_at_does_not_outlive_its_parent() -> None:
    assert ended(play(waiting(), (0, LookedAt(True)), (1, GONE), (3, GONE))[0]).code == "not_serving"


def test_not_looked_at_moves_nothing() -> None:
    state, _ = play(waiting(15_000), (5, LookedAt(False)), (10, LookedAt(False)), (15, ALIVE))
    assert ended(state).code == "timeout"


def test_looked_at_twice_adds_both() -> None:
    looks = [(1, LookedAt(True)), (3, LookedAt(False)), (5, LookedAt(True)), (9, LookedAt(False))]
    state, _ = play(waiting(15_000), *looks, (20.9, ALIVE))
    assert isinstance(state, Waiting)
    assert ended(play(state, (21, ALIVE))[0]).code == "timeout"


def test_a_clock_that_stands_back_takes_nothing_away() -> None:
    state, _ = play(waiting(15_000), (5, LookedAt(True)), (4, LookedAt(True)), (4, LookedAt(False)), (14.9, ALIVE))
    assert isinstance(state, Waiting)


# -- withdrawn, moved, late


def test_withdrawn_removes_the_request() -> None:
    state, effects = play(waiting(), (1, Withdrawn()))
    decision = ended(state)
    assert (
        decision.approved,
        decision.code,
        decision.unavailable,
        effects,
    ) == (False, "withdrawn", True, ["remove_request"])


def test_moved_goes_to_the_new_parent_with_a_fresh_window() -> None:
    other = Target("parent-2", "entry")
    state, effects = play(waiting(), (0, GONE), (1.9, GONE), (1.95, Moved(other)))
    assert isinstance(state, Waiting)
    assert (["remove_request", "write_request"], other) == (effects, state.target)
    state, _ = play(state, (2, GONE), (3.9, GONE))
    assert isinstance(state, Waiting)
    decision = ended(play(state, (4, GONE))[0])
    assert decision.code == "not_serving" and "'parent-2'" in (decision.reason or "")


def test_moved_keeps_the_deadline() -> None:
    state, _ = play(waiting(15_000), (10, Moved(Target("parent-2", "entry"))), (15, ALIVE))
    decision = ended(state)
    assert decision.code == "timeout" and "'parent-2'" in (decision.reason or "")


@pytest.mark.parametrize(
    "first", [Answered(YES), Answered(NO), Answered(Malformed("x")), Withdrawn()], ids=["yes", "no", "corrupt", "gone"]
)
@pytest.mark.parametrize(
    "late",
    [
        Answered(YES),
        Answered(NO),
        Answered(Malformed("x")),
        Withdrawn(),
        Moved(TARGET),
        LookedAt(True),
        LookedAt(False),
        ALIVE,
        GONE,
    ],
    ids=["yes", "no", "corrupt", "withdrawn", "moved", "looking", "away", "alive", "gone"],
)
def test_late_events_change_nothing(first: AskEvent, late: AskEvent) -> None:
    done, _ = play(waiting(), (1, first))
    assert (done, []) == play(done, (2, late), (10_000, late))


# -- words

REASONS = [
    ask_reasons.NO_TARGET,
    ask_reasons.WRITE_FAILED,
    ask_reasons.CORRUPT_RESPONSE,
    ask_reasons.TOO_LARGE,
    ask_reasons.WITHDRAWN,
    ask_reasons.directories("p"),
    *[
        ask_reasons.not_serving("p", Judgement("not_serving", "heartbeat", state, 10))
        for state in ("absent", "stale", "dead_pid", "unknown", "alive")
    ],
    ask_reasons.timeout("p", 15_000),
    ask_reasons.own_session("p"),
    ask_reasons.cycle("p"),
    ask_reasons.undecidable("p"),
    ask_reasons.expired("p"),
    ask_reasons.inbox_full("p", 9),
    ask_reasons.malformed("it is no JSON"),
    ask_reasons.misaddressed("p", "q"),
]


@pytest.mark.parametrize("reason", REASONS, ids=lambda r: r.code)
def test_no_reason_is_worded_as_a_users_refusal(reason: Reason) -> None:
    assert re.search(r"\b(user|human|person|den(y|ied)|refus\w*|reject\w*|declin\w*)\b", reason.text, re.I) is None
    decision = abandoned(reason)
    assert (False, True, reason.code, reason.text) == (
        decision.approved,
        decision.unavailable,
        decision.code,
        decision.reason,
    )
    assert decision.decided_by is None and decision.code != "decided"


def test_every_reason_has_a_code_of_its_own() -> None:
    codes = [r.code for r in REASONS if r.code != "not_serving"]
    assert len(set(codes)) == len(codes)


def test_the_table_of_reasons_is_complete() -> None:
    made = {n for n, f in vars(ask_reasons).items() if callable(f) and f is not Reason and n.islower()}
    constants = {n for n, r in vars(ask_reasons).items() if isinstance(r, Reason)}
    assert len(made | constants) == len({r.code for r in REASONS})
