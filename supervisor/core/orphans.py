"""Who is an orphan, by what is on record, and what stops an adoption or a release. Pure.

An observer's view: the worker's own keeper judges more finely (`core.parent_loss`), and writes down what it has found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from supervisor.core.ending import describe, describe_it
from supervisor.core.entry import Adopted, Entry, Resumable, Starting, WindingDown, grace_of, is_live
from supervisor.core.fences import Fence
from supervisor.core.liveness import Judgement, Verdict
from supervisor.core.tree import ancestors

Judged = Mapping[str, Judgement]


def orphaned(entry: Entry, entries: Sequence[Entry], judged: Judged) -> str | None:
    """The evidence that a live worker's parent is gone; None when it lives, cannot be judged, or there is none."""
    if entry.parent is None or not is_live(entry):
        return None
    grace = grace_of(entry)
    if grace is not None:
        return grace.evidence
    parent = recorded(entry.parent.session_id, entries)
    if parent is None:
        return None
    if is_live(parent):
        seen = judged[parent.entry_id]
        return f"{parent.name}: {seen.evidence}" if seen.verdict is Verdict.DEAD_PID else None
    return f"{parent.name} {describe(parent.hand_off) if parent.hand_off else parent.status}"


def is_ending(entry: Entry) -> bool:
    """Whether a live agent is about to be ended: it is wanted down, or it winds down for another reason than a loss."""
    state = entry.state
    return entry.want == "down" or (isinstance(state, WindingDown) and state.reason != "parent_lost")


def recorded(session: str, entries: Sequence[Entry]) -> Entry | None:
    """What is on record of a session: the live entry, else the latest."""
    found = [e for e in entries if e.session_id == session]
    return max(found, key=lambda e: (is_live(e), e.started_at), default=None)


def adoption_fence(orphan: Entry, parent: Entry, entries: Sequence[Entry], judged: Judged) -> Fence | None:
    """What stops `parent` from adopting `orphan`, the first of all that does."""
    return (
        _life_fence(orphan, judged)
        or _parent_fence(orphan, parent, entries, judged)
        or _claim_fence(orphan, entries, judged)
    )


def release_fence(worker: Entry, judged: Judged) -> Fence | None:
    """What stops the request that a worker cleans up and ends; it may also be made while its parent is healthy."""
    if worker.parent is None:
        return Fence("no_parent", f"{worker.name} is a master, nobody's worker", f"supervisor stop {worker.name}")
    fence = _life_fence(worker, judged)
    return None if fence is not None and fence.code == "settling" else fence


def _life_fence(worker: Entry, judged: Judged) -> Fence | None:
    name, state = worker.name, worker.state
    seen = judged[worker.entry_id]
    if worker.parent is None:
        return Fence("no_parent", f"{name} is a master: it has no parent that could be lost", "")
    if not is_live(worker) or seen.verdict is Verdict.DEAD_PID:
        end = describe_it(worker.hand_off) if worker.hand_off else seen.evidence
        can = isinstance(state, Resumable) or worker.agent.resume_context is not None
        return Fence("not_alive", f"{name} does not live ({end})", f"supervisor resume {name}" if can else "")
    if seen.verdict is Verdict.UNKNOWN:
        return Fence("unknown", f"whether {name} lives cannot be judged from here ({seen.evidence})", "Do it there")
    if is_ending(worker):
        return Fence("ending", f"{name} is being ended already", f"See: supervisor wait {name}")
    if isinstance(state, Starting | WindingDown):
        return Fence("settling", f"{name} is {worker.status}, its keeper is about to move it on", "Try again")
    return None


def _parent_fence(orphan: Entry, parent: Entry, entries: Sequence[Entry], judged: Judged) -> Fence | None:
    seen = judged[parent.entry_id]
    if parent.session_id == orphan.session_id or any(
        up.session_id == orphan.session_id for up in ancestors(parent, entries)
    ):
        what = "is the orphan itself" if parent.session_id == orphan.session_id else f"descends from {orphan.name}"
        return Fence("cycle", f"{parent.name} {what}: it cannot be its parent", "Name another session with --as")
    if is_live(parent) and seen.verdict is Verdict.UNKNOWN:
        why = f"whether {parent.name} lives cannot be judged from here ({seen.evidence})"
        return Fence("unknown", why, "Do it there")
    if seen.verdict is not Verdict.ALIVE or parent.generation.process is None or parent.want == "down":
        why = "it is being ended" if parent.want == "down" else seen.evidence
        return Fence("parent_not_alive", f"{parent.name} cannot be a parent: {why}", "Name a session that lives")
    return None


def _claim_fence(orphan: Entry, entries: Sequence[Entry], judged: Judged) -> Fence | None:
    state = orphan.state
    assert orphan.parent is not None
    now = recorded(orphan.parent.session_id, entries)
    of = now.name if now else orphan.parent.session_id
    if isinstance(state, Adopted):
        return Fence("claimed", f"{of} was first: {orphan.name} has been adopted by {state.by_session}", "")
    if orphaned(orphan, entries, judged) is None:
        return Fence("has_parent", f"{orphan.name} has a parent: {of}", "Only who has lost its parent is adopted")
    if isinstance(state, Resumable) and state.task_ref != orphan.task_ref:
        return Fence(
            "task_mismatch",
            f"{orphan.name} works on {orphan.task_ref!r}, but what it would be resumed for is {state.task_ref!r}",
            f"See: supervisor show {orphan.name}",
        )
    return None
