"""In every order of events an answer goes only to the ask that was on the screen when its key was typed.

And never an allow out of the reason editor. The person types on what the last frame showed; keys lie unread in the
terminal until the loop reads them all at once; `flush` throws away what lies there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from supervisor.adapters.keyboard import Keys
from supervisor.core.inbox import (
    Answer,
    Answered,
    Ask,
    Changed,
    Claim,
    Event,
    Inbox,
    Key,
    Returned,
    Sending,
    Tick,
    Unclaim,
    step,
)
from supervisor.core.line_edit import MAX_TEXT, Press, Typing
from supervisor.core.timing import MS

NAMES = ("enter", "enter", "esc", "esc", "backspace", "left", "home", "ctrl-u", "ctrl-w", "unknown", "up")
LETTERS = [Press("char", c) for c in "aaaaddcsyrrnv?x j"]
ALL = [*LETTERS, *map(Press, NAMES), Press("paste", "a"), Press("paste", "y\na")]
HABITS = [
    "a",
    "aa",
    "d",
    "c",
    "sy",
    "sn",
    "n",
    "nn",
    "r",
    "rno\r",
    "rno\ra",
    "ra\x1b",
    "ra\x1ba",
    "va",
    "vqa",
    "?a",
    "y\r",
    "\r",
    "\x1b",
]
SPECIAL = {"\r": Press("enter"), "\x1b": Press("esc")}
presses = st.one_of(
    st.sampled_from(HABITS).map(lambda keys: [SPECIAL.get(k) or Press("char", k) for k in keys]),
    st.lists(st.sampled_from(ALL), min_size=1, max_size=5),
)
outcomes = st.sampled_from(["applied", "already_answered", "gone", "other_ask", "failed"])


class Typed(NamedTuple):
    """A key on its way, and what the person saw when it was typed."""

    press: Press
    on: int | None
    in_editor: bool


class InboxOrders(RuleBasedStateMachine):
    """A person, a terminal, and a world that changes under them."""

    def __init__(self) -> None:
        super().__init__()
        self.state = Inbox()
        self.now = 10_000 * MS
        self.unread: list[Typed] = []
        self.world: list[Ask] = []
        self.serial = 0
        self.claimed: int | None = None
        self.settled: set[int] = set()
        self.at_key: Typed | None = None

    def send(self, event: Event) -> None:
        before = self.state
        self.state, effects = step(self.state, event)
        for effect in effects:
            if isinstance(effect, Answer):
                self.check(effect)
            elif isinstance(effect, Claim):
                assert self.claimed in (None, effect.key), "two claims at once"
                self.claimed = effect.key
            elif isinstance(effect, Unclaim):
                assert self.claimed in (None, effect.key)
                self.claimed = None
            elif effect == "flush":
                self.unread.clear()
        if before.shown is not None and self.state.shown != before.shown and not self.state.left:
            assert self.may_replace(before, event), "a later ask has replaced the one on the screen"
        if self.state.shown not in (None, before.shown):
            there = event.asks if isinstance(event, Changed) else before.waiting
            queue = [a for a in before.waiting if a in there]
            assert not queue or self.state.shown == queue[0], "not the next in the queue"
        if self.state.left:
            self.open_again()

    def may_replace(self, before: Inbox, event: Event) -> bool:
        assert before.shown is not None
        if isinstance(event, Changed):
            return before.shown not in event.asks
        return isinstance(event, Answered) or (isinstance(event, Key) and event.press == Press("char", "n"))

    def check(self, answer: Answer) -> None:
        typed = self.at_key
        assert typed is not None, "an answer without a key"
        assert answer.key == typed.on, "an answer to another ask than the one on the screen"
        assert not (answer.approved and typed.in_editor), "an allow out of the reason editor"
        assert typed.press.name != "paste", "a paste has answered"
        assert answer.key not in self.settled, "answered twice"

    @rule(several=presses)
    def type(self, several: list[Press]) -> None:
        shown = self.state.shown.key if self.state.shown else None
        self.unread += [Typed(press, shown, isinstance(self.state.mode, Typing)) for press in several]

    @rule(several=presses, outcome=outcomes)
    def a_person_waits_and_types(self, several: list[Press], outcome: Any) -> None:
        """One key after the other, each read at once and seen to work."""
        self.time_passes(1000)
        for press in several:
            self.type([press])
            self.read(outcome, True)

    @precondition(lambda self: isinstance(self.state.mode, Typing))
    @rule(text=st.text("adcsyrnvq?", min_size=1, max_size=4), ms=st.sampled_from([1, 1000]))
    def it_goes_while_a_reason_is_typed_without_looking(self, text: str, ms: int) -> None:
        shown = self.state.shown
        assert shown is not None
        if shown in self.world:
            self.world.remove(shown)
        self.look()
        self.time_passes(ms)
        self.unread += [Typed(Press("char", c), shown.key, True) for c in text]
        self.read("applied", True)

    @rule(outcome=outcomes, at_once=st.booleans())
    def read(self, outcome: Any, at_once: bool) -> None:
        """The loop reads all that was typed; an answer's outcome comes before the next key of the batch, or later."""
        batch, self.unread, read_at = self.unread, [], self.now
        for typed in batch:
            self.at_key = typed
            self.send(Key(typed.press, read_at))
            self.at_key = None
            if at_once:
                self.answered(outcome)

    @rule(outcome=outcomes)
    def answered(self, outcome: Any) -> None:
        if isinstance(self.state.mode, Sending):
            key = self.state.mode.answer.key
            if outcome != "failed":
                self.settled.add(key)
            self.send(Answered(key, outcome, self.now))

    @rule()
    def stray_outcome(self) -> None:
        if not isinstance(self.state.mode, Sending) and self.world:
            self.send(Answered(self.world[0].key, "applied", self.now))

    @rule(front=st.booleans(), several=st.integers(1, 3))
    def asks_come(self, front: bool, several: int) -> None:
        for _ in range(several):
            self.serial += 1
            self.world.insert(0 if front else len(self.world), Ask(self.serial, f"ask {self.serial}"))
        self.look()

    @precondition(lambda self: self.world)
    @rule(data=st.data())
    def an_ask_goes(self, data: Any) -> None:
        self.world.remove(data.draw(st.sampled_from(self.world)))
        self.look()

    @rule()
    def look(self) -> None:
        self.send(Changed(tuple(self.world), self.now))

    @rule(ms=st.sampled_from([1, 299, 300, 1000, 1000, 60_000]))
    def time_passes(self, ms: int) -> None:
        self.now += ms * MS
        self.send(Tick(self.now))

    @rule()
    def suspended_and_back(self) -> None:
        self.claimed = None  # the loop takes claims back when it is stopped
        self.send(Returned(self.now))

    @rule()
    def is_left(self) -> None:
        self.time_passes(1000)
        self.send(Key(Press("char", "q"), self.now))

    def open_again(self) -> None:
        """Another inbox knows nothing of what this one has answered; that the first answer stands is the desk's."""
        for event in (Key(Press("char", "a"), self.now), Tick(self.now), Changed(tuple(self.world), self.now)):
            assert step(self.state, event) == (self.state, ())
        self.state, self.claimed, self.unread, self.settled = Inbox(), None, [], set()
        self.look()

    @invariant()
    def what_waits_is_in_one_place(self) -> None:
        asks = [*((self.state.shown,) if self.state.shown else ()), *self.state.waiting]
        assert len({a.key for a in asks}) == len(asks)
        assert not {a.key for a in asks} & self.state.passed
        if not self.state.left and not isinstance(self.state.mode, Sending):
            assert {a.key for a in asks} >= {a.key for a in self.world} - self.settled

    @invariant()
    def what_is_shown_is_claimed(self) -> None:
        shown = self.state.shown.key if self.state.shown and not self.state.left else None
        assert self.claimed in (shown, None)
        if not isinstance(self.state.mode, Sending):
            assert self.claimed == shown

    @invariant()
    def the_text_is_bounded_and_the_cursor_in_it(self) -> None:
        if isinstance(self.state.mode, Typing):
            assert 0 <= self.state.mode.cursor <= len(self.state.mode.text) <= MAX_TEXT


TestInboxOrders = InboxOrders.TestCase
TestInboxOrders.settings = settings(max_examples=4 * settings().max_examples, stateful_step_count=40)


# What the terminal sends, however it is cut

SENT = st.lists(
    st.sampled_from(
        [
            *("a", "d", "é", "日", "😀", "\r", "\x7f", "\x15", "\x00"),
            *("\x1b[A", "\x1b[1;5C", "\x1bOH", "\x1b[3~", "\x1b[99~", "\x1ba", "\x1b\x1b[B"),
            *("\x1b[200~a\rb\x1b[201~", "\x1b[200~\x1b[A\x1b[201~"),
        ]
    ),
    max_size=12,
)


@given(sent=SENT, cuts=st.lists(st.integers(0, 120), max_size=20))
def test_keys_are_the_same_however_their_bytes_are_cut(sent: list[str], cuts: list[int]) -> None:
    data = "".join(sent).encode()
    keys, places = Keys(), sorted({0, *(c for c in cuts if c < len(data)), len(data)})
    pieces = [data[a:b] for a, b in zip(places, places[1:], strict=False)]
    cut = [press for piece in pieces for press in keys.feed(piece)]
    assert cut == Keys().feed(data)
    assert not keys.unfinished


@given(data=st.binary(max_size=200), more=st.binary(max_size=50))
def test_any_bytes_are_keys_and_nothing_stays_open_for_ever(data: bytes, more: bytes) -> None:
    keys = Keys()
    for press in [*keys.feed(data), *keys.feed(more), *keys.settle()]:
        assert press.name != "char" or (len(press.text) == 1 and press.text.isprintable())
    assert not keys.unfinished
