"""The loop of an inbox: keys and ticks in, what `core.inbox` decides out, a frame on the screen; or events as lines.

Owns the terminal while it runs and gives it back on every way out, after the mark and the claims (`attending`).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Protocol

from msgspec import Struct

from supervisor.adapters.keyboard import Terminal, reader_is_gone
from supervisor.core.entry import Entry
from supervisor.core.inbox import (
    Answer,
    Changed,
    Claim,
    Effect,
    Event,
    Inbox,
    Key,
    Returned,
    Scroll,
    Tick,
    Unclaim,
    step,
)
from supervisor.core.line_edit import Press
from supervisor.core.liveness import Now
from supervisor.core.timing import MS, TICK_MS
from supervisor.runtime.ask_facts import AskParts
from supervisor.runtime.attending import Attending, Scope
from supervisor.runtime.deciding import Pending
from supervisor.runtime.loop import Loop
from supervisor.runtime.parts import Parts

ENDING = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})

ESCAPE_MS = TICK_MS // 5
"""A sequence arrives in one piece: after so long without its rest a lone Esc was the key."""

PASTE_MS = 4 * TICK_MS
"""A paste whose end got lost is over after so long a silence."""

Frame = tuple[Sequence[str], tuple[int, int] | None]
"""The lines of a screen, and the cursor's column and row."""


class Screen(Struct, frozen=True, kw_only=True):
    """What a frame is drawn from besides the machine's state. `names` are agents by session."""

    columns: int
    rows: int
    item: Pending | None
    entries: Sequence[Entry]
    names: Mapping[str, str]
    other: str
    trouble: str


class Left(Struct, frozen=True):
    """How an inbox was left: 0, or 128 and the signal's number; and what was done in it."""

    code: int
    notices: Sequence[str]


class View(Protocol):
    """Draws."""

    def frame(self, state: Inbox, at: Screen) -> Frame: ...
    def scroll(self, press: Press) -> None: ...


def run(parts: Parts, asks: AskParts, scope: Scope, view: View, *, terminal: tuple[int, int], once: bool) -> Left:
    """Be an inbox on a terminal (its descriptors in and out) until it is left.

    Raises:
        OSError: the mark cannot be written, or it is no terminal.
    """
    attending = Attending(parts, asks, scope)
    with ExitStack() as ends:
        loop = Loop(parts.clock)
        ends.callback(loop.close)
        ends.enter_context(_heard_too(signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT))
        screen = Terminal(*terminal)
        ends.callback(screen.release)
        ends.callback(screen.close)
        ends.callback(attending.leave)  # first: a stalled terminal must not keep the mark up
        attending.open()
        screen.open()
        open_inbox = InboxLoop(parts, attending, view, screen, loop, once=once)
        return Left(open_inbox.run(), open_inbox.state.notices)


Tell = Callable[[str, Pending, Sequence[Entry], str], None]
"""`asked` or `gone`, the ask, the entries as they were seen, and why it has gone."""


def follow(parts: Parts, asks: AskParts, scope: Scope, tell: Tell, *, once: bool, out: int) -> int:
    """Attend, and tell of every ask that appears or goes; answers nothing.

    Raises:
        OSError: the mark cannot be written.
    """
    attending = Attending(parts, asks, scope)
    with ExitStack() as ends:
        loop = Loop(parts.clock)
        ends.callback(loop.close)
        ends.callback(attending.leave)
        attending.open()
        told: set[int] = set()
        while True:
            now = parts.now()
            attending.renew(now)
            gone = attending.look(now)
            why = attending.why_gone(gone.values()) if gone else {}
            for item in gone.values() if gone else ():
                tell("gone", item, attending.entries, why[item.request.id])
            for key in [k for k in attending.waiting if k not in told]:
                tell("asked", attending.waiting[key], attending.entries, "")
            told = set(attending.waiting)
            if once or reader_is_gone(out):
                return 0
            signals, _ = loop.wait(now.monotonic_ns + TICK_MS * MS)
            if ending := signals & ENDING:
                return 128 + min(ending)


class InboxLoop:
    """One inbox on one terminal."""

    def __init__(
        self, parts: Parts, attending: Attending, view: View, terminal: Terminal, loop: Loop, *, once: bool
    ) -> None:
        self._parts, self._attending, self._view = parts, attending, view
        self._terminal, self._loop = terminal, loop
        self.state = Inbox(once=once)
        self._first: frozenset[int] | None = None
        self._settle_at = 0
        self._away = False
        self._dirty = True
        loop.watch(terminal.fd)

    def run(self) -> int:
        """Until it is left; 0, or 128 and the signal's number."""
        while True:
            now = self._parts.now()
            if not self._away or self._come_back(now):
                self._look(now)
                self._draw(now)
            if self.state.left or (self.state.mode == "reading" and self._attending.is_over()):
                return 0
            until = now.monotonic_ns + TICK_MS * MS
            if self._terminal.keys.unfinished:
                until = min(until, self._settle_at)
            signals, readable = self._loop.wait(until)
            if ending := signals & ENDING:
                return 128 + min(ending)
            if not self._hear(signals) and not self._away and not self._take_keys(self._terminal.fd in readable):
                return 0

    # -- what comes in

    def _hear(self, signals: set[int]) -> bool:
        """Whether the screen has been somebody else's meanwhile."""
        if signal.SIGWINCH in signals:
            self._terminal.redraw()
        if signal.SIGTSTP in signals:
            self._suspend()
        if signals & {signal.SIGTSTP, signal.SIGCONT}:
            self._away = True
            self._loop.forget(self._terminal.fd)  # keys typed for a shell must not wake us all the time
        return self._away

    def _take_keys(self, readable: bool) -> bool:
        """Keys that were typed until now; False at the end of the input."""
        now = self._parts.clock.monotonic_ns()
        keys = self._terminal.keys
        presses: Sequence[Press] | None = ()
        if readable:
            presses = self._terminal.read()
            self._settle_at = now + (PASTE_MS if keys.in_paste else ESCAPE_MS) * MS
        elif keys.unfinished and now >= self._settle_at:
            presses = keys.settle()
        for press in presses or ():
            if press.name == "ctrl-l":
                self._terminal.redraw()
            self._send(Key(press, now))  # all at the time of reading: a change in between makes the rest unheard
        return presses is not None

    def _look(self, now: Now) -> None:
        self._attending.renew(now)
        shown = self.state.shown.key if self.state.shown else None
        gone = self._attending.look(now, shown)
        if gone is not None or self._first is None:
            lost = gone.get(shown) if gone and shown is not None else None
            words = self._attending.why_gone([lost]) if lost else {}
            why = {shown: words[lost.request.id]} if lost and shown is not None else {}
            asks = self._attending.asks()
            if self._first is None:
                self._first = frozenset(a.key for a in asks)
            if self.state.once:
                asks = tuple(a for a in asks if a.key in self._first)
            self._send(Changed(asks, self._parts.clock.monotonic_ns(), why))
        self._send(Tick(self._parts.clock.monotonic_ns()))

    # -- what goes out

    def _send(self, event: Event) -> None:
        self.state, effects = step(self.state, event)
        for effect in effects:
            self._do(effect)

    def _do(self, effect: Effect) -> None:
        if isinstance(effect, Claim):
            self._attending.claim(effect.key, self._parts.now())
        elif isinstance(effect, Unclaim):
            self._attending.unclaim(effect.key)
        elif isinstance(effect, Answer):
            self._send(self._attending.answer(effect))
        elif isinstance(effect, Scroll):
            self._view.scroll(effect.press)
            self._dirty = True
        elif effect == "flush":
            self._terminal.drain()
        elif effect == "ring":
            self._terminal.ring()
        else:
            self._dirty = True

    def _draw(self, now: Now) -> None:
        if not self._dirty:
            return
        self._dirty = False
        item = self._attending.item(self.state.shown.key, now) if self.state.shown else None
        columns, rows = self._terminal.size()
        entries = self._attending.entries
        at = Screen(
            columns=columns,
            rows=rows,
            item=item,
            entries=entries,
            names={e.session_id: e.name for e in entries},
            other=self._attending.other(item),
            trouble=self._attending.trouble,
        )
        self._terminal.draw(*self._view.frame(self.state, at))

    # -- job control

    def _suspend(self) -> None:
        """Ctrl-Z: nobody attends, the shell gets its terminal, and we stop as any program does."""
        self._attending.leave()
        self._terminal.close()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, _heard)

    def _come_back(self, now: Now) -> bool:
        """Take the screen again once it is ours; in the background nobody attends."""
        if not self._terminal.is_ours():
            self._attending.leave()
            return False
        self._away = False
        self._loop.watch(self._terminal.fd)
        self._terminal.open()
        self._attending.open()
        self._send(Returned(now.monotonic_ns))
        return True


@contextmanager
def _heard_too(*numbers: signal.Signals) -> Iterator[None]:
    """Signals that wake the loop besides its own."""
    before = {n: signal.signal(n, _heard) for n in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _heard(_number: int, _frame: object) -> None:
    """The loop does the rest."""
