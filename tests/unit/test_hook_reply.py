"""What the hook prints: the CLIs' verified replies, and never an allow that nobody gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisor.core.ask_reasons import NO_TARGET, WITHDRAWN, undecidable
from supervisor.core.asks import Decision, abandoned
from supervisor.hook.__main__ import LAST_RESORT
from supervisor.hook.event import SessionStarted, parse
from supervisor.hook.reply import reply
from supervisor.runtime.tool_use import PermissionAsk

DATA = Path(__file__).parent.parent / "data" / "hook"
ALLOWED = Decision(approved=True, state="approved", responder="p-1", decided_by={"kind": "user", "via": "select"})
BASH = (DATA / "claude-PermissionRequest-Bash.stdin.json").read_bytes()


def said(text: str) -> Any:
    assert text.endswith("\n") and text.count("\n") == 1
    return json.loads(text)


def message(text: str) -> str:
    decision = said(text)["hookSpecificOutput"]["decision"]
    assert decision.keys() == {"behavior", "message"}, "never interrupt, never updatedInput"
    assert decision["behavior"] == "deny"
    return str(decision["message"])


def denied(reason: str | None, by: Any = None, **more: Any) -> Decision:
    return Decision(approved=False, state="denied", reason=reason, responder="p-1", decided_by=by, **more)


@pytest.mark.parametrize("name", sorted(p.name for p in DATA.glob("*PermissionRequest*.stdin.json")))
def test_an_approved_request_gets_the_verified_allow(name: str) -> None:
    cli = name.split("-")[0]
    expected = json.loads((DATA / f"{cli}-PermissionRequest.reply-allow.json").read_text())
    assert said(reply((DATA / name).read_bytes(), decide=lambda _wanted: ALLOWED)) == expected


@pytest.mark.parametrize("name", sorted(p.name for p in DATA.glob("*PermissionRequest*.stdin.json")))
def test_a_denied_request_gets_the_verified_deny_with_its_reason(name: str) -> None:
    cli = name.split("-")[0]
    expected = json.loads((DATA / f"{cli}-PermissionRequest.reply-deny.json").read_text())
    expected["hookSpecificOutput"]["decision"]["message"] = "denied by the user at session 'p-1': not today"
    decision = denied("not today", {"kind": "user", "via": "select"})
    assert said(reply((DATA / name).read_bytes(), decide=lambda _wanted: decision)) == expected


@pytest.mark.parametrize("name", sorted(p.name for p in DATA.glob("*.stdin.json") if "Permission" not in p.name))
def test_every_other_event_prints_nothing_and_asks_nobody(name: str) -> None:
    def never(_wanted: PermissionAsk) -> Decision:
        raise AssertionError("asked")

    proven: list[SessionStarted] = []
    assert reply((DATA / name).read_bytes(), decide=never, prove=proven.append) == ""
    assert len(proven) == ("SessionStart" in name)


def test_nothing_is_printed_when_nobody_needs_the_answer() -> None:
    assert reply(BASH, decide=lambda _wanted: None) == ""


@pytest.mark.parametrize(
    ("by", "who"),
    [
        ({"kind": "user", "via": "dialog"}, "denied by the user at session 'p-1': no"),
        (
            {"kind": "rule", "surface": "bash", "pattern": "*", "origin": "root"},
            "denied by a rule of session 'root': no",
        ),
        ({"kind": "rule", "surface": "bash", "pattern": "*", "origin": None}, "denied by a rule at session 'p-1': no"),
        ({"kind": "authorizer", "name": "guard", "verdict": "deny"}, "denied by guard at session 'p-1': no"),
        (
            {"kind": "forwarded", "responderSessionId": "top", "decision": {"kind": "user", "via": "dialog"}},
            "denied by the user at session 'top': no",
        ),
        (None, "denied by session 'p-1': no"),
        ({"kind": 7}, "denied by session 'p-1': no"),
        (["user"], "denied by session 'p-1': no"),
    ],
)
def test_a_denial_says_who_decided(by: Any, who: str) -> None:
    assert message(reply(BASH, decide=lambda _wanted: denied("no", by))) == who


def test_a_denial_without_a_reason_says_that_there_is_none() -> None:
    decision = denied(None, {"kind": "user"})
    assert message(reply(BASH, decide=lambda _wanted: decision)).endswith("no reason was given")


@pytest.mark.parametrize(
    "decision",
    [
        abandoned(NO_TARGET),
        abandoned(WITHDRAWN),
        abandoned(undecidable("p-1")),
        denied("the dialog broke", {"kind": "gate_error", "reason": "the dialog broke"}),
        denied("x", {"kind": "forwarded", "responderSessionId": "t", "decision": {"kind": "unavailable"}}),
        denied(None, unavailable=True),
    ],
)
def test_what_nobody_decided_is_never_worded_as_a_refusal(decision: Decision) -> None:
    told = message(reply(BASH, decide=lambda _wanted: decision))
    assert told.startswith(f"not decided: {decision.reason or 'nobody could decide'}")
    assert told.endswith("; this is not a refusal by the user")


def test_a_hostile_reason_is_harmless_and_bounded() -> None:
    told = message(
        reply(BASH, decide=lambda _wanted: denied("\x1b[2J\0\u202e\ud800" + "x" * 100_000, {"kind": "user"}))
    )
    assert told.isprintable()
    assert len(told) <= 8_000


@pytest.mark.parametrize("approved", [1, "true", object(), {"approved": True}])
def test_only_true_is_an_approval(approved: Any) -> None:
    assert message(reply(BASH, decide=lambda _wanted: ALLOWED._replace(approved=approved)))


@pytest.mark.parametrize("error", [RuntimeError("secret"), MemoryError(), RecursionError(), OSError(28, "full")])
def test_a_hook_that_breaks_denies_and_shows_no_inside(error: Exception) -> None:
    def broken(_wanted: PermissionAsk) -> Decision:
        raise error

    told = message(reply(BASH, decide=broken))
    assert type(error).__name__ in told
    assert "secret" not in told


def test_a_proof_that_breaks_never_becomes_an_allow() -> None:
    def broken(_started: SessionStarted) -> None:
        raise RuntimeError

    data = (DATA / "claude-SessionStart.stdin.json").read_bytes()
    assert "allow" not in reply(data, decide=lambda _wanted: ALLOWED, prove=broken)


def test_the_last_resort_is_a_denial() -> None:
    assert message(LAST_RESORT.decode()).startswith("not decided: ")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("PermissionRequest"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["hook_event_name", "tool_name", "tool_input", "command", "cwd", "file_path"]) | st.text(),
            inner,
        )
    ),
    max_leaves=10,
)
events = st.fixed_dictionaries(
    {},
    optional={
        "hook_event_name": st.sampled_from(["PermissionRequest", "SessionStart", "Stop", "permissionrequest"])
        | json_values,
        "tool_name": st.sampled_from(["Bash", "Write", "mcp__a__b"]) | json_values,
        "tool_input": st.fixed_dictionaries({"command": st.text() | json_values}) | json_values,
        "cwd": st.just("/w") | json_values,
        "session_id": json_values,
        "transcript_path": json_values,
        "agent_id": json_values,
        "source": json_values,
    },
)


@st.composite
def mangled(draw: st.DrawFn) -> bytes:
    """Events of the right shape with wrong parts, then cut or with foreign bytes."""
    data = json.dumps(draw(events | json_values)).encode()
    at = draw(st.integers(0, len(data)))
    return draw(st.sampled_from([data, data[:at], data[:at] + draw(st.binary(max_size=5)) + data[at:], data * 2]))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary() | mangled())
def test_no_bytes_yield_an_allow_without_an_allow_decision(data: bytes) -> None:
    decision = denied("no", {"kind": "user"})
    out = reply(data, decide=lambda _wanted: decision)
    assert out == "" or message(out)

    permitted = reply(data, decide=lambda _wanted: ALLOWED)
    assert ('"allow"' in permitted) == isinstance(parse(data), PermissionAsk)


@settings(max_examples=200, deadline=None)
@given(
    st.builds(
        Decision,
        approved=st.booleans(),
        state=st.text(),
        reason=st.none() | st.text(st.characters()),
        code=st.text(),
        unavailable=st.booleans(),
        responder=st.none() | st.text(st.characters()),
        decided_by=json_values,
    )
)
def test_every_decision_becomes_one_well_formed_reply(decision: Decision) -> None:
    out = said(reply(BASH, decide=lambda _wanted: decision))
    assert (out["hookSpecificOutput"]["decision"]["behavior"] == "allow") == decision.approved
