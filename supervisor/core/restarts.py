"""Whether and when a dead agent is started again. Pure; the tally it reads is in the entry, so a new keeper goes on."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from supervisor.core.entry import Death, Entry, HandOff, Running, Starting, Want, unconfirmed
from supervisor.core.launch_plan import RestartPlan
from supervisor.core.liveness import Now
from supervisor.core.timing import MS, RESTART_MAX_MS, RESTART_STEP_MS


class StartAt(Struct, frozen=True):
    """Start again, not before this monotonic time (ns); `attempt` counts deaths within the period."""

    not_before: int
    attempt: int


class GiveUp(Struct, frozen=True):
    """Do not start again, and why."""

    why: str


def after_death(entry: Entry, end: HandOff, tally: Death, now: Now, *, spread: float) -> StartAt | GiveUp:
    """Decide for one agent. An orphan is not started again, nor is one whose resume was not confirmed."""
    if not isinstance(entry.state, Running | Starting):
        return GiveUp("its parent was lost")
    if unconfirmed(entry):
        return GiveUp("its resume was not confirmed")
    return next_start(
        entry.plan.restart,
        want=entry.want,
        end=end,
        deaths=(*entry.deaths, tally),
        boot_id=now.machine.boot_id,
        now_ns=now.monotonic_ns,
        spread=spread,
    )


def next_start(
    policy: RestartPlan,
    *,
    want: Want,
    end: HandOff,
    deaths: Sequence[Death],
    boot_id: str,
    now_ns: int,
    spread: float,
) -> StartAt | GiveUp:
    """Decide after a death that is already the last of `deaths`.

    The first restart within a period is immediate; the n-th waits `RESTART_STEP_MS * 2^(n-2)`, at most
    `RESTART_MAX_MS`, stretched by up to half by `spread` (0..1), so that a hundred deaths at once do not come back at
    once. Only monotonic times of this boot count: a wall clock set back a year changes nothing.
    """
    if want == "down":
        return GiveUp("it is wanted down")
    if policy.policy == "temporary":
        return GiveUp("its restart policy is temporary")
    if policy.policy == "transient" and end.success is not False:
        return GiveUp("nobody knows how it ended" if end.outcome == "unknown" else "it ended without failure")
    since = now_ns - policy.period_seconds * 1000 * MS
    recent = sum(1 for d in deaths if d.boot_id == boot_id and since < d.monotonic_ns <= now_ns)
    if recent > policy.intensity:
        return GiveUp(f"it died {recent} times within {policy.period_seconds} s")
    if recent <= 1:
        return StartAt(now_ns, recent)
    backoff = min(RESTART_STEP_MS * 2 ** (recent - 2), RESTART_MAX_MS)
    return StartAt(now_ns + int(backoff * (1 + spread / 2) * MS), recent)
