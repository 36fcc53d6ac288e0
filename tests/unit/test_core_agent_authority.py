"""An agent may answer what its descendants ask, and never widens what it was given."""

from __future__ import annotations

import pytest

from supervisor.core.agent_authority import AgentsAllow, descends, why_not
from supervisor.core.entry import ParentRef
from supervisor.core.rules import Action, Verdict
from supervisor.testing import make_entry

ROOT = make_entry("root")
LEAD = make_entry("lead", parent=ParentRef(session_id="session-root"))
KID = make_entry("kid", parent=ParentRef(session_id="session-lead"))
GRANDKID = make_entry("grandkid", parent=ParentRef(session_id="session-kid"))
OTHER = make_entry("other")
EVERYBODY = [ROOT, LEAD, KID, GRANDKID, OTHER]


def refusal(
    requester: str = "kid",
    *,
    session: str = "lead",
    approve: bool = True,
    own: Action = "allow",
    agents_allow: AgentsAllow = "own",
) -> str | None:
    """Why `lead` may not answer."""
    return why_not(
        LEAD,
        requester=f"session-{requester}",
        session=f"session-{session}",
        approve=approve,
        own=Verdict(action=own),
        agents_allow=agents_allow,
        entries=EVERYBODY,
    )


@pytest.mark.parametrize("approve", [True, False])
@pytest.mark.parametrize("agents_allow", ["own", "any"])
def test_nobody_answers_its_own_ask(approve: bool, agents_allow: AgentsAllow) -> None:
    assert refusal("lead", approve=approve, agents_allow=agents_allow) == "it is its own ask"


@pytest.mark.parametrize("requester", ["other", "root", "unheard-of"])
@pytest.mark.parametrize("approve", [True, False])
def test_only_descendants_are_answered(requester: str, approve: bool) -> None:
    assert refusal(requester, approve=approve) == "its asker is no descendant of lead"


@pytest.mark.parametrize("requester", ["kid", "grandkid"])
def test_what_it_may_do_itself_it_may_allow(requester: str) -> None:
    assert refusal(requester) is None


def test_an_ask_in_a_descendants_inbox_may_be_answered() -> None:
    assert refusal("grandkid", session="kid") is None


def test_an_ask_that_was_passed_on_to_an_ancestor_is_its_to_decide() -> None:
    assert refusal(session="root") == "it was passed on to an ancestor of lead, which decides"


def test_what_it_would_have_to_ask_for_itself_it_cannot_allow() -> None:
    assert refusal(own="ask") == "lead would have to ask for it itself"


def test_it_may_allow_that_where_the_user_has_said_so() -> None:
    assert refusal(own="ask", agents_allow="any") is None


@pytest.mark.parametrize("agents_allow", ["own", "any"])
def test_what_a_rule_denies_it_can_never_allow(agents_allow: AgentsAllow) -> None:
    assert refusal(own="deny", agents_allow=agents_allow) == "a rule denies it to lead itself"


@pytest.mark.parametrize("own", ["allow", "ask", "deny"])
def test_it_may_always_deny(own: Action) -> None:
    assert refusal(own=own, approve=False) is None


def test_descent_is_over_any_number_of_levels_and_not_upwards() -> None:
    below = [descends(f"session-{n}", ROOT, EVERYBODY) for n in ("lead", "kid", "grandkid", "other", "root")]
    assert below == [True, True, True, False, False]
