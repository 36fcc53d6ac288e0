"""`why` of orphans and of the dead: what it says is true of that very moment, and its advice can be followed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from supervisor.core.entry import AgentIdentity, Closed, Entry, Grace, Resumable, ResumeContext, WindingDown, as_parent
from supervisor.core.liveness import Judgement, Verdict
from supervisor.runtime.scan import Scan
from supervisor.runtime.views import why
from supervisor.testing import make_entry, make_hand_off
from tests.parts import Stage

CONTEXT = ResumeContext(profile="demo", cwd="/work", provider_session_id="s-1")
LEAD = make_entry("lead", agent=AgentIdentity(agent_id="lead", resume_context=CONTEXT))
DEAD_LEAD = replace(LEAD, state=Closed(since=1, hand_off=make_hand_off(outcome="signaled", signal="KILL", code=None)))
KID = make_entry("kid", parent=as_parent(LEAD))
ORPHAN = replace(
    KID,
    state=Resumable(since=1, agent=KID.agent, grace=Grace(until=9, until_ns=9, evidence="lead: pid 300 is gone")),
)
ALIVE = Judgement(Verdict.ALIVE, "beat 1s ago")
DEAD = Judgement(Verdict.DEAD_PID, "pid 301 is gone", True)
ADOPT = "`supervisor adopt kid --as SESSION` gives it a new parent, `supervisor release kid` ends it."


def told(entry: Entry, *others: Entry, judged: Judgement = ALIVE) -> str:
    entries = (entry, *others)
    return why(Stage().parts, entry, Scan(entries, {e.entry_id: judged for e in entries}, {}))


def test_an_orphan_whose_parent_can_be_resumed_is_told_of_with_that_first() -> None:
    said = told(ORPHAN, DEAD_LEAD)
    assert said.endswith(f"What to do: `supervisor resume lead` brings its parent back, {ADOPT}")


@pytest.mark.parametrize("parent", [(), (replace(DEAD_LEAD, agent=AgentIdentity(agent_id="lead")),)], ids=["no", "sh"])
def test_an_orphan_whose_parent_cannot_be_resumed_is_adopted_or_released(parent: tuple[Entry, ...]) -> None:
    assert told(ORPHAN, *parent).endswith(f"What to do: {ADOPT}")


@pytest.mark.parametrize(
    "change",
    [
        lambda e: replace(e, want="down"),
        lambda e: replace(e, state=WindingDown(since=1, reason="not_adopted", detail="lead: pid 300 is gone")),
    ],
    ids=["released", "not adopted"],
)
def test_one_that_is_being_ended_cannot_be_adopted_any_more(change: Callable[[Entry], Entry]) -> None:
    assert told(change(ORPHAN), DEAD_LEAD).endswith("What to do: wait for its end: supervisor wait kid.")


def test_of_an_orphan_that_is_dead_itself_it_is_not_said_that_it_lives_on() -> None:
    assert ("lives on" in told(ORPHAN), "lives on" in told(ORPHAN, judged=DEAD)) == (True, False)


def test_what_a_dead_agent_has_left_behind_is_named_with_what_ends_it() -> None:
    stage = Stage()
    environment = {"SUPERVISOR_ENTRY_ID": KID.entry_id, "SUPERVISOR_HOME": stage.parts.home}
    left = stage.processes.add(argv=("opencode", "serve"), env=environment)

    def said(judged: Judgement) -> str:
        return why(stage.parts, KID, Scan((KID,), {KID.entry_id: judged}, {}))

    assert f"It has left behind pid {left.pid} (opencode serve): `supervisor stop kid` ends that." in said(DEAD)
    stage.processes.end(left.pid)
    assert "left behind" not in said(DEAD)
