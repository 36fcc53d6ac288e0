"""Any bytes, any order of events: exactly one decision, and no allow that nobody has given."""

from __future__ import annotations

import json
import os
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.ask_wire import (
    Malformed,
    Request,
    encode_request,
    parse_request,
    parse_response,
    valid_id,
)
from supervisor.core.asks import (
    Answered,
    AskEvent,
    AskState,
    Done,
    Judged,
    LookedAt,
    Moved,
    Waiting,
    Withdrawn,
    begin,
    step,
)
from supervisor.core.serving import Here, Judgement, Target, judge, parse_beat
from supervisor.core.timing import MS

TIMEOUT_MS = 5_000
TEXT = st.text(max_size=8) | st.sampled_from(["..", "../../x", "a\0", "a\n", "\ud800", "me", "approved", "denied"])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
JSON: st.SearchStrategy[Any] = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6
)
STATES = ["approved", "approved_for_session", "approved_for_serving_session", "denied", "denied_with_reason", "yes"]


def bent(base: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """An object with some of its parts replaced, or cut off, or any bytes at all."""
    keys = st.sampled_from([*base, "supervisor", "decidedBy", "payload", "source", "denialReason", "accessIntent"])
    whole = st.dictionaries(keys, JSON, max_size=3).map(lambda parts: json.dumps({**base, **parts}).encode())
    cut = st.tuples(whole, st.integers(0, 200)).map(lambda p: p[0][: p[1]])
    return whole | cut | JSON.map(lambda v: json.dumps(v).encode()) | st.binary(max_size=60)


RESPONSES = st.one_of(
    st.tuples(st.booleans(), st.sampled_from(STATES) | JSON).map(
        lambda p: json.dumps({"approved": p[0], "state": p[1], "responderSessionId": "p"}).encode()
    ),
    bent({"approved": True, "state": "approved", "responderSessionId": "p"}),
)
JUDGEMENTS = st.builds(
    Judgement,
    st.sampled_from(["serving", "not_serving", "not_judgeable"]),
    st.sampled_from(["registry", "heartbeat", "none"]),
    st.sampled_from(["alive", "absent", "stale", "dead_pid", "unknown"]),
    st.none() | st.integers(0, 10**9),
)
EVENTS = st.one_of(
    RESPONSES,
    JUDGEMENTS.map(Judged),
    JUDGEMENTS.map(Judged),
    st.booleans().map(LookedAt),
    st.just(Withdrawn()),
    st.sampled_from(["p", "q"]).map(lambda s: Moved(Target(s, "entry"))),
)
STEPS = st.lists(st.tuples(st.integers(0, 3_000), EVENTS), max_size=20)


@given(STEPS)
def test_exactly_one_decision_and_no_allow_without_an_approved_response(
    steps: list[tuple[int, AskEvent | bytes]],
) -> None:
    now, state, decisions = 0, begin(Target("p", "env"), timeout_ms=TIMEOUT_MS, now=0), 0
    alive = Judged(Judgement("serving", "heartbeat", "alive", 0))
    horizon = sum(ms for ms, _ in steps) + TIMEOUT_MS  # however long somebody looked, then nobody does
    end: list[tuple[int, AskEvent | bytes]] = [(0, LookedAt(False)), (horizon, alive), (0, alive)]
    current: AskState = state
    for ms, given_event in (*steps, *end):
        now += ms * MS
        event = Answered(parse_response(given_event)) if isinstance(given_event, bytes) else given_event
        after, effects = step(current, event, now=now)
        if isinstance(current, Done):
            assert after == current and effects == ()
        elif isinstance(after, Done):
            decisions += 1
            assert "remove_request" in effects
            assert after.decision.approved is (isinstance(given_event, bytes) and approves(given_event))
            assert not (after.decision.approved and after.decision.unavailable)
        else:
            assert not isinstance(event, Answered | Withdrawn)
        current = after
    assert isinstance(current, Done) and decisions == 1


def approves(data: bytes) -> bool:
    """Told without our own parser."""
    try:
        raw = json.loads(data, parse_constant=no_constant)
    except ValueError:
        return False
    if not isinstance(raw, dict) or raw.get("approved") is not True:
        return False
    state = raw.get("state")
    return isinstance(state, str) and state in STATES[:3] and isinstance(raw.get("responderSessionId"), str)


def no_constant(name: str) -> Any:
    raise ValueError(name)


BASE = {
    "id": "perm-1",
    "createdAt": 1,
    "requesterSessionId": "c",
    "targetSessionId": "p",
    "requesterAgentName": "scout",
    "message": "m",
}
STEMS = st.sampled_from(["perm-1", "..", ".", "", "../../x", "a\0b", "a\nb", "a/b"]) | st.text(max_size=12)


@given(bent(BASE), STEMS)
def test_any_bytes_as_a_request_never_raise_and_never_lead_outside_the_inbox(data: bytes, stem: str) -> None:
    parsed = parse_request(data, stem=stem)
    assert isinstance(parsed, Request | Malformed)
    if parsed.id is None:
        assert isinstance(parsed, Malformed) and not valid_id(stem)
        return
    assert parsed.id == stem
    inbox = "/root/sessions/p/requests"
    path = f"{inbox}/{parsed.id}.json"
    assert "\0" not in path and os.path.normpath(path) == path and os.path.dirname(path) == inbox


@given(bent(BASE))
def test_what_was_taken_can_be_passed_on(data: bytes) -> None:
    parsed = parse_request(data, stem="perm-1")
    if isinstance(parsed, Request):
        again = parse_request(encode_request(parsed), stem="perm-1")
        assert isinstance(again, Request) and again.id == parsed.id


@given(bent({"sessionId": "p", "pid": 5, "updatedAt": 1, "hostId": "h", "bootId": "b", "monotonicNs": 1}))
def test_any_bytes_as_a_beat_never_raise(data: bytes) -> None:
    here = Here(host_id="h", boot_id="b", pid_namespace=1, wall_ms=10, monotonic_ns=10)
    for ticks in (None, 1):
        assert isinstance(judge("env", beat=parse_beat(data), ticks=ticks, here=here), Judgement)


@given(STEPS)
def test_served_and_looked_at_is_never_given_up_for_time(steps: list[tuple[int, AskEvent | bytes]]) -> None:
    now, state = 0, step(begin(Target("p", "env"), timeout_ms=TIMEOUT_MS, now=0), LookedAt(True), now=0)[0]
    for ms, _ in steps:
        now += ms * MS
        state = step(state, LookedAt(True), now=now)[0]
        state = step(state, Judged(Judgement("serving", "heartbeat", "alive", 0)), now=now)[0]
    assert isinstance(state, Waiting) and state.deadline - now == TIMEOUT_MS * MS
