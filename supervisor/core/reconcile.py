"""What to do with what is on record: entries × verdicts × now → actions. Running it twice is running it once.

Only records whose processes are provably dead are changed, and only records are changed: nothing here can signal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from supervisor.core.entry import Closed, Entry, HandOff, Resumable, Starting, is_live
from supervisor.core.liveness import Judgement, Verdict
from supervisor.core.timing import ENDED_RETENTION_MS, RESUMABLE_RETENTION_MS
from supervisor.core.transitions import closed, resumable


class Attach(Struct, frozen=True):
    """A live agent without a keeper: a new keeper takes it over. Also one that its policy wants started again."""

    entry: Entry
    why: str


class Change(Struct, frozen=True):
    """Replace the record (provably dead) by `after`."""

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
    if isinstance(entry.state, Closed):
        return _expired_close(entry, entry.state, now)
    if isinstance(entry.state, Resumable):
        if now - entry.state.since > RESUMABLE_RETENTION_MS:
            return Remove(entry, "resumable for 30 days")
        return None
    if not (is_live(entry) and judged.keeper_gone):
        return None
    if judged.verdict is Verdict.STALE:
        return Attach(entry, "its keeper is gone, the agent lives")
    if judged.verdict is not Verdict.DEAD_PID:
        return None
    same_boot = entry.keeper.process.machine.boot_id == boot_id
    if same_boot and entry.plan.follow == "tree":
        return Attach(entry, "its keeper and its wrapper are gone, the agent may live")
    if same_boot and isinstance(entry.state, Starting):
        return Attach(entry, "its keeper died while starting it")
    if same_boot and entry.want == "up" and entry.plan.restart.policy == "permanent":
        return Attach(entry, "it and its keeper are gone, its policy is permanent")
    return _found_dead(entry, judged, now)


def _found_dead(entry: Entry, judged: Judgement, now: int) -> Change:
    end = HandOff(outcome="unknown", cause="lost", observed_at=now, detail=judged.evidence)
    if isinstance(entry.state, Starting):
        return Change(entry, closed(entry, end, now=now), "it was never seen running")
    if entry.agent.resume_context and entry.want == "up":
        return Change(entry, resumable(entry, end, now=now), "found dead, can be resumed")
    return Change(entry, closed(entry, end, now=now), "found dead")


def _expired_close(entry: Entry, state: Closed, now: int) -> Remove | None:
    told = state.hand_off.delivered_at
    if told is not None and now - told > ENDED_RETENTION_MS:
        return Remove(entry, "ended and delivered")
    if now - state.since > RESUMABLE_RETENTION_MS:
        return Remove(entry, "ended 30 days ago")
    return None
