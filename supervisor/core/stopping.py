"""The stop ladder: ask, wait for the whole tree, freeze and kill what is left, name what survives. Pure."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from supervisor.core.timing import KILL_WAIT_MS, MS, STOP_RESCAN_MS


class Stopping(Struct, frozen=True):
    """Where on the ladder one agent is. `deadline` (monotonic ns) ends the phase."""

    phase: Literal["ask", "ask_again", "grace", "kill"]
    grace_ms: int
    deadline: int = 0


class AskToStop(Struct, frozen=True):
    """Send the profile's stop signal to the agent."""


class KillTree(Struct, frozen=True):
    """Freeze, rescan until stable, SIGKILL all of it."""


class LookAgain(Struct, frozen=True):
    """Nothing to do before this monotonic time (ns), or an exit."""

    at: int


class Empty(Struct, frozen=True):
    """Nothing of the tree is left; verified by looking, not assumed."""


class Survived(Struct, frozen=True):
    """Killed, waited, and still there: to be named."""


Step = AskToStop | KillTree | LookAgain | Empty | Survived


def begin(grace_ms: int) -> Stopping:
    """The first rung."""
    return Stopping("ask", grace_ms)


def sooner(stop: Stopping, grace_ms: int, now_ns: int) -> Stopping:
    """Another stop gives less time: it is asked again and has so long from now, unless it had even less left."""
    if grace_ms >= stop.grace_ms or stop.phase == "kill":
        return stop
    left = stop.grace_ms * MS // 2 if stop.phase == "ask_again" else 0
    if stop.phase != "ask" and stop.deadline + left <= now_ns + grace_ms * MS:
        return stop
    return begin(grace_ms)


def next_step(stop: Stopping, *, alive: int, now_ns: int) -> tuple[Stopping, Step]:
    """One rung further: `alive` is how many processes of the tree were just seen.

    Half-way through the grace it is asked once more: pi ignores the first TERM while it asks for a permission.
    """
    if alive == 0:
        return stop, Empty()
    if stop.phase == "ask":
        half = now_ns + stop.grace_ms * MS // 2
        return Stopping("ask_again", stop.grace_ms, half), AskToStop()
    if stop.phase in ("ask_again", "grace") and now_ns < stop.deadline:
        return stop, LookAgain(min(stop.deadline, now_ns + STOP_RESCAN_MS * MS))
    if stop.phase == "ask_again" and stop.grace_ms:
        return Stopping("grace", stop.grace_ms, stop.deadline + stop.grace_ms * MS // 2), AskToStop()
    if stop.phase in ("ask_again", "grace"):
        return Stopping("kill", stop.grace_ms, now_ns + KILL_WAIT_MS * MS), KillTree()
    if now_ns < stop.deadline:
        return stop, KillTree()
    return stop, Survived()
