"""What a recovery finds, and what of it may be done without asking. Pure: the caller has looked, and carries it out.

*Exact* is what belongs to the session that recovers: its own children, working on its own task. That is re-adopted when
it lives and relaunched when it is dead. Everything else is *foreign*: somebody is asked, or it is only told of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from supervisor.core.ending import describe_it
from supervisor.core.entry import Entry, Resumable, is_live
from supervisor.core.fences import Fence
from supervisor.core.liveness import Judgement
from supervisor.core.orphans import is_ending, orphaned
from supervisor.core.tasks import Task, status_of
from supervisor.core.text import one_line
from supervisor.core.tree import ancestors

Judged = Mapping[str, Judgement]


class Found(Struct, frozen=True, kw_only=True):
    """One agent to be recovered: `live`, an orphan that can be adopted, or `dead`, one that can be resumed.

    `fence`: of an exact one, what keeps it from being recovered by itself.
    """

    entry: Entry
    kind: Literal["live", "dead"]
    exact: bool
    evidence: str
    fence: Fence | None = None

    @property
    def automatic(self) -> bool:
        """Whether it is recovered without anybody being asked."""
        return self.exact and self.fence is None


def find(
    entries: Sequence[Entry], judged: Judged, *, active: Entry | None, tasks: Sequence[Task] | None
) -> tuple[Found, ...]:
    """Everything that waits to be recovered: what is exact first, then masters, then by age.

    `active`: the agent in whose session this is done, None for a person at a shell. `tasks` None: they cannot be read.
    """
    above = {active.entry_id, *(e.entry_id for e in ancestors(active, entries))} if active else set()
    found = [f for e in entries if e.entry_id not in above and (f := _one(e, entries, judged, active, tasks))]
    return tuple(sorted(found, key=_order))


def _order(found: Found) -> tuple[bool, bool, bool, int, str]:
    entry = found.entry
    # masters first: their own come back with them
    return not found.exact, entry.parent is not None, found.kind == "dead", entry.started_at, entry.entry_id


def _one(
    entry: Entry, entries: Sequence[Entry], judged: Judged, active: Entry | None, tasks: Sequence[Task] | None
) -> Found | None:
    exact = active is not None and entry.parent is not None and entry.parent.session_id == active.session_id
    fence = _fence(entry, active, tasks) if active is not None and exact else None
    if isinstance(entry.state, Resumable) and not is_live(entry):
        if entry.want == "down":  # somebody has said that it is not to come back
            return None
        end = entry.state.hand_off
        evidence = (end.detail or describe_it(end)) if end else "it has ended"
        return Found(entry=entry, kind="dead", exact=exact, evidence=evidence, fence=fence or _no_context(entry))
    lost = orphaned(entry, entries, judged)
    if lost is None or is_ending(entry):
        return None
    return Found(entry=entry, kind="live", exact=exact, evidence=lost, fence=fence)


def _no_context(entry: Entry) -> Fence | None:
    if entry.agent.resume_context is not None:
        return None
    return Fence("no_resume_context", f"{entry.name} cannot be resumed: its CLI has no way to", "Launch it again")


def _fence(entry: Entry, active: Entry, tasks: Sequence[Task] | None) -> Fence | None:
    """What keeps an agent of the active session from being recovered by itself."""
    how = f"adopt {entry.name} --as {active.name}" if is_live(entry) else f"resume {entry.name}"
    by_name = f"By name it can be: supervisor {how}"
    stored = entry.state.task_ref if isinstance(entry.state, Resumable) else entry.task_ref
    if stored != entry.task_ref:
        return Fence("task_mismatch", f"the record of {entry.name} says two things about its task", by_name)
    if entry.task_ref != active.task_ref:
        mine, its = (one_line(t, 80) if t else "none" for t in (active.task_ref, entry.task_ref))
        return Fence("task_mismatch", f"{entry.name} works on task {its}, {active.name} on {mine}", by_name)
    if tasks is None and entry.task_ref is not None:
        return Fence("tasks_unreadable", f"whether task {one_line(entry.task_ref, 80)} is done is not known", by_name)
    status = status_of(entry.task_ref, tasks or ())
    if status != "open":
        code: Literal["task_blocked", "task_done"] = "task_blocked" if status == "blocked" else "task_done"
        return Fence(code, f"the task of {entry.name}, {one_line(entry.task_ref or '', 80)}, is {status}", by_name)
    return None


def session_fence(before: Entry, now: Entry | None, judged: Judgement | None) -> Fence | None:
    """Whether the session in whose name something is about to be done is still there, by the very process."""
    gone = now is None or not is_live(now) or judged is None or judged.verdict.value not in ("alive", "stale")
    if gone or now is None or now.want == "down" or now.generation.nonce != before.generation.nonce:
        return Fence(
            "session_ended",
            f"{before.name} has ended or is being ended: nothing is done in its name any more",
            f"Resume it first: supervisor resume {before.name}",
        )
    return None


def downwards(first: Entry, recover: Callable[[Entry], Iterable[Entry]]) -> None:
    """Recover what is the first one's own, then what is theirs who were resumed by that, each of them once."""
    queue, seen = [first], {first.entry_id}
    while queue:
        new = [e for e in recover(queue.pop(0)) if e.entry_id not in seen]
        seen.update(e.entry_id for e in new)
        queue += new


def foreign(found: Iterable[Found], entries: Sequence[Entry], session: Entry) -> list[Found]:
    """What does not come back with a session that is to be resumed: neither it, nor what is below it."""
    return [f for f in found if session.entry_id not in {e.entry_id for e in (f.entry, *ancestors(f.entry, entries))}]


def named(found: Iterable[Found]) -> list[str]:
    """Their names."""
    return [f.entry.name for f in found]
