"""One driver at work: a CLI started, its protocol carried on, its asks relayed, turns begun and ended, its end.

The only loop of the drivers. Owns the order of things; the protocol is the speaker's, the process the CliProcess's.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal

from supervisor.adapters.driver_box import Request
from supervisor.core.ask_words import decided_by, denial
from supervisor.core.asks import Decision
from supervisor.core.ending import signal_number
from supervisor.core.ports import Clock
from supervisor.core.text import one_line
from supervisor.core.timing import MS, READY_TIMEOUT_MS, TICK_MS
from supervisor.drivers.effects import (
    Ask,
    Broken,
    Effect,
    Effects,
    Kind,
    Proven,
    Ready,
    Say,
    Send,
    Speaker,
    TurnEnded,
    Withdraw,
)
from supervisor.drivers.links import Garbled, Link
from supervisor.drivers.parts import Asks, Box, Cli, Decided, Event, Heard, Inbox, Posted, Rung, Told
from supervisor.runtime.tool_use import PermissionAsk

OPEN_WAIT_MS = 2 * READY_TIMEOUT_MS
"""How long a CLI may take until it can be given a prompt; twice what a launcher waits for the whole agent."""

EOF_WAIT_MS = 4 * TICK_MS
"""How long a CLI whose input has ended may take to end by itself; those that do need a twentieth of it."""

TERM_WAIT_MS = 8 * TICK_MS
"""How long it may take after TERM: claude with a hook at work needs 1.6 s."""


class Driver:
    """`run` once. `prove` is called when the CLI has named its session; what is in the way of that is said."""

    def __init__(
        self,
        speaker: Speaker,
        link: Link,
        *,
        cli: Cli,
        asks: Asks,
        box: Box,
        inbox: Inbox,
        prompt: str,
        say: Callable[[Kind, str], None],
        prove: Callable[[str, str | None], str | None],
        clock: Clock,
    ) -> None:
        self._speaker = speaker
        self._link = link
        self._cli = cli
        self._asks = asks
        self._box = box
        self._inbox = inbox
        self._say = say
        self._prove = prove
        self._clock = clock
        self._prompts: deque[str] = deque([prompt] if prompt else [])
        self._session: str | None = None
        self._ready = False
        self._turn: Literal["none", "running", "interrupted"] = "none"
        self._last: TurnEnded | None = None
        self._code: int | None = None

    def run(self) -> int:
        """Drive until the last turn is over, something breaks, or we are told to end; the exit code."""
        try:
            self._do(self._speaker.open())
            deadline = self._clock.monotonic_ns() + OPEN_WAIT_MS * MS
            while self._code is None:
                event = self._next_event(None if self._ready else deadline)
                if event is None:
                    self._break(f"it was not ready within {OPEN_WAIT_MS // 1000} s")
                else:
                    self._handle(event)
        finally:
            self._end()
        assert self._code is not None
        return self._code

    def _next_event(self, deadline: int | None) -> Event | None:
        """The next thing that happens; None when the deadline (monotonic ns) has passed."""
        if deadline is None:
            return self._inbox.get()
        try:
            return self._inbox.get(timeout=max(deadline - self._clock.monotonic_ns(), 0) / (1000 * MS))
        except queue.Empty:
            return None

    def _handle(self, event: Event) -> None:
        match event:
            case Heard(None):
                how = self._cli.describe_end() if self._gone_within(EOF_WAIT_MS) else "the CLI has closed its output"
                self._break(f"{how}{_after(self._cli.last_words())}")
            case Heard(line):
                self._cli.taken()
                self._hear(self._link.line(line or b""))
            case Posted(message):
                self._hear((message,))
            case Decided(key, decision):
                if self._asks.settle(key):
                    self._answer(key, decision)
            case Told(number):
                self._say("note", f"told to end by signal {number}")
                self._code = 128 + number
            case Rung():
                ended = self._cli.reap()
                if ended:
                    self._drain()
                for request in () if ended else self._box.take():  # what is not taken its sender takes back
                    self._obey(request)

    def _drain(self) -> None:
        """The CLI is gone: what it had said before counts, then it is over."""
        while self._code is None:
            try:
                event = self._inbox.get(timeout=EOF_WAIT_MS / 1000)  # a helper may hold its output open: not for ever
            except queue.Empty:
                break
            if isinstance(event, Heard) and event.line is None:
                break
            if not isinstance(event, Rung):
                self._handle(event)
        self._break(f"{self._cli.describe_end()}{_after(self._cli.last_words())}")

    def _hear(self, messages: Sequence[Any]) -> None:
        for message in messages:
            if self._code is not None:
                return
            if isinstance(message, Garbled):
                self._do(self._speaker.garbled(message.why))
            else:
                self._do(self._speaker.hear(message))

    def _do(self, effects: Effects) -> None:
        for effect in effects:
            if self._code is None:
                self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send(message):
                self._link.send(message)
            case Say(kind, text):
                self._say(kind, text)
            case Proven():
                self._proven(effect)
            case Ready():
                self._ready = True
                self._go_on()
            case Ask():
                self._ask(effect)
            case Withdraw(key):
                if self._asks.withdraw(key):
                    self._say("note", "the permission request was withdrawn")
            case TurnEnded():
                self._turn_ended(effect)
            case Broken(why):
                self._break(why)

    def _proven(self, proven: Proven) -> None:
        if self._session == proven.session:
            return
        self._session = proven.session
        problem = self._prove(proven.session, proven.file)
        self._say("note", f"session {proven.session}")
        if problem:
            self._say("error", f"the session id was not proven: {problem}")

    # -- asks

    def _ask(self, ask: Ask) -> None:
        if isinstance(ask.wanted, PermissionAsk):
            self._say("note", f"asks for permission: {ask.wanted.tool} {one_line(ask.wanted.value, 2000)}")
        decision = self._asks.put(ask.key, ask.wanted)
        if decision is not None:
            self._answer(ask.key, decision)

    def _answer(self, key: str, decision: Decision) -> None:
        if decision.approved is True:
            self._say("note", f"allowed by {decided_by(decision) or 'the parent session'}")
        else:
            self._say("note", denial(decision))
        self._do(self._speaker.answer(key, decision))

    # -- turns

    def _obey(self, request: Request) -> None:
        if request.do == "prompt":
            self._prompts.append(request.text)
            self._go_on()
        elif self._turn == "running":
            self._turn = "interrupted"
            self._say("note", "told to end the turn")
            self._do(self._speaker.interrupt())

    def _go_on(self) -> None:
        """Begin the next turn; without another one to come the agent is done, unless it was interrupted."""
        if not self._ready or self._turn != "none" or self._code is not None:
            return
        if not self._prompts and self._last is not None and self._last.how != "interrupted":
            self._prompts.extend(request.text for request in self._box.leave() if request.do == "prompt")
            if not self._prompts:
                self._code = 0 if self._last.how == "done" else 1
                return
            self._box.listen_again()
        if self._prompts:
            if self._last is not None:
                self._say("note", "a follow-up begins the next turn")
            self._turn = "running"
            self._do(self._speaker.prompt(self._prompts.popleft()))

    def _turn_ended(self, ended: TurnEnded) -> None:
        if self._turn == "none":
            return
        how = "interrupted" if self._turn == "interrupted" else ended.how  # also where it was done just before
        self._turn, self._last = "none", ended._replace(how=how)
        why = f": {one_line(ended.why, 2000)}" if ended.why else ""
        self._say("error" if how == "failed" else "note", f"the turn has {_PAST[how]}{why}")
        self._go_on()

    # -- the end

    def _break(self, why: str) -> None:
        if self._code is None:
            self._say("error", why)
            self._code = 1

    def _end(self) -> None:
        """Polite first: the protocol's last words and the end of its input, then TERM, then all that is left."""
        self._code = 1 if self._code is None else self._code
        self._asks.close()
        for effect in self._speaker.close():
            if isinstance(effect, Send):
                self._link.send(effect.message)
        self._link.close()
        self._cli.end_input()
        hears_eof = self._speaker.ends_on_eof or (self._speaker.ends_on_eof is False and self._turn == "none")
        if not hears_eof or not self._gone_within(EOF_WAIT_MS):
            self._cli.signal(signal_number("TERM"))
            self._gone_within(TERM_WAIT_MS)
        left = self._cli.end_left()
        if left:
            self._say("error", f"still alive: {left}")
        self._link.ended()
        self._box.close()

    def _gone_within(self, ms: int) -> bool:
        """Whether the CLI ends in time; meanwhile it may go on talking, and nobody listens."""
        deadline = self._clock.monotonic_ns() + ms * MS
        while not self._cli.reap():
            event = self._next_event(deadline)
            if event is None:
                return self._cli.reap()
            if isinstance(event, Told):
                return False
            if isinstance(event, Heard):
                self._cli.taken()
        return True


_PAST = {"done": "ended", "failed": "failed", "interrupted": "been interrupted"}


def _after(words: str) -> str:
    return f": {one_line(words, 2000)}" if words else ""
