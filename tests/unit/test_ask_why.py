"""Why an ask waits or how it ended, as people are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from supervisor.core.entry import KeeperRef
from supervisor.core.errors import NotFound
from supervisor.core.rules import Rule
from supervisor.runtime.ask_why import AskWhy, Explained
from supervisor.runtime.compose import from_environment
from supervisor.runtime.deciding import Desk
from supervisor.testing import make_entry
from tests.asks import World


@pytest.fixture
def world(home: Path) -> World:
    return World(from_environment())


KID = make_entry(name="kid", session_id="c", entry_id="e-c")


def explainer(world: World) -> AskWhy:
    return AskWhy(world.parts, world.asks, [world.entry, KID])


def why(world: World, wanted: str = "perm-1") -> Explained:
    return explainer(world).ask(wanted)


def test_one_that_waits_says_where_for_how_long_and_what_to_do(world: World) -> None:
    world.ask()
    world.beat()
    found = why(world)
    assert found.state == "waiting"
    assert "kid asks to use bash echo hi since 1s (perm-1). It waits at p." in found.why
    assert "Nobody looks at it; in 9m 59s it is refused as undecided." in found.why
    assert "supervisor answer perm-1 allow|deny" in found.why


def test_one_that_somebody_looks_at_says_since_when(world: World) -> None:
    world.ask()
    world.beat()
    desk = Desk(world.parts, world.asks)
    desk.claim(desk.find("perm-1"), KeeperRef("i-1", world.me), world.parts.now(), since=0)
    assert "Somebody looks at it since 19" in why(world).why
    assert "its timeout waits" in why(world).why


def test_one_that_nobody_serves_says_so_with_the_evidence(world: World) -> None:
    world.ask()
    world.beat()
    world.clock.advance(6_000)
    assert "p is not serving (stale, last heartbeat 6s ago)" in why(world).why
    assert "supervisor inbox p" in why(world).why


def test_one_that_was_decided_names_who_and_why(world: World) -> None:
    world.ask()
    world.beat()
    desk = Desk(world.parts, world.asks)
    desk.answer(desk.find("perm-1"), approved=False, reason="not on a Friday", who="ann")
    found = why(world)
    assert (found.state, "Denied by ann: not on a Friday." in found.why) == ("denied", True)


def test_a_rule_is_named(world: World) -> None:
    world.settings = replace(world.settings, rules=(Rule(action="allow", tool="bash", value="echo *"),))
    world.ask()
    world.beat()
    found = why(world)
    assert (found.state, "Allowed by the rule bash echo * of p." in found.why) == ("allowed", True)


def test_one_that_a_child_gave_up_tells_what_was_seen(world: World) -> None:
    about = {"ask": "perm-9", "session": "p", "requester": "c", "agent": "kid", "tool": "bash", "hops": []}
    seen = {"channel": "heartbeat", "state": "dead_pid", "heartbeatAgeMs": 3000, "serving": ["q"]}
    world.asks.review.append("requested", about, at=1_000)
    world.asks.review.append("abandoned", {**about, "code": "not_serving", "reason": "nobody there", **seen}, at=3_000)
    found = why(world, "perm-9")
    assert found.state == "undecided"
    assert found.why.startswith("kid asked p at 1970-01-0")
    assert found.why.endswith(
        "Nobody decided: nobody there. Seen by heartbeat: dead_pid, its last heartbeat 3s old; "
        "with a serving heartbeat then: q."
    )
    (said,) = explainer(world).of_agent(KID)
    assert said.startswith("Its last ask was decided by nobody") and said.endswith("More: supervisor why perm-9.")


def test_a_decision_after_it_ends_the_story_of_one_that_nobody_decided(world: World) -> None:
    about = {"ask": "perm-8", "session": "p", "requester": "c"}
    world.asks.review.append("abandoned", about, at=1)
    world.asks.review.append("answered", {**about, "ask": "perm-9", "approved": True}, at=2)
    assert explainer(world).of_agent(KID) == []


def test_one_without_an_end_was_withdrawn(world: World) -> None:
    world.asks.review.append("requested", {"ask": "perm-7", "agent": "kid", "session": "p"}, at=10**30)
    assert why(world, "perm-7").state == "gone"


def test_an_agent_says_what_it_waits_for_and_what_waits_for_it(world: World) -> None:
    for number in range(5):
        world.ask(f"perm-{number}")
    world.beat()
    said = explainer(world).of_agent(KID)
    assert (len(said), said[-1]) == (4, "2 more asks of it wait.")
    assert explainer(world).of_agent(world.entry) == ["5 asks of others wait in its inbox."]


def test_a_prefix_is_enough_unless_it_means_several(world: World) -> None:
    for ask in ("perm-70", "perm-71"):
        world.asks.review.append("requested", {"ask": ask}, at=1)
    assert why(world, "perm-71").ask == "perm-71"
    with pytest.raises(NotFound, match="ambiguous: perm-70, perm-71"):
        why(world, "perm-7")
    with pytest.raises(NotFound, match="no ask 'nix'"):
        why(world, "nix")


def test_a_prefix_of_several_that_wait_is_ambiguous_also_when_the_log_knows_one_of_them(world: World) -> None:
    world.ask("perm-1")
    world.beat()
    world.ask("perm-2")
    with pytest.raises(NotFound, match="ambiguous: perm-1, perm-2"):
        why(world, "perm-")
