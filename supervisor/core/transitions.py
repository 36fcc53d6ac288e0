"""The one table of legal moves, and the functions that make them. Never raises for an input, only for a bug.

Each function takes an entry and facts and returns the next entry; revision and disk are the store's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from supervisor.core.ending import describe_it
from supervisor.core.entry import (
    MAX_DEATHS,
    Adopted,
    AgentIdentity,
    Closed,
    Death,
    Entry,
    FailedResume,
    Generation,
    Grace,
    HandOff,
    KeeperRef,
    ParentRef,
    Resumable,
    Running,
    Starting,
    State,
    Unconfirmed,
    WindDownReason,
    WindingDown,
    grace_of,
    is_live,
    unconfirmed,
)
from supervisor.core.errors import IllegalMove
from supervisor.core.identity import ProcessRef
from supervisor.core.text import bounded, one_line

MOVES: Mapping[str, frozenset[str]] = {
    "starting": frozenset({"starting", "running", "winding_down", "resumable", "closed"}),
    "running": frozenset({"running", "starting", "winding_down", "resumable", "closed"}),
    "winding_down": frozenset({"winding_down", "running", "resumable", "closed"}),
    "resumable": frozenset({"resumable", "starting", "winding_down", "adopted", "closed"}),
    "adopted": frozenset({"running", "winding_down", "resumable", "closed"}),
    "closed": frozenset({"closed", "starting"}),
}


def may_move(source: str, target: str) -> bool:
    """Whether the table allows `source` → `target`."""
    return target in MOVES[source]


def _move(entry: Entry, state: State, **changes: Any) -> Entry:
    nxt = replace(entry, state=state, **changes)
    if not may_move(entry.status, nxt.status):
        raise IllegalMove(f"{entry.name}: {entry.status} cannot become {nxt.status}", entry=entry.entry_id)
    return nxt


def _tally(entry: Entry, death: Death) -> tuple[Death, ...]:
    """Bounded, but never so short that the policy's intensity could not be counted."""
    return (*entry.deaths, death)[-max(MAX_DEATHS, entry.plan.restart.intensity + 1) :]


def spawned(entry: Entry, process: ProcessRef, *, output_from: int = 0, now: int) -> Entry:
    """The agent's process exists; the nonce stays the one of the intent, and so does what it resumes."""
    return _move(
        entry,
        Running(since=now, unconfirmed=unconfirmed(entry)),
        generation=replace(entry.generation, process=process, output_from=output_from),
        heartbeat_at=now,
    )


def ready(entry: Entry, *, now: int) -> Entry:
    """The profile's proof was seen. Only a running agent becomes ready; others are returned unchanged.

    A resumed one is ready by its confirmation and by nothing else.
    """
    if not isinstance(entry.state, Running) or entry.state.ready_at is not None or entry.state.unconfirmed:
        return entry
    return _move(entry, replace(entry.state, ready_at=now))


def in_session(entry: Entry, session: str, file: str | None) -> Entry:
    """The running generation has proven which of the CLI's sessions it is in, and where that one is kept.

    What is stored follows a new agent, and one that changes its session inside (clear, resume, fork). It does not
    follow a generation that was to go on with a session and came up in another: that is a failed resume.
    """
    before, context = entry.generation, entry.agent.resume_context
    entry = replace(entry, generation=replace(before, session=session))
    if context is None:
        return entry
    stored = context.provider_session_id
    if before.resumes not in (None, session) and before.session != stored:
        return entry
    file = file or (context.session_file if session == stored else None)
    context = replace(context, provider_session_id=session, session_file=file)
    return known_as(entry, replace(entry.agent, resume_context=context))


def kept_in(entry: Entry, file: str) -> Entry:
    """The CLI's own file of the session was seen."""
    context = entry.agent.resume_context
    if context is None:
        return entry
    return known_as(entry, replace(entry.agent, resume_context=replace(context, session_file=file)))


def known_as(entry: Entry, agent: AgentIdentity) -> Entry:
    """Another identity, also where a resumable entry holds its one copy of it."""
    state = replace(entry.state, agent=agent) if isinstance(entry.state, Resumable) else entry.state
    return replace(entry, agent=agent, state=state)


def restarting(
    entry: Entry,
    *,
    nonce: str,
    resumes: str | None = None,
    death: Death,
    attempt: int,
    not_before: int | None,
    now: int,
) -> Entry:
    """The agent died and its policy starts it again: a new generation, and one more line in the tally.

    Raises:
        IllegalMove: it has ended; that is what `resuming` is for.
    """
    if isinstance(entry.state, Resumable | Closed):
        raise IllegalMove(f"{entry.name}: it is {entry.status}, only a resume starts it", entry=entry.entry_id)
    return _move(
        entry,
        Starting(since=now, attempt=attempt, not_before=not_before),
        generation=Generation(nonce=nonce, resumes=resumes),
        deaths=_tally(entry, death),
    )


def winding_down(entry: Entry, reason: WindDownReason, *, detail: str = "", now: int) -> Entry:
    """Marked first, finished later.

    Raises:
        IllegalMove: it has ended; or a resume is under way, which is settled first: its state holds what is on record
            again if it fails.
    """
    if isinstance(entry.state, Resumable) and not is_live(entry):
        raise IllegalMove(f"{entry.name}: it has ended, nothing winds down", entry=entry.entry_id)
    if unconfirmed(entry) is not None:
        raise IllegalMove(f"{entry.name}: its resume is not settled yet", entry=entry.entry_id)
    return _move(entry, WindingDown(since=now, reason=reason, detail=detail))


def closed(entry: Entry, hand_off: HandOff, *, death: Death | None = None, now: int) -> Entry:
    """Over, with the record of how."""
    deaths = _tally(entry, death) if death else entry.deaths
    return _move(entry, Closed(since=now, hand_off=hand_off), deaths=deaths)


def resumable(entry: Entry, hand_off: HandOff | None, *, now: int) -> Entry:
    """Dead but resumable: the payload is one clone of the identity.

    Raises:
        IllegalMove: it has never run.
    """
    if isinstance(entry.state, Starting):
        raise IllegalMove(f"{entry.name}: it has never run, nothing of it can be resumed", entry=entry.entry_id)
    payload = Resumable(
        since=now,
        agent=entry.agent,
        task_ref=entry.task_ref,
        task_summary=entry.task_summary,
        hand_off=hand_off,
    )
    return _move(entry, payload)


def orphaned(entry: Entry, grace: Grace, *, now: int) -> Entry:
    """Its parent is lost: resumable already, while the process lives through its grace. Only who is winding down."""
    payload = resumable(entry, None, now=now)
    assert isinstance(payload.state, Resumable)
    return replace(payload, state=replace(payload.state, grace=grace))


def adopted(entry: Entry, parent: ParentRef, *, now: int) -> Entry:
    """A live orphan gets a new parent, by whoever wins the write.

    One in its grace is `adopted` until its keeper takes that up; one that still runs simply goes on, with another
    parent.

    Raises:
        IllegalMove: it does not live, or is ending.
    """
    if isinstance(entry.state, Running):
        return replace(entry, parent=parent)
    grace = grace_of(entry)
    if grace is None:
        raise IllegalMove(f"{entry.name}: it cannot be adopted, it is {entry.status}", entry=entry.entry_id)
    return _move(entry, Adopted(since=now, by_session=parent.session_id, grace=grace), parent=parent)


def under_parent(entry: Entry, *, now: int) -> Entry:
    """Its parent lives (a new one, or its own again): running, as ready as it was."""
    grace = entry.state.grace if isinstance(entry.state, Adopted) else None
    return _move(entry, Running(since=now, ready_at=grace.ready_at if grace else None))


def not_adopted(entry: Entry, *, now: int) -> Entry:
    """Its grace is over: marked before the first signal, so that nobody adopts what is about to end."""
    grace = grace_of(entry)
    return winding_down(entry, "not_adopted", detail=grace.evidence, now=now) if grace is not None else entry


def stopped(entry: Entry, hand_off: HandOff, *, now: int) -> Entry:
    """It was ended by its keeper. An orphan that nobody adopted stays resumable, unless it was wanted down besides."""
    state = entry.state
    unwanted = isinstance(state, WindingDown) and state.reason == "not_adopted" and entry.want == "up"
    if isinstance(state, WindingDown) and unwanted:
        why = f"nobody has adopted it ({state.detail})" if state.detail else "nobody has adopted it"
        hand_off = replace(hand_off, detail=f"{why}; {hand_off.detail}" if hand_off.detail else why)
    if unwanted and entry.agent.resume_context is not None:
        return resumable(entry, hand_off, now=now)
    return closed(entry, hand_off, now=now)


def resuming(entry: Entry, *, nonce: str, session: str, now: int, **changes: Any) -> Entry:
    """Claimed for a resume, before the spawn: what is on record now comes back if the agent does not confirm.

    `session` is the CLI's session that the next generation must come up in; `changes` are other fields of the entry
    that the resume sets (its plan, name, parent, terminal and output).

    Raises:
        IllegalMove: it is not at rest.
    """
    state = entry.state
    if not isinstance(state, Resumable | Closed) or is_live(entry):
        raise IllegalMove(f"{entry.name}: only who has ended is resumed, it is {entry.status}", entry=entry.entry_id)
    before = Unconfirmed(state=replace(state, failed_resume=None), parent=entry.parent)
    return _move(
        entry,
        Starting(since=now, unconfirmed=before),
        generation=Generation(nonce=nonce, resumes=session),
        want="up",
        enrolled=False,  # whatever it was, this generation is ours
        stop_grace_ms=None,
        heartbeat_at=now,
        **changes,
    )


def confirmed(entry: Entry, *, now: int) -> Entry:
    """The agent is in the session that it was to go on with: the resume stands. Others are returned unchanged."""
    if not isinstance(entry.state, Running) or entry.state.unconfirmed is None:
        return entry
    return _move(entry, replace(entry.state, unconfirmed=None, ready_at=now))


def rolled_back(entry: Entry, why: str, *, now: int) -> Entry:
    """The resume came to nothing: state and parent are what they were before it, and the reason is kept.

    Raises:
        IllegalMove: no resume is under way.
    """
    before = unconfirmed(entry)
    if before is None:
        raise IllegalMove(f"{entry.name}: no resume to take back, it is {entry.status}", entry=entry.entry_id)
    state = replace(before.state, failed_resume=FailedResume(at=now, why=bounded(one_line(why, 500), 500)))
    return _move(entry, state, parent=before.parent)


def over(entry: Entry, hand_off: HandOff, *, death: Death | None = None, now: int) -> Entry:
    """Ended: closed with the record of how. A resume that ends before it was confirmed is taken back instead."""
    if unconfirmed(entry) is not None and hand_off.cause != "stopped":
        if hand_off.outcome == "not_started":
            return rolled_back(entry, f"it could not be started: {hand_off.detail}", now=now)
        how = describe_it(replace(hand_off, detail=""))
        return rolled_back(entry, f"{how} before it had confirmed its session", now=now)
    return closed(entry, hand_off, death=death, now=now)


def delivered(entry: Entry, *, now: int) -> Entry:
    """Somebody has been told how the agent ended. Telling twice changes nothing."""
    state = entry.state
    if not isinstance(state, Closed | Resumable) or state.hand_off is None or state.hand_off.delivered_at is not None:
        return entry
    return _move(entry, replace(state, hand_off=replace(state.hand_off, delivered_at=now)))


def kept_by(entry: Entry, keeper: KeeperRef, *, now: int) -> Entry:
    """A new keeper takes over a live entry; the state is as it was.

    Raises:
        IllegalMove: the entry is not live.
    """
    if not is_live(entry):
        raise IllegalMove(f"{entry.name}: nothing to keep, it is {entry.status}", entry=entry.entry_id)
    return replace(entry, keeper=keeper, heartbeat_at=now)


def wanted_down(entry: Entry, *, grace_ms: int | None) -> Entry:
    """The owner wants it down: this beats any restart policy, also after a crash of its keeper."""
    return replace(entry, want="down", stop_grace_ms=grace_ms)
