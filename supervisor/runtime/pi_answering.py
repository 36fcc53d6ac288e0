"""The serving side of a keeper with pi agents: what every keeper does, and pi's own folders. Owns nothing itself."""

from __future__ import annotations

from collections.abc import Iterable

from supervisor.core.entry import Entry, KeeperRef
from supervisor.core.liveness import Now
from supervisor.runtime.announcing import Announcer
from supervisor.runtime.answering import Answering
from supervisor.runtime.ask_facts import AskParts
from supervisor.runtime.parts import Parts
from supervisor.runtime.pi_children import PiChildren


class PiAnswering(Answering):
    """`Answering`, and beside it the asks that pi children write into pi's folder."""

    def __init__(
        self,
        parts: Parts,
        asks: AskParts,
        keeper: KeeperRef,
        *,
        on_terminal: bool,
        announcer: Announcer | None = None,
    ) -> None:
        super().__init__(parts, asks, keeper, on_terminal=on_terminal, announcer=announcer)
        self._children = PiChildren(parts, asks, keeper)

    def beat(self, now: Now, entries: Iterable[Entry]) -> None:
        """Our own sessions first: whether they serve decides whether pi's folder is served."""
        entries = tuple(entries)
        super().beat(now, entries)
        self._children.beat(now, entries)

    def turn(self, now: Now) -> int | None:
        """Before our own: what is passed on to a session of this keeper is taken in the same turn."""
        due = [t for t in (self._children.turn(now), super().turn(now)) if t is not None]
        return min(due) if due else None

    def close(self) -> None:
        """Both."""
        self._children.close()
        super().close()
