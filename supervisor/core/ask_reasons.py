"""Why an ask was refused although nobody decided: each reason with its own code. Pure, standard library only.

None of them is worded as a refusal by a user, because none of them is one.
"""

from __future__ import annotations

from typing import NamedTuple

from supervisor.core.serving import Judgement


class Reason(NamedTuple):
    """A stable code for machines and a sentence for people and models."""

    code: str
    text: str


NO_TARGET = Reason("no_target", "could not resolve a parent session to forward this permission request to")
WRITE_FAILED = Reason("write_failed", "the forwarded permission request could not be written")
CORRUPT_RESPONSE = Reason("corrupt_response", "the parent session's permission response could not be read")
TOO_LARGE = Reason(
    "too_large",
    "the permission request is too large to be judged; put the text into a file and ask for a command on it",
)
WITHDRAWN = Reason("withdrawn", "the waiting process was told to end, the permission request was withdrawn")


def directories(target: str) -> Reason:
    """The inbox cannot be made or used."""
    return Reason("directories", f"permission forwarding directories could not be prepared for session '{target}'")


def not_serving(target: str, seen: Judgement) -> Reason:
    """Nobody there, with since when, which evidence, and what to do."""
    evidence = {
        "absent": "it has no serving heartbeat",
        "stale": "its heartbeat has stopped",
        "dead_pid": "its process is gone",
        "unknown": "it cannot be judged from here",
        "alive": "it has just come back",
    }[seen.state]
    todo = "start it again or attach an inbox (supervisor inbox), then ask again"
    if seen.channel == "process":
        todo = "have a person before that pi, with its permission extension, then ask again"
        evidence = evidence if seen.state != "absent" else "it is a pi that takes up no requests"
    since = f", last heartbeat {seen.age_ms / 1000:.1f} s ago" if seen.age_ms is not None else ""
    return Reason(
        "not_serving",
        f"session '{target}' is not serving forwarded permission requests ({evidence}{since}). Nobody has decided: "
        f"{todo}",
    )


def timeout(target: str, ms: int) -> Reason:
    """It served, and nobody decided in time."""
    return Reason("timeout", f"session '{target}' did not answer within {ms / 1000:g}s")


def own_session(target: str) -> Reason:
    """The parent variable names oneself."""
    return Reason("self", f"session '{target}' is this session itself")


def cycle(target: str) -> Reason:
    """The parents lead back to the asker."""
    return Reason("cycle", f"session '{target}' is its own descendant")


def undecidable(target: str) -> Reason:
    """It serves by rules alone, and none of them decides this."""
    return Reason(
        "no_rule",
        f"session '{target}' decides by rules only and none of them covers this permission request; nobody has decided",
    )


def inbox_full(target: str, most: int) -> Reason:
    """More wait already than anybody will look at."""
    return Reason("inbox_full", f"{most} permission requests wait at session '{target}' already; nobody has decided")


def expired(target: str) -> Reason:
    """It came too late to be put before a person as if it were alive."""
    return Reason("expired", f"the permission request to session '{target}' was older than its timeout")


def malformed(why: str) -> Reason:
    """The request itself cannot be taken."""
    return Reason("malformed", f"the permission request is malformed: {why}")


def misaddressed(target: str, here: str) -> Reason:
    """It lies in another session's inbox."""
    return Reason("misaddressed", f"the permission request is for session '{target}' and was found at '{here}'")
