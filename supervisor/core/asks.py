"""An ask as the waiting child sees it: `step(state, event, now) → state, effects`. Pure, standard library only.

Every ask ends in exactly one decision. An abandonment is a denial with a reason of its own, never a user's refusal.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from supervisor.core.ask_reasons import (
    CORRUPT_RESPONSE,
    WITHDRAWN,
    Reason,
    not_serving,
    timeout,
)
from supervisor.core.ask_wire import Malformed, Response
from supervisor.core.serving import Judgement, Target
from supervisor.core.timing import MS, TICK_MS

SERVING_GRACE_MS = 8 * TICK_MS
"""Continuously unserved so long before an ask is abandoned (pi's figure: eight polls)."""


class Decision(NamedTuple):
    """How an ask ended. `unavailable`: nobody decided; then `code` says why and `approved` is False."""

    approved: bool
    state: str
    reason: str | None = None
    code: str = "decided"
    unavailable: bool = False
    responder: str | None = None
    decided_by: Any = None
    for_session: bool = False


class Waiting(NamedTuple):
    """Waiting for `target`. Monotonic ns; `unserved_since` while nobody serves, `looked_since` while somebody looks."""

    target: Target
    deadline: int
    timeout_ms: int
    now: int
    unserved_since: int | None = None
    looked_since: int | None = None
    last: Judgement | None = None


class Done(NamedTuple):
    """Decided. `seen`: how the target was judged, where the ask was given up by that."""

    decision: Decision
    seen: Judgement | None = None


AskState = Waiting | Done


class Answered(NamedTuple):
    """A response was read."""

    response: Response | Malformed


class Judged(NamedTuple):
    """The target was judged."""

    judgement: Judgement


class LookedAt(NamedTuple):
    """Whether a person is looking at it right now."""

    looking: bool


class Withdrawn(NamedTuple):
    """The waiting process was told to end."""


class Moved(NamedTuple):
    """The asker has a new parent (adoption): the ask goes there."""

    target: Target


AskEvent = Answered | Judged | LookedAt | Withdrawn | Moved
Effect = Literal["remove_request", "remove_response", "write_request"]


def begin(target: Target, *, timeout_ms: int, now: int) -> Waiting:
    """The request has just been written."""
    return Waiting(target, now + timeout_ms * MS, timeout_ms, now)


def step(state: AskState, event: AskEvent, *, now: int) -> tuple[AskState, tuple[Effect, ...]]:
    """One event further. A done ask stays as it is, whatever comes."""
    if isinstance(state, Done):
        return state, ()
    if isinstance(event, Answered):
        return _answered(event.response)
    if isinstance(event, Withdrawn):
        return _abandon(WITHDRAWN, state.last)
    if isinstance(event, Moved):
        return state._replace(target=event.target, unserved_since=None, last=None, now=now), (
            "remove_request",
            "write_request",
        )
    if isinstance(event, LookedAt):
        return _looked_at(state, event.looking, now), ()
    return _judged(state, event.judgement, now)


def _answered(response: Response | Malformed) -> tuple[AskState, tuple[Effect, ...]]:
    if isinstance(response, Malformed):
        state, effects = _abandon(CORRUPT_RESPONSE)
        return state, (*effects, "remove_response")
    code = response.ours.get("code") if isinstance(response.ours.get("code"), str) else None
    decision = Decision(
        approved=response.approved,
        state="approved" if response.state == "approved_for_serving_session" else response.state,
        reason=response.reason,
        code=code or "decided",
        unavailable=_is_unavailable(response),
        responder=response.responder,
        decided_by=response.decided_by,
        for_session=response.state == "approved_for_session",
    )
    return Done(decision), ("remove_request", "remove_response")


def _is_unavailable(response: Response) -> bool:
    """Nobody decided: said so by the session itself, or by one further up (pi nests at most four)."""
    by = response.decided_by
    for _ in range(8):
        if not isinstance(by, dict) or by.get("kind") != "forwarded":
            break
        by = by.get("decision")
    return not response.approved and isinstance(by, dict) and by.get("kind") in ("unavailable", "gate_error")


def _looked_at(state: Waiting, looking: bool, now: int) -> Waiting:
    """While somebody looks at it the timeout waits: the deadline moves on by the time that has passed."""
    passed = max(now - state.now, 0)
    deadline = state.deadline + (passed if state.looked_since is not None else 0)
    since = (state.looked_since or now) if looking else None
    return state._replace(deadline=deadline, looked_since=since, now=now)


def _judged(state: Waiting, seen: Judgement, now: int) -> tuple[AskState, tuple[Effect, ...]]:
    if seen.answer == "not_serving":
        since = state.unserved_since if state.unserved_since is not None else now
        if now - since >= SERVING_GRACE_MS * MS:
            return _abandon(not_serving(state.target.session_id, seen), seen)
        return state._replace(unserved_since=since, last=seen), ()
    state = state._replace(unserved_since=None, last=seen)
    if now >= state.deadline and state.looked_since is None:
        return _abandon(timeout(state.target.session_id, state.timeout_ms), seen)
    return state, ()


def _abandon(reason: Reason, seen: Judgement | None = None) -> tuple[AskState, tuple[Effect, ...]]:
    return Done(abandoned(reason), seen), ("remove_request",)


def abandoned(reason: Reason) -> Decision:
    """The denial that nobody decided."""
    return Decision(approved=False, state="denied", reason=reason.text, code=reason.code, unavailable=True)
