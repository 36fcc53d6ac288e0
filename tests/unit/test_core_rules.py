"""Rules and remembered approvals: the last match wins, an ancestor's deny is final, no child widens anything."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from supervisor.core.rules import Action, Approval, Authority, Rule, RuleSpec, decide, plain

ALLOW = Rule(action="allow")
DENY = Rule(action="deny")
ASK = Rule(action="ask")


def rules(*listed: Rule, session: str = "asked", approvals: tuple[Approval, ...] = ()) -> Authority:
    return Authority(session_id=session, rules=listed, approvals=approvals)


def action(*lineage: Authority, tool: str = "bash", value: str = "ls", requester: str = "child") -> Action:
    return decide(tool, value, requester=requester, lineage=lineage).action


# -- within one session


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ((), "ask"),
        ((ALLOW,), "allow"),
        ((DENY,), "deny"),
        ((ASK,), "ask"),
        ((DENY, ALLOW), "allow"),
        ((ALLOW, DENY), "deny"),
        ((ALLOW, ASK), "ask"),
        ((DENY, ASK), "ask"),
        ((DENY, Rule(action="allow", tool="write")), "deny"),
        ((ALLOW, Rule(action="deny", value="rm *")), "allow"),
        ((DENY, Rule(action="allow", tool="ba*", value="l?")), "allow"),
        ((Rule(action="allow", tool="BASH"),), "ask"),
        ((Rule(action="allow", value="LS"),), "ask"),
        ((Rule(action="allow", value="l"),), "ask"),
        ((Rule(action="allow", value="s"),), "ask"),
        ((Rule(action="allow", value=""),), "ask"),
    ],
)
def test_the_last_match_wins(listed: tuple[Rule, ...], expected: Action) -> None:
    assert action(rules(*listed)) == expected


@pytest.mark.parametrize("value", ["ls\nrm -rf /", "ls /tmp", "", "l" * 100_000])
def test_a_pattern_covers_the_whole_text(value: str) -> None:
    assert action(rules(Rule(action="allow", value="ls")), value=value) == "ask"
    assert action(rules(Rule(action="deny", value="*")), value=value) == "deny"


def test_the_verdict_names_its_rule_and_session() -> None:
    mine = Rule(action="deny", value="rm *", reason="never")
    verdict = decide("bash", "rm x", requester="child", lineage=[rules(ALLOW, mine, session="s1")])
    assert ("deny", "s1", mine, None) == (verdict.action, verdict.session_id, verdict.rule, verdict.approval)


def test_nobody_on_the_way_up_is_a_question() -> None:
    assert action() == "ask"


# -- several levels: from the session that was asked up to the root


@pytest.mark.parametrize(
    ("asked", "middle", "root", "expected"),
    [
        ((), (), (), "ask"),
        ((ALLOW,), (), (), "allow"),
        ((), (ALLOW,), (), "allow"),
        ((), (), (ALLOW,), "allow"),
        ((ALLOW,), (), (DENY,), "deny"),
        ((ALLOW,), (DENY,), (), "deny"),
        ((ALLOW,), (DENY,), (ALLOW,), "deny"),
        ((ALLOW,), (ALLOW,), (DENY,), "deny"),
        ((), (ALLOW,), (DENY,), "deny"),
        ((ASK,), (), (DENY,), "deny"),
        ((DENY,), (ALLOW,), (ALLOW,), "deny"),
        ((DENY,), (ASK,), (ALLOW,), "deny"),
        ((ASK,), (ALLOW,), (ALLOW,), "ask"),
        ((ALLOW,), (ASK,), (), "ask"),
        ((ALLOW,), (), (ASK,), "ask"),
        ((ALLOW,), (ALLOW,), (ASK,), "ask"),
        ((), (ASK,), (ALLOW,), "ask"),
        ((), (ALLOW,), (ASK,), "ask"),
        ((ALLOW,), (DENY, ALLOW), (DENY, ALLOW), "allow"),
        ((ALLOW,), (Rule(action="deny", tool="write"),), (Rule(action="ask", value="rm *"),), "allow"),
    ],
)
def test_a_child_narrows_and_never_widens(
    asked: tuple[Rule, ...], middle: tuple[Rule, ...], root: tuple[Rule, ...], expected: Action
) -> None:
    lineage = [rules(*asked), rules(*middle, session="middle"), rules(*root, session="root")]
    assert action(*lineage) == expected


@pytest.mark.parametrize("below", [(), (ALLOW,), (ASK,), (DENY,)])
def test_the_highest_deny_is_named(below: tuple[Rule, ...]) -> None:
    lineage = [rules(*below), rules(DENY, session="middle"), rules(DENY, session="root")]
    assert decide("bash", "ls", requester="child", lineage=lineage).session_id == "root"


# -- approvals


def granted(**changes: Any) -> Approval:
    return Approval(**{"granted_by": "asked", "tool": "bash", "value": "ls", **changes})


@pytest.mark.parametrize(
    ("approval", "expected"),
    [
        (granted(), "allow"),
        (granted(child="child"), "allow"),
        (granted(child="other"), "ask"),
        (granted(child=""), "ask"),
        (granted(child="*"), "ask"),
        (granted(child="CHILD"), "ask"),
        (granted(value="ls "), "ask"),
        (granted(value="l"), "ask"),
        (granted(value="*"), "ask"),
        (granted(value="l?"), "ask"),
        (granted(value=""), "ask"),
        (granted(tool="*"), "ask"),
        (granted(tool="Bash"), "ask"),
        (granted(tool="write"), "ask"),
    ],
)
def test_an_approval_is_for_exactly_that(approval: Approval, expected: Action) -> None:
    assert action(rules(approvals=(approval,))) == expected


def test_a_value_that_looks_like_a_pattern_is_approved_as_itself_only() -> None:
    mine = rules(approvals=(granted(value="rm *"),))
    assert (action(mine, value="rm *"), action(mine, value="rm -rf /")) == ("allow", "ask")


@pytest.mark.parametrize(
    ("own", "above", "expected"),
    [((DENY,), (), "deny"), ((), (DENY,), "deny"), ((ASK,), (), "allow"), ((), (ASK,), "ask"), ((), (ALLOW,), "allow")],
)
def test_an_approval_never_beats_a_deny_or_an_ancestor_that_wants_to_be_asked(
    own: tuple[Rule, ...], above: tuple[Rule, ...], expected: Action
) -> None:
    assert action(rules(*own, approvals=(granted(),)), rules(*above, session="root")) == expected


def test_an_ancestors_approval_holds_below_and_names_who_gave_it() -> None:
    given = granted(granted_by="root")
    verdict = decide("bash", "ls", requester="child", lineage=[rules(), rules(session="root", approvals=(given,))])
    assert ("allow", "root", given, None) == (verdict.action, verdict.session_id, verdict.approval, verdict.rule)


def test_own_ask_is_not_overruled_by_an_ancestors_approval() -> None:
    assert action(rules(ASK), rules(session="root", approvals=(granted(granted_by="root"),))) == "ask"


def test_the_grant_of_a_parent_that_is_gone_does_not_apply_under_another() -> None:
    first = rules(session="p1", approvals=(granted(granted_by="p1"), granted(granted_by="p1", child="child")))
    assert (action(first), action(rules(session="p2"))) == ("allow", "ask")


# -- as written by people


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"action": "permit"},
        {"action": "allow", "tol": "bash"},
        {"action": "allow", "tool": ""},
        {"action": "allow", "tool": "x" * 201},
        {"action": "allow", "value": "x" * 4097},
        {"action": "deny", "reason": "x" * 501},
        {"action": "allow", "tool": 1},
    ],
    ids=lambda r: repr(r)[:40],
)
def test_a_rule_with_a_mistake_is_an_error(raw: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(raw, RuleSpec)


def test_a_written_rule_becomes_a_recorded_one() -> None:
    spec = msgspec.convert({"action": "deny", "tool": "bash", "value": "rm *", "reason": "no"}, RuleSpec)
    assert type(plain(spec)) is Rule
    assert Rule(action="deny", tool="bash", value="rm *", reason="no") == plain(spec)
