"""What to do with what is on record: entries × verdicts × now → actions. Running it twice is running it once.

Only records whose processes are provably dead are changed, and only records are changed: nothing here can signal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from supervisor.core.entry import Closed, Entry, HandOff, Resumable, Running, Starting, is_live, unconfirmed
from supervisor.core.liveness import Judgement, Verdict
from supervisor.core.timing import AGE_SLACK_MS, ENDED_RETENTION_MS, RESUMABLE_RETENTION_MS
from supervisor.core.transitions import closed, over, resumable


class Attach(Struct, frozen=True):
    """A live agent without a keeper: a new keeper takes it over. Also one that its policy wants started again."""

    entry: Entry
    why: str


class Change(Struct, frozen=True):
    """Replace the record (provably dead, or ended) by `after`."""

    entry: Entry
    after: Entry
    why: str


class Remove(Struct, frozen=True):
    """Remove the record: nobody needs it any more."""

    entry: Entry
    why: str


Action = Attach | Change | Remove


def reconcile(
    entries: Sequence[Entry], *, judgements: Mapping[str, Judgement], boot_id: str, now: int
) -> tuple[Action, ...]:
    """The plan for one scan. `judgements` by entry id, `now` in epoch ms, `boot_id` the observer's."""
    plans = (_one(e, judgements[e.entry_id], boot_id, now) for e in entries)
    return tuple(a for a in plans if a is not None)


def _one(entry: Entry, judged: Judgement, boot_id: str, now: int) -> Action | None:
    if isinstance(entry.state, Closed | Resumable) and not is_live(entry):
        return _expired(entry, entry.state, now)
    if not judged.keeper_gone:
        return None
    if judged.verdict is Verdict.STALE:
        return Attach(entry, "its keeper is gone, the agent lives")
    if judged.verdict is not Verdict.DEAD_PID:
        return None
    why = comes_back(entry, boot_id=boot_id)
    return Attach(entry, why) if why else _found_dead(entry, judged, now)


def comes_back(entry: Entry, *, boot_id: str) -> str | None:
    """Why a new keeper is due to one that is gone together with its keeper: it may live, or is started again."""
    if entry.keeper.process.machine.boot_id != boot_id:
        return None
    if entry.plan.follow == "tree":
        return "its keeper and its wrapper are gone, the agent may live"
    if isinstance(entry.state, Starting):
        return "its keeper died while starting it"
    if isinstance(entry.state, Running) and entry.want == "up" and entry.plan.restart.policy == "permanent":
        return "it and its keeper are gone, its policy is permanent"
    return None


def _found_dead(entry: Entry, judged: Judgement, now: int) -> Change:
    end = HandOff(outcome="unknown", cause="lost", observed_at=now, detail=judged.evidence)
    if unconfirmed(entry):
        return Change(entry, over(entry, end, now=now), "its resume was not confirmed")
    if isinstance(entry.state, Starting):
        return Change(entry, closed(entry, end, now=now), "it was never seen running")
    if entry.agent.resume_context and entry.want == "up":
        return Change(entry, resumable(entry, end, now=now), "found dead, can be resumed")
    return Change(entry, closed(entry, end, now=now), "found dead")


def _expired(entry: Entry, state: Closed | Resumable, now: int) -> Change | Remove | None:
    """What is over is kept for its readers, not for ever; one that somebody tried to resume, counted from then."""
    end = state.hand_off
    if end is not None and min(state.since, end.observed_at) > now + AGE_SLACK_MS:
        return None  # both dates of its end lie ahead: a clock was set back, and that removes nothing
    over = (state.since, state.failed_resume.at if state.failed_resume else 0)
    since = _dated(over, entry, now)
    if since is None:
        if max(over) > 0:
            return None  # so do all its times
        return Change(entry, replace(entry, state=replace(state, since=now)), "it has no date, it is counted from now")
    if isinstance(state, Resumable):
        return Remove(entry, "resumable for 30 days") if now - since > RESUMABLE_RETENTION_MS else None
    told = state.hand_off.delivered_at
    if told is not None and now - (_dated((told, *over), entry, now) or since) > ENDED_RETENTION_MS:
        return Remove(entry, "ended and delivered")
    if now - since > RESUMABLE_RETENTION_MS:
        return Remove(entry, "ended 30 days ago")
    return None


def _dated(times: Sequence[int], entry: Entry, now: int) -> int | None:
    """The latest of these that can be read, else what else the record says of its age. None: it says nothing.

    Of a record whose last times lie ahead, as after a clock was set back, its start tells nothing about its end.
    """
    latest = now + AGE_SLACK_MS
    known = [t for t in times if 0 < t <= latest]
    if known:
        return max(known)
    other = entry.heartbeat_at if max(*times, entry.heartbeat_at) > 0 else entry.started_at
    return other if 0 < other <= latest else None
