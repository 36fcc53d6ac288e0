"""Telling a running driver something: end the turn, or begin another one. Returns when the driver has taken it.

Owns nothing; the requests are files (`adapters/driver_box.py`).
"""

from __future__ import annotations

from typing import Literal

from supervisor.adapters.clock import pause
from supervisor.adapters.driver_box import MAX_REQUEST, DriverBox, Request
from supervisor.core.entry import Entry, is_live
from supervisor.core.errors import BadInput, Refused
from supervisor.core.timing import MS, TICK_MS
from supervisor.runtime.compose import Context

TAKE_WAIT_MS = 40 * TICK_MS
"""A driver takes a request at once, also amid a turn; one that was stopped takes nothing."""

MAX_TEXT = MAX_REQUEST // 7
"""Bytes of a follow-up: JSON may write each as `\\u00xx`."""

Told = Literal["taken", "not_there", "silent"]


def follow_up(context: Context, entry: Entry, text: str) -> None:
    """Give a running agent its next prompt: a turn in the same session, after the one that runs.

    Raises:
        BadInput: an empty text, or a too long one. Refused: it cannot be told, or did not take it.
    """
    if not text.strip():
        raise BadInput("the prompt is empty")
    if len(text.encode(errors="replace")) > MAX_TEXT:
        raise BadInput(f"the prompt is longer than {MAX_TEXT} bytes")
    _tell(context, entry, Request("prompt", text))


def interrupt(context: Context, entry: Entry) -> None:
    """End the turn that runs; the agent stays and waits for a follow-up. Without a turn nothing happens.

    Raises:
        Refused: it cannot be told, or did not take it.
    """
    _tell(context, entry, Request("interrupt"))


def _tell(context: Context, entry: Entry, request: Request) -> None:
    name = entry.name
    if not is_live(entry):
        raise Refused(f"{name} does not run", hint=f"See what became of it: supervisor why {name}")
    if not entry.plan.driven:
        raise Refused(
            f"{name} ({entry.plan.profile}) is not spoken to by a driver, it cannot be told anything while it runs",
            hint=f"Wait for its end, or stop it: supervisor stop {name}",
        )
    told = put(context, entry.entry_id, request)
    if told == "not_there":
        raise Refused(f"{name} is not ready to be told anything, or just ends", hint=f"supervisor why {name}")
    if told == "silent":
        raise Refused(
            f"{name} has not taken it within {TAKE_WAIT_MS // 1000} s, it was taken back",
            hint=f"Its driver may be stopped: supervisor why {name}",
        )


def put(context: Context, entry_id: str, request: Request) -> Told:
    """Put a request and wait until it is taken; one that is not is taken back, so it is never done later."""
    box, clock = DriverBox(context.places.home, entry_id), context.clock
    try:
        name = box.put(request, now_ns=clock.monotonic_ns())
    except OSError as error:
        raise Refused(f"the request could not be written: {error.strerror}") from None
    if name is None:
        return "not_there"
    deadline = clock.monotonic_ns() + TAKE_WAIT_MS * MS
    while box.is_put(name):
        there = box.ring()
        if (not there or clock.monotonic_ns() >= deadline) and box.take_back(name):
            return "silent" if there else "not_there"
        pause(TICK_MS / 10_000)
    return "taken"
