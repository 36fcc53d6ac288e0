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
from supervisor.runtime.pi_screens import PiScreens


class PiAnswering(Answering):
    """`Answering`, and beside it the asks that pi children write into pi's folder, and pi's own dialogs."""

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
        self._screens = PiScreens(parts, asks)

    def beat(self, now: Now, entries: Iterable[Entry]) -> None:
        """Our own sessions first: whether they serve decides whether pi's folder is served."""
        entries = tuple(entries)
        super().beat(now, entries)
        self._children.beat(now, entries)
        self._screens.beat(entries)

    def turn(self, now: Now) -> int | None:
        """Before our own: what is passed on to a session of this keeper is taken in the same turn."""
        times = [self._children.turn(now), super().turn(now)]
        times.append(self._screens.turn({s.id: s.waiting for s in self._sessions.values()}, now))
        return min((t for t in times if t is not None), default=None)

    def close(self) -> None:
        """All of it."""
        self._screens.close()
        self._children.close()
        super().close()
