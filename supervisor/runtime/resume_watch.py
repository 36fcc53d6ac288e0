"""One resume as its keeper follows it: confirmed by the agent, or failed and to be taken back. Owns the reason."""

from __future__ import annotations

from typing import Literal

from supervisor.core import transitions
from supervisor.core.entry import Entry, HandOff, unconfirmed
from supervisor.core.resuming import outcome


class ResumeWatch:
    """`failed`: why the resume under way has failed; the agent is then stopped before its record is taken back."""

    def __init__(self) -> None:
        self.failed: str | None = None

    def judge(self, entry: Entry, *, waited_ms: float) -> Literal["confirmed", "failed", ""]:
        """What has become of it just now; nothing of an agent that is not being resumed."""
        if unconfirmed(entry) is None or self.failed is not None:
            return ""
        found = outcome(entry, waited_ms=waited_ms)
        if found is True:
            return "confirmed"
        self.failed = found or None
        return "failed" if found else ""

    def over(self, entry: Entry, hand_off: HandOff, *, now: int) -> Entry:
        """The record of an agent that was stopped: taken back, if that was because of its resume."""
        if self.failed is not None and entry.want == "up" and unconfirmed(entry) is not None:
            return transitions.rolled_back(entry, self.failed, now=now)
        return transitions.stopped(entry, hand_off, now=now)
