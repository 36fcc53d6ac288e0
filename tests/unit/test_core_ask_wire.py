"""The wire: pi's files parse, ours are readable by pi, and on doubt nothing is allowed."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.ask_wire import (
    MAX_BYTES,
    MAX_HOPS,
    Malformed,
    Request,
    Response,
    approval_pattern,
    build_request,
    encode_request,
    encode_response,
    hops_of,
    parse_request,
    parse_response,
    valid_id,
)

PI = Path(__file__).parent.parent / "data" / "pi"
REQUESTS = sorted(PI.glob("request-*.json"))
RESPONSES = sorted(PI.glob("response-*.json"))
REQUEST = {
    "id": "perm-1",
    "createdAt": 1796037648295,
    "requesterSessionId": "child-1",
    "targetSessionId": "parent-1",
    "requesterAgentName": "scout",
}
RESPONSE = {"approved": True, "state": "approved", "responderSessionId": "parent-1"}
ABSENT = Ellipsis  # its name is the same in every process, as parallel test runners need
WRONG_TYPES: list[Any] = [None, True, False, 0, 1.5, "", "x", [], ["x"], {}, {"a": []}]


def request(**changes: Any) -> Request | Malformed:
    body = {k: v for k, v in {**REQUEST, **changes}.items() if v is not ABSENT}
    return parse_request(json.dumps(body).encode(), stem="perm-1")


def response(**changes: Any) -> Response | Malformed:
    body = {k: v for k, v in {**RESPONSE, **changes}.items() if v is not ABSENT}
    return parse_response(json.dumps(body).encode())


# -- pi's own files


def test_there_are_fixtures() -> None:
    assert (len(REQUESTS), len(RESPONSES)) == (1, 7)


@pytest.mark.parametrize("path", REQUESTS, ids=lambda p: p.stem)
def test_every_request_of_pi_parses(path: Path) -> None:
    data = path.read_bytes().strip()
    raw = json.loads(data)
    parsed = parse_request(data, stem=raw["id"])
    assert isinstance(parsed, Request)
    assert (raw["targetSessionId"], raw["surface"], raw["value"], raw["message"]) == (
        parsed.target,
        parsed.surface,
        parsed.value,
        parsed.message,
    )
    assert raw["sessionApproval"] == parsed.session_approval
    assert data == encode_request(parsed)


@pytest.mark.parametrize("path", RESPONSES, ids=lambda p: p.stem)
def test_every_response_of_pi_parses(path: Path) -> None:
    data = path.read_bytes().strip()
    raw = json.loads(data)
    parsed = parse_response(data)
    assert isinstance(parsed, Response)
    assert (raw["approved"], raw["state"], raw.get("denialReason"), raw["respondedAt"]) == (
        parsed.approved,
        parsed.state,
        parsed.reason,
        parsed.responded_at,
    )
    assert data == encode_response(parsed), "a real parent's order of keys"


def test_the_ids_in_pis_logs_are_ids() -> None:
    lines = [line for path in PI.glob("*.jsonl") for line in path.read_text().splitlines()]
    ids = [Path(path).stem for line in lines if (path := json.loads(line).get("requestPath"))]
    assert ids and all(valid_id(ask_id) for ask_id in ids)


# -- ids

HOSTILE = [
    "",
    ".",
    "..",
    "../../x",
    "../x",
    "a/b",
    "/etc/x",
    "a\\b",
    "a\0b",
    "a\0",
    "a\n",
    "\na",
    "a b",
    ".hidden",
    "é",
    "%2e%2e",
    "a" * 129,
    "-\r",
    "a\u2028",
    "\ud800",
]


@pytest.mark.parametrize("ask_id", HOSTILE, ids=ascii)
def test_a_hostile_id_is_refused_whatever_the_file_is_called(ask_id: str) -> None:
    assert not valid_id(ask_id)
    assert isinstance(request(id=ask_id), Malformed)
    data = json.dumps({**REQUEST, "id": ask_id}).encode()
    assert Malformed("its file name is no ask id") == parse_request(data, stem=ask_id)


@pytest.mark.parametrize("ask_id", ["perm-1x", "perm-", "PERM-1", " perm-1", *WRONG_TYPES, ABSENT], ids=repr)
def test_an_id_that_is_not_the_stem_is_answered_under_the_stem(ask_id: object) -> None:
    parsed = request(id=ask_id)
    assert isinstance(parsed, Malformed) and parsed.id == "perm-1"


@pytest.mark.parametrize("ask_id", ["a", "perm-1", "_", "-", "1796038106742-zi4qghxm-9046", "a.b", "a..", "a" * 128])
def test_a_plain_id_is_one(ask_id: str) -> None:
    assert valid_id(ask_id)


@pytest.mark.parametrize("ask_id", [None, 1, b"a", ["a"], {}], ids=repr)
def test_what_is_no_text_is_no_id(ask_id: object) -> None:
    assert not valid_id(ask_id)


# -- broken bytes

BROKEN = [
    b"",
    b" ",
    b"\0",
    b"{",
    b"[]",
    b"null",
    b"true",
    b'"x"',
    b"1",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\x80",
    b'{"approved":NaN}',
    b"NaN",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"[" * 100_000 + b"]" * 100_000,
    b"1" * 10_000,
    b" " * (MAX_BYTES + 1),
]


@pytest.mark.parametrize("data", BROKEN, ids=lambda d: ascii(d[:12]))
def test_broken_bytes_are_malformed(data: bytes) -> None:
    assert isinstance(parse_response(data), Malformed)
    parsed = parse_request(data, stem="perm-1")
    assert isinstance(parsed, Malformed) and parsed.id == "perm-1"


def test_every_truncation_is_malformed() -> None:
    whole = json.dumps(RESPONSE).encode()
    assert all(isinstance(parse_response(whole[:n]), Malformed) for n in range(len(whole)))
    whole = json.dumps(REQUEST).encode()
    assert all(isinstance(parse_request(whole[:n], stem="perm-1"), Malformed) for n in range(len(whole)))


def test_the_bound_is_exact() -> None:
    data = json.dumps(RESPONSE).encode().ljust(MAX_BYTES)
    assert isinstance(parse_response(data), Response)
    assert isinstance(parse_response(data + b" "), Malformed)


@pytest.mark.parametrize("depth", [64, 500, 900, 980, 20_000, 200_000])
def test_nesting_inside_a_part_that_is_passed_on_never_raises(depth: int) -> None:
    """What was parsed with a short stack is encoded with a longer one."""
    body = json.dumps({**REQUEST, "payload": "@"}).replace('"@"', '{"a":' * depth + "1" + "}" * depth)
    parsed = parse_request(body.encode(), stem="perm-1")
    assert isinstance(parsed, Malformed) or _deeper(50, parsed)


def test_the_deepest_that_parses_can_be_passed_on_from_deeper_in_the_stack() -> None:
    for depth in range(1000, 0, -5):
        body = json.dumps({**REQUEST, "payload": "@"}).replace('"@"', '{"a":' * depth + "1" + "}" * depth)
        parsed = parse_request(body.encode(), stem="perm-1")
        if isinstance(parsed, Request):
            assert _deeper(50, parsed)
            return


def _deeper(frames: int, parsed: Request) -> bytes:
    return _deeper(frames - 1, parsed) if frames else encode_request(parsed)


@pytest.mark.parametrize("part", ["payload", "accessIntent", "sessionApproval", "supervisor"])
def test_a_number_past_floats_is_not_passed_on_as_what_is_no_json(part: str) -> None:
    body = json.dumps({**REQUEST, part: {"n": "@"}}).replace('"@"', "1e999")
    parsed = parse_request(body.encode(), stem="perm-1")
    if isinstance(parsed, Request):
        assert isinstance(parse_request(encode_request(parsed), stem="perm-1"), Request)


# -- requests of wrong types


@pytest.mark.parametrize("key", ["requesterSessionId", "targetSessionId", "requesterAgentName"])
@pytest.mark.parametrize("value", [v for v in [*WRONG_TYPES, ABSENT] if not isinstance(v, str)], ids=repr)
def test_a_needed_text_of_another_type_is_malformed(key: str, value: object) -> None:
    parsed = request(**{key: value})
    assert isinstance(parsed, Malformed) and parsed.id == "perm-1" and key in parsed.why


@pytest.mark.parametrize("value", ["now", "1", None, True, False, [], {}, 2**63, -(2**63), 1e300, ABSENT], ids=repr)
def test_a_creation_time_that_is_none_is_malformed(value: object) -> None:
    assert isinstance(request(createdAt=value), Malformed)


@pytest.mark.parametrize(("value", "expected"), [(0, 0), (1.9, 1), (-5, -5), (2**63 - 1, 2**63 - 1)])
def test_a_creation_time_is_a_number(value: float, expected: int) -> None:
    parsed = request(createdAt=value)
    assert isinstance(parsed, Request) and parsed.created_at == expected


OPTIONAL: dict[str, tuple[str, Any]] = {
    "message": ("message", ""),
    "source": ("source", "tool_call"),
    "surface": ("surface", None),
    "value": ("value", None),
    "payload": ("payload", None),
    "accessIntent": ("access_intent", None),
    "sessionApproval": ("session_approval", None),
    "supervisor": ("ours", {}),
}


@pytest.mark.parametrize("key", OPTIONAL)
@pytest.mark.parametrize("value", [*WRONG_TYPES, ABSENT], ids=repr)
def test_an_optional_part_of_another_type_is_dropped_and_the_request_stands(key: str, value: object) -> None:
    parsed = request(**{key: value})
    assert isinstance(parsed, Request)
    name, default = OPTIONAL[key]
    wanted = dict if key in ("payload", "accessIntent", "sessionApproval", "supervisor") else str
    kept = isinstance(value, wanted) and key != "source"
    assert (value if kept else default) == getattr(parsed, name)


@pytest.mark.parametrize("source", ["tool_call", "skill_input", "skill_read"])
def test_known_sources_are_kept(source: str) -> None:
    parsed = request(source=source)
    assert isinstance(parsed, Request) and parsed.source == source


def test_unknown_fields_are_ignored_and_the_target_is_trimmed() -> None:
    parsed = request(unknown=[1], targetSessionId=" parent-1\n")
    assert isinstance(parsed, Request) and parsed.target == "parent-1"


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        ({}, ()),
        ({"hops": []}, ()),
        ({"hops": ["a", "b"]}, ("a", "b")),
        ({"hops": ["a"] * MAX_HOPS}, ("a",) * MAX_HOPS),
    ],
)
def test_hops_in_order(ours: dict[str, Any], expected: tuple[str, ...]) -> None:
    parsed = request(supervisor=ours)
    assert isinstance(parsed, Request) and hops_of(parsed) == expected


@pytest.mark.parametrize("hops", [None, "a", 1, {}, ["a", 1], [None], [[]], ["a"] * (MAX_HOPS + 1)], ids=repr)
def test_malformed_hops_are_endless(hops: object) -> None:
    parsed = request(supervisor={"hops": hops})
    assert isinstance(parsed, Request) and len(hops_of(parsed)) > MAX_HOPS


# -- responses


@pytest.mark.parametrize("approved", [True, False])
@pytest.mark.parametrize(
    "state",
    ["approved", "approved_for_session", "approved_for_serving_session", "denied", "denied_with_reason"],
)
def test_approved_and_state_have_to_agree(approved: bool, state: str) -> None:
    parsed = response(approved=approved, state=state)
    if approved == state.startswith("approved"):
        assert isinstance(parsed, Response) and (parsed.approved, parsed.state) == (approved, state)
    else:
        assert isinstance(parsed, Malformed)


@pytest.mark.parametrize("value", [None, 0, 1, "true", "", [], [True], {}, 1.0, ABSENT], ids=repr)
def test_approved_is_a_boolean_and_nothing_else(value: object) -> None:
    assert isinstance(response(approved=value), Malformed)


@pytest.mark.parametrize(
    "value",
    ["Approved", "approved ", "approved_for_ever", "approve", "", None, True, 1, [], ["approved"], {}, ABSENT],
    ids=repr,
)
def test_an_unknown_state_is_malformed(value: object) -> None:
    assert isinstance(response(state=value), Malformed)


@pytest.mark.parametrize("value", [None, 1, [], {}, ABSENT], ids=repr)
def test_a_responder_is_needed(value: object) -> None:
    assert isinstance(response(responderSessionId=value), Malformed)


def test_another_responder_is_accepted() -> None:
    parsed = response(responderSessionId="someone-else")
    assert isinstance(parsed, Response) and parsed.responder == "someone-else"


@pytest.mark.parametrize("value", WRONG_TYPES, ids=repr)
def test_optional_parts_of_a_response_are_dropped(value: object) -> None:
    parsed = response(denialReason=value, respondedAt=value, decidedBy=value, supervisor=value)
    assert isinstance(parsed, Response)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    assert (
        value if isinstance(value, str) else None,
        int(value) if number else 0,  # type: ignore[call-overload]
        value if isinstance(value, dict) else None,
        value if isinstance(value, dict) else {},
    ) == (parsed.reason, parsed.responded_at, parsed.decided_by, parsed.ours)


def test_a_repeated_key_decides_by_its_last_and_still_has_to_agree() -> None:
    assert isinstance(
        parse_response(b'{"approved":true,"approved":false,"state":"approved","responderSessionId":"p"}'), Malformed
    )


# -- ours


def built(value: str = "echo *", tool: str = "bash") -> Request:
    return build_request(
        "perm-1",
        now=5,
        requester="child-1",
        target="parent-1",
        agent_name="scout",
        tool=tool,
        value=value,
        cwd="/w",
        ours={"hops": ["a"]},
    )


@pytest.mark.parametrize("tool", ["bash", "write"])
def test_our_request_is_read_as_it_was_built(tool: str) -> None:
    made = built(tool=tool)
    assert made == parse_request(encode_request(made), stem="perm-1")


def test_our_request_has_all_that_any_reader_of_pi_asks_for() -> None:
    raw = json.loads(encode_request(built()))
    assert raw["message"] and set(raw["payload"]) == {"kind", "request", "evidence", "annotations"}
    assert set(raw["payload"]["request"]) == {
        "requester",
        "surface",
        "toolName",
        "invokedToolName",
        "value",
        "matchedPattern",
        "commandContext",
        "executedUnit",
    }
    assert set(raw["accessIntent"]) == {"surface", "matchValues", "boundaryValue", "requesterCwd", "principal"}
    assert all(set(e) == {"label", "text", "detail"} for e in raw["payload"]["evidence"])


@pytest.mark.parametrize("approved", [True, False])
def test_our_response_is_read_as_it_was_built(approved: bool) -> None:
    made = Response(
        approved=approved,
        state="approved" if approved else "denied_with_reason",
        responder="p",
        reason=None if approved else "a\nb é \u2028",
        responded_at=7,
        decided_by={"kind": "user", "via": "select"},
        ours={"code": "decided"},
    )
    assert made == parse_response(encode_response(made))


def test_lone_surrogates_do_not_stop_an_answer() -> None:
    made = Response(approved=False, state="denied_with_reason", responder="p", reason="\ud800")
    parsed = parse_response(encode_response(made))
    assert isinstance(parsed, Response) and not parsed.approved
    assert isinstance(parse_request(encode_request(built("\udcff")), stem="perm-1"), Request)


@pytest.mark.parametrize("value", ["echo *", "ls [a-z]?", "a]b[c", "[!x]", "plain", "**", "\n*"])
def test_the_remembered_pattern_is_exactly_the_value(value: str) -> None:
    pattern = approval_pattern(value)
    assert fnmatchcase(value, pattern)
    assert not any(
        fnmatchcase(other, pattern) for other in (value + "x", "x" + value, value.replace("*", "rm")) if other != value
    )
