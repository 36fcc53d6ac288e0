"""Whether a session serves: one judge, and certainty only where there is any."""

from __future__ import annotations

import json
from typing import Any

import pytest

from supervisor.core.serving import (
    Answer,
    Here,
    Judgement,
    ServingBeat,
    Source,
    State,
    encode_beat,
    judge,
    parse_beat,
)
from supervisor.core.timing import HEARTBEAT_STALE_MS, MS

HERE = Here(host_id="host", boot_id="boot", pid_namespace=11, wall_ms=1_796_037_821_059, monotonic_ns=10**15)


def ours(age_ms: float = 300, **changes: Any) -> ServingBeat:
    """A supervisor's beat of `age_ms` ago, by both clocks."""
    beat = ServingBeat(
        session_id="p",
        pid=200,
        updated_at=HERE.wall_ms - int(age_ms),
        start_ticks=777,
        boot_id="boot",
        host_id="host",
        pid_namespace=11,
        monotonic_ns=HERE.monotonic_ns - int(age_ms * MS),
        keeper_id="keeper-1",
    )
    return beat._replace(**changes)


def pis(age_ms: float = 300, **changes: Any) -> ServingBeat:
    """pi's bare record."""
    return ServingBeat("p", 200, HERE.wall_ms - age_ms)._replace(**changes)


STALE = HEARTBEAT_STALE_MS


@pytest.mark.parametrize("source", ["env", "entry"])
@pytest.mark.parametrize(
    ("beat", "ticks", "answer", "state", "age"),
    [
        pytest.param(None, None, "not_serving", "absent", None, id="absent"),
        pytest.param(None, 777, "not_serving", "absent", None, id="absent-whoever-runs"),
        pytest.param(ours(), 777, "serving", "alive", 300, id="fresh"),
        pytest.param(ours(0), 777, "serving", "alive", 0, id="just-now"),
        pytest.param(ours(STALE - 1), 777, "serving", "alive", STALE - 1, id="almost-stale"),
        pytest.param(ours(STALE), 777, "not_serving", "stale", STALE, id="stale"),
        pytest.param(ours(), None, "not_serving", "dead_pid", 300, id="dead-or-zombie"),
        pytest.param(ours(), 778, "not_serving", "dead_pid", 300, id="reused-pid"),
        pytest.param(ours(60_000), None, "not_serving", "dead_pid", 60_000, id="dead-and-stale"),
        pytest.param(ours(boot_id="old"), 777, "not_serving", "dead_pid", 300, id="other-boot"),
        pytest.param(ours(host_id="far"), None, "serving", "alive", 300, id="other-host-fresh"),
        pytest.param(ours(host_id="far", boot_id="far"), 1, "serving", "alive", 300, id="other-host-other-boot"),
        pytest.param(ours(STALE, host_id="far"), None, "not_serving", "stale", STALE, id="other-host-stale"),
        pytest.param(ours(pid_namespace=12), None, "serving", "alive", 300, id="other-namespace-fresh"),
        pytest.param(ours(STALE, pid_namespace=12), 777, "not_serving", "stale", STALE, id="other-namespace-stale"),
        pytest.param(ours(updated_at=HERE.wall_ms + 10**9), 777, "serving", "alive", 300, id="wall-set-back"),
        pytest.param(ours(updated_at=0), 777, "serving", "alive", 300, id="wall-set-forward"),
        pytest.param(
            ours(STALE, updated_at=HERE.wall_ms), 777, "not_serving", "stale", STALE, id="monotonic-counts-not-wall"
        ),
        pytest.param(
            ours(host_id="far", updated_at=HERE.wall_ms + 1), None, "not_serving", "unknown", None, id="far-future"
        ),
        pytest.param(pis(), 5, "serving", "alive", 300, id="pi-fresh"),
        pytest.param(pis(0), 5, "serving", "alive", 0, id="pi-just-now"),
        pytest.param(pis(STALE), 5, "not_serving", "stale", STALE, id="pi-stale"),
        pytest.param(pis(), None, "not_serving", "dead_pid", 300, id="pi-dead-or-zombie"),
        pytest.param(pis(-1), 5, "not_serving", "unknown", None, id="pi-future"),
        pytest.param(pis(-1), None, "not_serving", "dead_pid", None, id="pi-future-and-dead"),
        pytest.param(
            pis(updated_at=HERE.wall_ms // 1000), 5, "not_serving", "stale", HERE.wall_ms - HERE.wall_ms // 1000,
            id="pi-seconds",
        ),
    ],
)  # fmt: skip
def test_by_heartbeat_and_identity(
    source: Source, beat: ServingBeat | None, ticks: int | None, answer: Answer, state: State, age: int | None
) -> None:
    assert Judgement(answer, "heartbeat", state, age) == judge(source, beat=beat, ticks=ticks, here=HERE)


@pytest.mark.parametrize("beat", [None, ours(), ours(60_000)])
def test_the_registry_alone_judges_its_own(beat: ServingBeat | None) -> None:
    yes = judge("registry", registered=True, beat=beat, here=HERE)
    no = judge("registry", registered=False, beat=beat, ticks=777, here=HERE)
    assert (Judgement("serving", "registry", "alive"), Judgement("not_serving", "registry", "absent")) == (yes, no)


@pytest.mark.parametrize("beat", [None, ours(), ours(60_000)])
@pytest.mark.parametrize("registered", [True, False])
def test_oneself_is_not_judged(beat: ServingBeat | None, registered: bool) -> None:
    seen = judge("self", registered=registered, beat=beat, ticks=777, here=HERE)
    assert Judgement("not_judgeable", "none", "unknown") == seen


@pytest.mark.parametrize("source", ["env", "entry"])
def test_a_registration_says_nothing_about_another_process(source: Source) -> None:
    assert judge(source, registered=True, here=HERE).answer == "not_serving"


# -- the record


def test_our_beat_is_read_as_it_was_written() -> None:
    assert ours() == parse_beat(encode_beat(ours()))


def test_every_beat_of_one_session_is_as_wide() -> None:
    widths = {
        len(encode_beat(ours(updated_at=at, monotonic_ns=ns, pid=pid)))
        for at, ns, pid in [(0, 0, 1), (10**13, 10**18, 4194304), (1, 5, 99)]
    }
    assert len(widths) == 1


def test_pi_reads_its_three_fields_in_ours() -> None:
    raw = json.loads(encode_beat(ours()))
    assert ("p", 200, HERE.wall_ms - 300) == (raw["sessionId"], raw["pid"], raw["updatedAt"])


def test_pis_bare_record() -> None:
    data = b'{"sessionId":"made-up-parent-1","pid":25802,"updatedAt":1796037821059}'
    assert ServingBeat("made-up-parent-1", 25802, 1796037821059) == parse_beat(data)


RECORD: dict[str, Any] = {"sessionId": "p", "pid": 200, "updatedAt": 1796037821059}


@pytest.mark.parametrize(
    "changes",
    [
        {"sessionId": ""},
        {"sessionId": None},
        {"sessionId": 1},
        {"sessionId": ["p"]},
        {"pid": 0},
        {"pid": -1},
        {"pid": "200"},
        {"pid": True},
        {"pid": 200.5},
        {"pid": None},
        {"updatedAt": None},
        {"updatedAt": "now"},
        {"updatedAt": True},
        {"updatedAt": []},
        {"updatedAt": float("nan")},
        {"updatedAt": float("inf")},
        {"updatedAt": float("-inf")},
    ],
    ids=repr,
)
def test_a_malformed_record_is_absent(changes: dict[str, Any]) -> None:
    assert parse_beat(json.dumps({**RECORD, **changes}).encode()) is None


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"NaN", b"-Infinity"])
def test_a_time_that_is_not_finite_is_absent(number: bytes) -> None:
    assert parse_beat(b'{"sessionId":"p","pid":200,"updatedAt":' + number + b"}") is None


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b"\xff", b"\0" * 200, b"[" * 100_000, b'{"a":' * 100_000],
    ids=lambda d: ascii(d[:9]),
)
def test_broken_bytes_are_absent(data: bytes) -> None:
    assert parse_beat(data) is None


@pytest.mark.parametrize("value", [None, "x", True, 1.5, [], {}], ids=repr)
def test_fields_of_ours_of_another_type_read_as_pis_record(value: object) -> None:
    wrong = dict.fromkeys(("startTicks", "pidNamespace", "monotonicNs"), value)
    names = dict.fromkeys(("bootId", "hostId", "keeperId"), 7)
    assert ServingBeat("p", 200, 1796037821059) == parse_beat(json.dumps({**RECORD, **wrong, **names}).encode())


@pytest.mark.parametrize("number", [0, -1, 10**400, -(10**400), 1e308, -1e308, 2**63], ids=lambda n: repr(n)[:9])
@pytest.mark.parametrize("key", ["pid", "updatedAt", "startTicks", "pidNamespace", "monotonicNs"])
def test_no_number_makes_the_judge_raise(key: str, number: float) -> None:
    raw = json.loads(encode_beat(ours()))
    beat = parse_beat(json.dumps({**raw, key: number}).encode())
    for ticks in (None, 777):
        judge("env", beat=beat, ticks=ticks, here=HERE)
    if beat is not None:
        judge("env", beat=beat._replace(host_id="far"), ticks=777, here=HERE)
