"""Checkpoints: bounded, kept in the identity, and in its clone where the agent waits for a resume."""

from typing import Any

import pytest

from supervisor.core.checkpoints import MAX_CHECKPOINT, MAX_POINTER, MAX_POINTERS, checked, checkpointed
from supervisor.core.entry import MAX_SUMMARY, AgentIdentity, Entry, Resumable, ResumeContext
from supervisor.core.errors import BadInput, Refused
from supervisor.testing import make_entry

CONTEXT = ResumeContext(profile="demo", cwd="/work", checkpoint="old", pointers=("file:///a",), summary="before")
AGENT = AgentIdentity(agent_id="agent-lead", resume_context=CONTEXT)


def context_of(entry: Entry) -> ResumeContext:
    assert entry.agent.resume_context is not None
    return entry.agent.resume_context


def keep(entry: Entry, **given: Any) -> Entry:
    return checkpointed(entry, **{"checkpoint": None, "pointers": (), "summary": None, **given})


def test_what_is_given_is_kept_and_the_rest_stays() -> None:
    context = context_of(keep(make_entry(agent=AGENT), checkpoint="new"))
    assert (context.checkpoint, context.pointers, context.summary) == ("new", ("file:///a",), "before")


def test_pointers_are_replaced_as_a_whole() -> None:
    assert context_of(keep(make_entry(agent=AGENT), pointers=["b", "c"])).pointers == ("b", "c")


def test_an_agent_that_waits_for_a_resume_has_one_identity() -> None:
    entry = keep(make_entry(agent=AGENT, state=Resumable(since=1, agent=AGENT)), summary="after")
    assert isinstance(entry.state, Resumable)
    assert (entry.state.agent, context_of(entry).summary) == (entry.agent, "after")


def test_who_cannot_be_resumed_keeps_none() -> None:
    with pytest.raises(Refused, match="would never be read"):
        keep(make_entry(), checkpoint="x")


@pytest.mark.parametrize(
    ("checkpoint", "pointers", "summary", "said"),
    [
        (None, [], None, "nothing to keep"),
        ("x" * (MAX_CHECKPOINT + 1), [], None, "201 characters, at most 200"),
        (None, ["x" * (MAX_POINTER + 1)], None, "1001 characters, at most 1000"),
        (None, ["x"] * (MAX_POINTERS + 1), None, "21 pointers are given, at most 20"),
        (None, [], "x" * (MAX_SUMMARY + 1), "2001 characters, at most 2000"),
        ("a\x1b[2J", [], None, "control characters"),
        (None, [""], None, "is empty"),
        (None, [], "\ud800", "no valid text"),
    ],
)
def test_what_is_out_of_bounds_is_refused_with_the_bound(
    checkpoint: str | None, pointers: list[str], summary: str | None, said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        checked(checkpoint, pointers, summary)


def test_what_is_at_its_bound_is_kept() -> None:
    checked("x" * MAX_CHECKPOINT, ["x" * MAX_POINTER] * MAX_POINTERS, "line\n" * (MAX_SUMMARY // 5))
