"""Rules and remembered approvals: what is decided without asking a person. Pure.

Last match wins within one session; an ancestor's deny is final; a child can narrow what it was given, never widen it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from msgspec import Meta, Struct

Action = Literal["allow", "deny", "ask"]


class Rule(Struct, frozen=True, kw_only=True):
    """A rule as records hold it.

    `tool` and `value` are shell-style patterns over the whole text (case matters); `reason` goes with a denial.
    """

    action: Action
    tool: Annotated[str, Meta(min_length=1, max_length=200)] = "*"
    value: Annotated[str, Meta(max_length=4096)] = "*"
    reason: Annotated[str, Meta(max_length=500)] | None = None


class RuleSpec(Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule as a person writes it: an unknown key is an error."""


def plain(spec: Rule) -> Rule:
    """A rule as written, as records hold it."""
    return Rule(action=spec.action, tool=spec.tool, value=spec.value, reason=spec.reason)


class Approval(Struct, frozen=True, kw_only=True, rename="camel"):
    """A remembered "allow": by which session, for which child (None: for everybody below), and exactly what."""

    granted_by: str
    tool: str
    value: str
    child: str | None = None
    at: int = 0


class Authority(Struct, frozen=True, kw_only=True):
    """What one session on the way up decides by: its rules, in order, and what it remembers."""

    session_id: str
    rules: Sequence[Rule] = ()
    approvals: Sequence[Approval] = ()


class Verdict(Struct, frozen=True, kw_only=True):
    """What the recorded authority says: by whom and by which rule or approval. `ask`: somebody has to be asked."""

    action: Action
    session_id: str | None = None
    rule: Rule | None = None
    approval: Approval | None = None


def decide(tool: str, value: str, *, requester: str, lineage: Sequence[Authority]) -> Verdict:
    """The verdict for an ask; `lineage` from the session that was asked up to the root.

    Any deny on the way is final. An allow of the session that was asked holds only if no ancestor's rules say that it
    must be asked: that would be a child widening what it was given.
    """
    matches = [(a, _last_match(a.rules, tool, value)) for a in lineage]
    for authority, rule in reversed(matches):
        if rule is not None and rule.action == "deny":
            return Verdict(action="deny", session_id=authority.session_id, rule=rule)
    for authority, rule in matches[1:]:
        if rule is not None and rule.action == "ask":
            return Verdict(action="ask", session_id=authority.session_id, rule=rule)
    for authority, rule in matches:
        approval = _remembered(authority, tool, value, requester)
        if approval is not None:
            return Verdict(action="allow", session_id=authority.session_id, approval=approval)
        if rule is not None:
            return Verdict(action=rule.action, session_id=authority.session_id, rule=rule)
    return Verdict(action="ask")


def _last_match(rules: Sequence[Rule], tool: str, value: str) -> Rule | None:
    for rule in reversed(rules):
        if fnmatchcase(tool, rule.tool) and fnmatchcase(value, rule.value):
            return rule
    return None


def _remembered(authority: Authority, tool: str, value: str, requester: str) -> Approval | None:
    for approval in authority.approvals:
        if (approval.tool, approval.value) == (tool, value) and approval.child in (None, requester):
            return approval
    return None
