"""A person's inbox as a pure state machine: `step(state, event) -> state, effects`. Draws nothing, reads no clock.

Owns the rules of safety: an answer goes only to the ask that was on the screen when its key was typed, a later ask
never replaces the one on the screen, and while a reason is typed every key is text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from supervisor.core.line_edit import Press, Typing, edited
from supervisor.core.timing import HEARTBEAT_REFRESH_MS, MS

DEAF_MS = 300
"""Keys are not heard so long after the shown ask has changed: they were meant for the one before it."""

KEPT_NOTICES = 50


class Ask(Struct, frozen=True):
    """An ask as the machine knows it. `key` is another one whenever anything that a person decides on is another."""

    key: int
    label: str


class Claim(Struct, frozen=True):
    """Effect: say that somebody looks at it."""

    key: int


class Unclaim(Struct, frozen=True):
    """Effect: nobody looks at it here any more."""

    key: int


class Answer(Struct, frozen=True):
    """Effect: give this answer to that ask."""

    key: int
    approved: bool
    reason: str | None = None
    remember: Literal["child", "session"] | None = None


class Scroll(Struct, frozen=True):
    """Effect: move the pager."""

    press: Press


Effect = Claim | Unclaim | Answer | Scroll | Literal["flush", "ring", "draw"]
"""`flush`: throw away what was typed before now. `ring`: an ask has come to an empty inbox."""

Effects = tuple[Effect, ...]


class Sending(Struct, frozen=True):
    """An answer is on its way; keys are dropped."""

    answer: Answer


Mode = Typing | Sending | Literal["reading", "viewing", "helping", "confirming", "lost"]
"""`confirming`: allow for everybody below? `lost`: the ask went away under an open editor, pager or question: what is
typed on goes nowhere until Enter or Esc."""


class Inbox(Struct, frozen=True):
    """`shown` is on the screen, `waiting` queue behind it. `passed` are not shown again (answered, or left by once)."""

    shown: Ask | None = None
    waiting: tuple[Ask, ...] = ()
    mode: Mode = "reading"
    deaf_until: int = 0
    claimed_at: int = 0
    notices: tuple[str, ...] = ()
    passed: frozenset[int] = frozenset()
    once: bool = False
    left: bool = False


class Changed(Struct, frozen=True):
    """Event: all asks that wait now, oldest first; `why` tells of those that have gone. `now` is in monotonic ns."""

    asks: tuple[Ask, ...]
    now: int
    why: Mapping[int, str] = {}


class Key(Struct, frozen=True):
    """Event: a key was read."""

    press: Press
    now: int


class Tick(Struct, frozen=True):
    """Event: time has passed."""

    now: int


class Answered(Struct, frozen=True):
    """Event: what became of an answer; `failed`: it could not be written, nothing was answered."""

    key: int
    what: Literal["applied", "already_answered", "gone", "other_ask", "failed"]
    now: int
    detail: str = ""


class Returned(Struct, frozen=True):
    """Event: the screen was somebody else's for a while (the job was suspended)."""

    now: int


Event = Changed | Key | Tick | Answered | Returned


def step(state: Inbox, event: Event) -> tuple[Inbox, Effects]:
    """One event further. An inbox that was left stays as it is."""
    if state.left:
        return state, ()
    before = state
    effects: Effects = ()
    if isinstance(event, Changed):
        state, effects = _changed(state, event)
    elif isinstance(event, Key):
        state, effects = _key(state, event)
    elif isinstance(event, Answered):
        state, effects = _answered(state, event)
    elif isinstance(event, Returned):
        state, effects = replace(state, deaf_until=event.now + DEAF_MS * MS, claimed_at=0), ("flush",)
    state, more = _settle(state, event)
    return state, (*effects, *more, *(("draw",) if state != before or isinstance(event, Tick) else ()))


def _settle(state: Inbox, event: Event) -> tuple[Inbox, Effects]:
    """The next in the queue comes to an empty screen; what was typed until then is not for it. Claims are renewed."""
    effects: Effects = ()
    if state.shown is None and state.waiting and state.mode == "reading" and not state.left:
        deaf = event.now + DEAF_MS * MS
        state = replace(state, shown=state.waiting[0], waiting=state.waiting[1:], deaf_until=deaf, claimed_at=0)
        effects = ("flush",)
    if state.once and state.shown is None and state.mode == "reading" and not isinstance(event, Tick | Returned):
        return replace(state, left=True), effects
    renew = not state.claimed_at or event.now - state.claimed_at >= HEARTBEAT_REFRESH_MS * MS
    if state.left or state.shown is None or isinstance(state.mode, Sending) or not renew:
        return state, effects
    return replace(state, claimed_at=event.now), (*effects, Claim(state.shown.key))


def _changed(state: Inbox, event: Changed) -> tuple[Inbox, Effects]:
    passed = state.passed & {a.key for a in event.asks}
    there = {a.key: a for a in event.asks if a.key not in passed}
    shown = there.pop(state.shown.key, None) if state.shown else None
    waiting = [there.pop(a.key) for a in state.waiting if a.key in there]
    was_empty = state.shown is None and not state.waiting
    lost = state.shown if shown is None and not isinstance(state.mode, Sending) else None
    state = replace(state, passed=passed, waiting=(*waiting, *there.values()), shown=shown or state.shown)
    if lost is None:
        return state, ("ring",) if was_empty and state.waiting else ()
    mode: Mode = "reading" if state.mode == "reading" else "lost"
    notice = f"{event.why.get(lost.key, 'withdrawn')}: {lost.label}"
    return _noted(replace(state, shown=None, mode=mode), notice), (Unclaim(lost.key),)


def _answered(state: Inbox, event: Answered) -> tuple[Inbox, Effects]:
    if not isinstance(state.mode, Sending) or state.shown is None or state.shown.key != event.key:
        return state, ()
    done, label = _done_words(state.mode.answer), state.shown.label
    state = replace(state, mode="reading")
    said = {"applied": done, "already_answered": "already answered", "gone": "gone"}.get(event.what, "not answered")
    state = _noted(state, f"{said}{', ' if event.detail else ''}{event.detail}: {label}")
    if event.what == "failed":  # what was typed behind a reason's Enter must not decide now
        return replace(state, deaf_until=event.now + DEAF_MS * MS), ("flush",)
    return replace(state, shown=None, passed=state.passed | {event.key}), (Unclaim(event.key),)


def _done_words(answer: Answer) -> str:
    if not answer.approved:
        return "denied with a reason" if answer.reason else "denied"
    return {None: "allowed", "child": "allowed for this child", "session": "allowed for all below"}[answer.remember]


def _key(state: Inbox, event: Key) -> tuple[Inbox, Effects]:
    press, mode, reading = event.press, state.mode, replace(state, mode="reading")
    letter = press.text if press.name == "char" else ""
    if event.now < state.deaf_until or isinstance(mode, Sending):
        return state, ()
    if isinstance(mode, Typing):
        return _type(state, mode, press, event.now)
    if mode == "reading":
        return _decide(state, letter or press.name)
    if mode == "viewing":
        return (reading, ()) if press.name == "esc" or letter in ("q", "v") else (state, (Scroll(press),))
    if mode == "confirming" and letter == "y" and state.shown is not None:
        return _send(state, Answer(state.shown.key, True, remember="session"))
    closes = {"confirming": letter == "n" or press.name == "esc", "lost": press.name in ("enter", "esc")}
    return reading if closes.get(mode, True) else state, ()


def _decide(state: Inbox, key: str) -> tuple[Inbox, Effects]:
    shown = state.shown
    if key in ("q", "ctrl-d"):
        return replace(state, left=True), (Unclaim(shown.key),) if shown else ()
    if key == "?":
        return replace(state, mode="helping"), ()
    if shown is None:
        return state, ()
    if key == "n":
        return _skip(state, shown)
    opens: dict[str, Mode] = {"r": Typing(), "s": "confirming", "v": "viewing"}
    if key in opens:
        return replace(state, mode=opens[key]), (Scroll(Press("home")),) if key == "v" else ()
    answers = {
        "a": Answer(shown.key, True),
        "d": Answer(shown.key, False),
        "c": Answer(shown.key, True, remember="child"),
    }
    return _send(state, answers[key]) if key in answers else (state, ())


def _skip(state: Inbox, shown: Ask) -> tuple[Inbox, Effects]:
    if state.once:
        return replace(state, shown=None, passed=state.passed | {shown.key}), (Unclaim(shown.key),)
    if not state.waiting:
        return _noted(state, "no other ask waits"), ()
    return replace(state, shown=None, waiting=(*state.waiting, shown)), (Unclaim(shown.key),)


def _send(state: Inbox, answer: Answer) -> tuple[Inbox, Effects]:
    return replace(state, mode=Sending(answer)), (answer,)


def _type(state: Inbox, mode: Typing, press: Press, now: int) -> tuple[Inbox, Effects]:
    if press.name == "esc":  # whoever was typing may type on, and that was text
        return replace(state, mode="reading", deaf_until=now + DEAF_MS * MS), ("flush",)
    if press.name != "enter" or state.shown is None:
        return replace(state, mode=edited(mode, press)), ()
    reason = mode.text.strip()
    if not reason:
        return _noted(state, "a reason is missing; Esc, then d, denies without one"), ()
    return _send(state, Answer(state.shown.key, False, reason=reason))


def _noted(state: Inbox, notice: str) -> Inbox:
    return replace(state, notices=(*state.notices, notice)[-KEPT_NOTICES:])
