"""What people and scripts see of the matrix: one row per entry, with its verdict and evidence. Reads only."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from supervisor.core.ending import describe, describe_it
from supervisor.core.entry import (
    Entry,
    Resumable,
    Running,
    Starting,
    WindingDown,
    failed_resume,
    grace_of,
    is_live,
    unconfirmed,
)
from supervisor.core.handoffs import undelivered
from supervisor.core.liveness import Verdict, beat_age_ms
from supervisor.core.orphans import is_ending, orphaned, recorded
from supervisor.core.text import span
from supervisor.runtime.parts import Parts
from supervisor.runtime.scan import Scan


class Row(Struct, frozen=True, kw_only=True, rename="camel"):
    """One agent. Times in epoch ms, ages in ms."""

    name: str
    entry_id: str
    session_id: str
    role: str
    status: str
    want: str
    verdict: str
    evidence: str
    orphan: str | None
    adoptable_until: int | None
    profile: str
    pid: int | None
    keeper_pid: int
    parent: str | None
    parent_session_id: str | None
    tree: str | None
    task_ref: str | None
    task_summary: str | None
    cwd: str
    started_at: int
    age_ms: int
    beat_age_ms: int | None
    restarts: int
    ready: bool
    transcript: str | None
    output_degraded: str | None
    end: str | None
    exit_code: int | None
    exit_signal: str | None


def rows(parts: Parts, seen: Scan) -> list[Row]:
    """Every entry as a row, in order of start."""
    now = parts.now()
    names = {e.session_id: e.name for e in sorted(seen.entries, key=lambda e: (is_live(e), e.started_at))}
    out = []
    for entry in sorted(seen.entries, key=lambda e: (e.started_at, e.name, e.entry_id)):
        judged = seen.judgements[entry.entry_id]
        beat = seen.beats.get(entry.keeper.keeper_id)
        age = beat_age_ms(beat, now) if beat and is_live(entry) else None
        process = entry.generation.process
        end, grace = entry.hand_off, grace_of(entry)
        out.append(
            Row(
                name=entry.name,
                entry_id=entry.entry_id,
                session_id=entry.session_id,
                role="worker" if entry.parent else "master",
                status=entry.status,
                want=entry.want,
                verdict=judged.verdict.value,
                evidence=judged.evidence,
                orphan=orphaned(entry, seen.entries, seen.judgements),
                adoptable_until=grace.until if grace else None,
                profile=entry.plan.profile,
                pid=process.key.pid if process else None,
                keeper_pid=entry.keeper.process.key.pid,
                parent=names.get(entry.parent.session_id) if entry.parent else None,
                parent_session_id=entry.parent.session_id if entry.parent else None,
                tree=entry.tree,
                task_ref=entry.task_ref,
                task_summary=entry.task_summary,
                cwd=entry.plan.cwd,
                started_at=entry.started_at,
                age_ms=max((end.observed_at if end else now.wall_ms) - entry.started_at, 0),
                beat_age_ms=int(age) if age is not None else None,
                restarts=len(entry.deaths) if is_live(entry) else max(len(entry.deaths) - 1, 0),
                ready=isinstance(entry.state, Running) and entry.state.ready_at is not None,
                transcript=entry.output.transcript,
                output_degraded=entry.output.degraded,
                end=describe(end) if end else None,
                exit_code=end.code if end else None,
                exit_signal=end.signal if end else None,
            )
        )
    return out


def why(parts: Parts, entry: Entry, seen: Scan, notes: Sequence[str] = ()) -> str:
    """The one-paragraph diagnosis: what it is, how judged, since when, evidence, `notes` of others, what to do."""
    now = parts.now()
    judged = seen.judgements[entry.entry_id]
    kin = [e for e in seen.entries if e.parent and e.parent.session_id == entry.session_id and is_live(e)]
    parent = next((e for e in seen.entries if entry.parent and e.session_id == entry.parent.session_id), None)
    origin = f"{'enrolled' if entry.enrolled else 'launched'} {span(now.wall_ms - entry.started_at)} ago"
    if entry.parent:
        origin += f" as a child of {parent.name if parent else entry.parent.session_id}"
        if parent is None:
            origin += " (which is not on record)"
        elif not is_live(parent):
            origin += f" (which is {parent.status})"
    sentences = [
        f"{entry.name} is a {'worker' if entry.parent else 'master'} of profile {entry.plan.profile}, {origin}.",
        f"It is {entry.status} since {span(now.wall_ms - entry.state.since)}; verdict {judged.verdict.value}: "
        f"{judged.evidence}.",
    ]
    sentences += _state_sentences(entry, judged.verdict, now.wall_ms)
    orphan = orphaned(entry, seen.entries, seen.judgements)
    if orphan:
        sentences.append(f"It is an orphan, its parent is gone ({orphan}).")
    if undelivered([entry]):
        sentences.append("Its parent has not been told of its end yet: it is when it is resumed or recovers.")
    if judged.verdict in (Verdict.ABSENT, Verdict.DEAD_PID) and (left := _left_behind(parts, entry)):
        sentences.append(f"It has left behind {', '.join(left)}: `supervisor stop {entry.name}` ends that.")
    if kin:
        sentences.append(f"Live children: {', '.join(e.name for e in kin)}.")
    if entry.output.degraded:
        sentences.append(f"Its output is degraded: {entry.output.degraded}.")
    sentences += notes
    sentences.append(f"What to do: {_advice(entry, seen)}")
    return " ".join(sentences)


def _left_behind(parts: Parts, entry: Entry) -> Sequence[str]:
    from supervisor.runtime.tree_end import look_from_outside, names  # `ps` needs none of it

    return names(parts, look_from_outside(parts).tree(entry.entry_id, None, attached=True))


def _state_sentences(entry: Entry, verdict: Verdict, now: int) -> Sequence[str]:
    state = entry.state
    out = []
    if unconfirmed(entry) is not None:
        out.append(f"It is being resumed and has not confirmed yet that it is in session {entry.generation.resumes}.")
    elif isinstance(state, Running) and state.ready_at is None:
        out.append(f"It has not proven itself up yet ({entry.plan.ready}).")
    if isinstance(state, Starting) and state.waits_for:
        out.append("It waits for others to be ready.")
    if isinstance(state, Starting) and state.attempt:
        out.append(f"It died {state.attempt} times lately and is started again after a pause.")
    if isinstance(state, WindingDown):
        out.append(f"It is winding down ({state.reason}).")
    grace = grace_of(entry)
    if grace is not None and verdict is not Verdict.DEAD_PID:
        out.append(f"It lives on for {span(max(grace.until - now, 0))}, then its keeper ends it unless it is adopted.")
    if entry.want == "down" and is_live(entry):
        out.append("It is wanted down.")
    if (failed := failed_resume(entry)) is not None:
        out.append(f"Its last resume came to nothing: {failed.why}.")
    if entry.hand_off:
        out.append(f"I{describe_it(entry.hand_off)[1:]}.")
    if entry.deaths and is_live(entry):
        last = entry.deaths[-1]
        count = "1 death" if len(entry.deaths) == 1 else f"{len(entry.deaths)} deaths"
        out.append(f"{count} on its tally, the last by {last.signal or f'code {last.code}'}.")
    return out


def _advice_to_an_orphan(entry: Entry, seen: Scan) -> str:
    assert entry.parent is not None
    parent = recorded(entry.parent.session_id, seen.entries)
    back = ""
    if parent is not None and not is_live(parent) and parent.agent.resume_context is not None:
        back = f"`supervisor resume {parent.name}` brings its parent back, "
    how = f"`supervisor adopt {entry.name} --as SESSION` gives it a new parent"
    return f"{back}{how}, `supervisor release {entry.name}` ends it."


def _advice(entry: Entry, seen: Scan) -> str:
    judged = seen.judgements[entry.entry_id]
    if judged.keeper_gone:
        return "run `supervisor reconcile`: it re-attaches a live agent and records the end of a dead one."
    if is_live(entry) and is_ending(entry):
        return f"wait for its end: supervisor wait {entry.name}."
    if orphaned(entry, seen.entries, seen.judgements):
        return _advice_to_an_orphan(entry, seen)
    if isinstance(entry.state, Resumable):
        return f"go on with it: supervisor resume {entry.name}."
    if entry.hand_off:
        read = f"read `supervisor logs {entry.name}`; " if entry.output.transcript else ""
        again = f"supervisor resume {entry.name} goes on with it" if entry.agent.resume_context else "launch it again"
        return f"{read}{again} if it is still needed."
    if judged.verdict.value == "stale":
        return (
            f"its keeper (pid {entry.keeper.process.key.pid}) is hung, stopped or starved: see whether it is stopped."
        )
    if judged.verdict.value == "unknown":
        return "judge it on its own host; nothing is done to it from here."
    return "nothing."
