"""The inbox's state machine: FIFO, claims, deafness after a change, the reason editor, once, and every outcome."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from supervisor.core.inbox import (
    DEAF_MS,
    Answer,
    Answered,
    Ask,
    Changed,
    Claim,
    Effect,
    Effects,
    Event,
    Inbox,
    Key,
    Returned,
    Scroll,
    Sending,
    Tick,
    Unclaim,
    step,
)
from supervisor.core.line_edit import MAX_TEXT, Press, Typing, edited
from supervisor.core.timing import HEARTBEAT_REFRESH_MS, MS

ONE, TWO, THREE = Ask(1, "kid bash one"), Ask(2, "kid bash two"), Ask(3, "kid bash three")
T0 = 1_000 * MS
HEARD = T0 + DEAF_MS * MS
ENTER, ESC = Press("enter"), Press("esc")


def char(text: str) -> Press:
    return Press("char", text)


def after(state: Inbox, *events: Event) -> Inbox:
    for event in events:
        state, _ = step(state, event)
    return state


def typed(state: Inbox, *presses: Press | str, now: int = HEARD) -> tuple[Inbox, Effects]:
    """The state after these keys, and all their effects but drawing."""
    effects: list[Effect] = []
    for press in presses:
        state, more = step(state, Key(char(press) if isinstance(press, str) else press, now))
        effects += [e for e in more if e != "draw"]
    return state, tuple(effects)


def showing(*asks: Ask, once: bool = False) -> Inbox:
    return after(Inbox(once=once), Changed(asks, T0))


# Which ask is on the screen


def test_the_oldest_ask_is_shown_and_claimed_and_keys_typed_before_it_are_thrown_away() -> None:
    state, effects = step(Inbox(), Changed((ONE, TWO), T0))
    assert (state.shown, state.waiting) == (ONE, (TWO,))
    assert effects == ("ring", "flush", Claim(1), "draw")


def test_a_later_ask_never_replaces_the_one_on_the_screen() -> None:
    state, effects = step(showing(TWO), Changed((ONE, TWO), HEARD))
    assert (state.shown, state.waiting) == (TWO, (ONE,))
    assert effects == ("draw",)


def test_the_queue_keeps_its_order_of_arrival() -> None:
    state = after(showing(TWO, THREE), Changed((ONE, TWO, THREE), HEARD))
    assert state.waiting == (THREE, ONE)


def test_only_the_first_ask_on_an_empty_screen_rings() -> None:
    _, effects = step(showing(ONE), Changed((ONE, TWO), HEARD))
    assert "ring" not in effects


def test_the_shown_ask_goes_at_once_and_a_line_says_why() -> None:
    state, effects = step(showing(ONE, TWO), Changed((TWO,), HEARD, {1: "already answered, eva has denied it"}))
    assert state.shown == TWO
    assert state.notices == ("already answered, eva has denied it: kid bash one",)
    assert effects == (Unclaim(1), "flush", Claim(2), "draw")


def test_an_ask_that_went_without_a_trace_was_withdrawn() -> None:
    assert after(showing(ONE), Changed((), HEARD)).notices == ("withdrawn: kid bash one",)


def test_one_that_goes_while_it_queues_leaves_without_a_word() -> None:
    state = after(showing(ONE, TWO), Changed((ONE,), HEARD))
    assert (state.shown, state.waiting, state.notices) == (ONE, (), ())


def test_next_puts_it_behind_the_others() -> None:
    state, effects = typed(showing(ONE, TWO, THREE), "n")
    assert (state.shown, state.waiting) == (TWO, (THREE, ONE))
    assert effects == (Unclaim(1), "flush", Claim(2))


def test_next_with_nothing_else_stays() -> None:
    state, effects = typed(showing(ONE), "n")
    assert (state.shown, state.notices, effects) == (ONE, ("no other ask waits",), ())


def test_the_claim_is_renewed_once_a_second() -> None:
    state = showing(ONE)
    state, early = step(state, Tick(T0 + (HEARTBEAT_REFRESH_MS - 1) * MS))
    state, due = step(state, Tick(T0 + HEARTBEAT_REFRESH_MS * MS))
    assert (early, due) == (("draw",), (Claim(1), "draw"))


def test_nothing_is_claimed_while_nothing_is_shown() -> None:
    assert step(Inbox(), Tick(T0)) == (Inbox(), ("draw",))


# Keys that decide

ANSWERS = [
    (("a",), Answer(1, True)),
    (("d",), Answer(1, False)),
    (("c",), Answer(1, True, remember="child")),
    (("s", "y"), Answer(1, True, remember="session")),
    (("r", "n", "o", ENTER), Answer(1, False, reason="no")),
    (("r", Press("paste", "not\nnow"), ENTER), Answer(1, False, reason="not now")),
]


@pytest.mark.parametrize(("keys", "answer"), ANSWERS)
def test_keys_answer_the_shown_ask(keys: Sequence[Press | str], answer: Answer) -> None:
    state, effects = typed(showing(ONE, TWO), *keys)
    assert effects == (answer,)
    assert state.mode == Sending(answer)


@pytest.mark.parametrize("key", ["A", "x", " ", "y", "1", ENTER, ESC, Press("paste", "a"), Press("unknown")])
def test_no_other_key_decides(key: Press | str) -> None:
    state = showing(ONE)
    assert typed(state, key) == (state, ())


@pytest.mark.parametrize("key", ["a", "d", "c", "s", "r", "n", "v"])
def test_on_an_empty_screen_there_is_nothing_to_decide(key: str) -> None:
    assert typed(Inbox(), key) == (Inbox(), ())


@pytest.mark.parametrize("key", ["a", "d", "y", ENTER])
def test_keys_that_come_while_an_answer_is_on_its_way_are_dropped(key: Press | str) -> None:
    state, _ = typed(showing(ONE, TWO), "a")
    assert typed(state, key) == (state, ())


@pytest.mark.parametrize("keys", [("n",), (ESC,)])
def test_the_whole_session_needs_a_yes(keys: Sequence[Press | str]) -> None:
    state, effects = typed(showing(ONE), "s", *keys)
    assert (state.mode, effects) == ("reading", ())


@pytest.mark.parametrize("key", ["a", "Y", " ", ENTER, Press("paste", "y")])
def test_nothing_but_y_is_a_yes(key: Press | str) -> None:
    state, effects = typed(showing(ONE), "s", key)
    assert (state.mode, effects) == ("confirming", ())


@pytest.mark.parametrize("key", ["q", Press("ctrl-d")])
def test_leaving_takes_the_claim_back_and_answers_nothing(key: Press | str) -> None:
    state, effects = typed(showing(ONE, TWO), key)
    assert (state.left, effects) == (True, (Unclaim(1),))
    assert step(state, Key(char("a"), HEARD)) == (state, ())


# A change of the screen


@pytest.mark.parametrize("key", ["a", "d", "c", "s", "r", "n", "v", "q"])
def test_keys_are_not_heard_for_a_moment_after_the_shown_ask_has_changed(key: str) -> None:
    state = after(showing(ONE, TWO), Changed((TWO,), HEARD, {}))
    assert typed(state, key, now=HEARD + DEAF_MS * MS - 1) == (state, ())
    assert typed(state, key, now=HEARD + DEAF_MS * MS)[0] != state


def test_a_second_key_of_one_burst_does_nothing_to_the_next_ask() -> None:
    state, _ = typed(showing(ONE, TWO), "a")
    state = after(state, Answered(1, "applied", HEARD + 1))
    assert state.shown == TWO
    assert typed(state, "a") == (state, ())


@pytest.mark.parametrize("opened", ["r", "s", "v", "?"])
def test_when_it_goes_under_an_open_editor_keys_go_nowhere_until_enter_or_esc(opened: str) -> None:
    state, _ = typed(showing(ONE, TWO), opened)
    state = after(state, Changed((TWO,), HEARD))
    assert (state.mode, state.shown, state.waiting) == ("lost", None, (TWO,))
    late = HEARD + 60_000 * MS
    assert typed(state, "a", "y", "d", "q", Press("paste", "a"), now=late) == (state, ())
    for key in (ENTER, ESC):
        gone_on, effects = typed(state, key, now=late)
        assert (gone_on.mode, gone_on.shown, effects) == ("reading", TWO, ("flush", Claim(2)))
        assert typed(gone_on, "a", now=late + 1) == (gone_on, ())


def test_a_new_ask_waits_until_the_help_is_closed_and_closing_it_decides_nothing() -> None:
    state, _ = typed(Inbox(), "?")
    state = after(state, Changed((ONE,), HEARD))
    assert (state.mode, state.shown) == ("helping", None)
    state, effects = typed(state, "a")
    assert (state.mode, state.shown, effects) == ("reading", ONE, ("flush", Claim(1)))


def test_after_a_suspension_what_was_typed_is_not_for_us() -> None:
    state, effects = step(showing(ONE), Returned(HEARD))
    assert effects == ("flush", Claim(1), "draw")
    assert typed(state, "a", now=HEARD + 1) == (state, ())


# Outcomes

OUTCOMES = [
    ("applied", "", "allowed: kid bash one"),
    ("already_answered", "eva has denied it", "already answered, eva has denied it: kid bash one"),
    ("gone", "it was withdrawn", "gone, it was withdrawn: kid bash one"),
    ("other_ask", "another has taken its place", "not answered, another has taken its place: kid bash one"),
]


@pytest.mark.parametrize(("what", "detail", "notice"), OUTCOMES)
def test_an_outcome_is_told_and_the_next_ask_comes(what: str, detail: str, notice: str) -> None:
    state, _ = typed(showing(ONE, TWO), "a")
    state, effects = step(state, Answered(1, what, HEARD, detail))  # type: ignore[arg-type]
    assert (state.shown, state.mode, state.notices) == (TWO, "reading", (notice,))
    assert effects == (Unclaim(1), "flush", Claim(2), "draw")


DONE = [("a", "allowed"), ("d", "denied"), ("c", "allowed for this child"), ("sy", "allowed for all below")]


@pytest.mark.parametrize(("keys", "words"), DONE)
def test_the_line_names_what_was_done(keys: str, words: str) -> None:
    state, _ = typed(showing(ONE), *keys)
    assert after(state, Answered(1, "applied", HEARD)).notices == (f"{words}: kid bash one",)


def test_an_answer_that_could_not_be_written_leaves_the_ask_on_the_screen() -> None:
    state, _ = typed(showing(ONE, TWO), "a")
    state, effects = step(state, Answered(1, "failed", HEARD, "the disk is full"))
    assert (state.shown, state.mode, effects) == (ONE, "reading", ("flush", "draw"))
    assert state.notices == ("not answered, the disk is full: kid bash one",)


def test_keys_typed_behind_a_reason_that_could_not_be_sent_decide_nothing() -> None:
    state, _ = typed(showing(ONE), "r", "n", "o", ENTER)
    state = after(state, Answered(1, "failed", HEARD + 1, "the disk is full"))
    assert typed(state, "a") == (state, ())


def test_an_answered_ask_that_still_lies_there_is_not_shown_again() -> None:
    state, _ = typed(showing(ONE, TWO), "a")
    state = after(state, Answered(1, "already_answered", HEARD), Changed((ONE, TWO), HEARD))
    assert (state.shown, state.waiting) == (TWO, ())
    assert after(state, Changed((TWO,), HEARD)).passed == frozenset()


def test_an_answer_to_an_ask_that_goes_meanwhile_is_settled_by_its_outcome() -> None:
    state, _ = typed(showing(ONE, TWO), "a")
    state = after(state, Changed((TWO,), HEARD))
    assert state.shown == ONE
    assert after(state, Answered(1, "applied", HEARD)).notices == ("allowed: kid bash one",)


def test_an_outcome_nobody_waits_for_changes_nothing() -> None:
    state = showing(ONE)
    assert step(state, Answered(1, "applied", HEARD)) == (state, ())


# The reason

EDITS = [
    ((), "", 0),
    (("a", "b"), "ab", 2),
    (("a", "b", Press("left"), "c"), "acb", 2),
    (("a", "b", Press("left"), Press("left"), Press("left"), "c"), "cab", 1),
    (("a", "b", Press("home"), "c", Press("end"), "d"), "cabd", 4),
    (("a", Press("right")), "a", 1),
    (("a", "b", Press("backspace")), "a", 1),
    ((Press("backspace"),), "", 0),
    (("a", "b", Press("home"), Press("delete")), "b", 0),
    (("a", "b", Press("left"), Press("ctrl-u")), "b", 0),
    (("a", "b", Press("left"), Press("ctrl-k")), "a", 1),
    ((Press("paste", "one two  "), Press("ctrl-w")), "one ", 4),
    ((Press("paste", "one"), Press("ctrl-w")), "", 0),
    ((Press("paste", "a\nb\x1b[c\td"),), "a b [c d", 8),
    (("é", "日", "😀"), "é日😀", 3),
    ((Press("up"), Press("unknown"), Press("ctrl-d"), Press("pgup")), "", 0),
]


@pytest.mark.parametrize(("keys", "text", "cursor"), EDITS)
def test_the_line_editor(keys: Sequence[Press | str], text: str, cursor: int) -> None:
    state, effects = typed(showing(ONE), "r", *keys)
    assert (state.mode, effects) == (Typing(text, cursor), ())


def test_a_reason_has_a_bound() -> None:
    full = edited(Typing(), Press("paste", "x" * 5000))
    assert full == Typing("x" * MAX_TEXT, MAX_TEXT)
    assert edited(full, char("y")) == full


@pytest.mark.parametrize("key", ["a", "c", "s", "y", "q", "n", "d", "?"])
def test_while_a_reason_is_typed_every_key_is_text(key: str) -> None:
    state, effects = typed(showing(ONE), "r", key)
    assert (state.mode, effects) == (Typing(key, 1), ())


def test_an_empty_reason_is_not_sent() -> None:
    state, effects = typed(showing(ONE), "r", " ", ENTER)
    assert (state.mode, effects) == (Typing(" ", 1), ())
    assert state.notices == ("a reason is missing; Esc, then d, denies without one",)


def test_esc_drops_the_reason_and_who_types_on_is_not_heard_for_a_moment() -> None:
    state, effects = typed(showing(ONE), "r", "n", ESC, "a")
    assert (state.mode, state.shown, effects) == ("reading", ONE, ("flush",))
    assert typed(state, "a", now=HEARD + DEAF_MS * MS)[1] == (Answer(1, True),)


# The pager and the help


def test_the_pager_takes_all_keys_but_those_that_close_it() -> None:
    state, effects = typed(showing(ONE), "v", " ", "a", Press("up"))
    assert effects == (Scroll(Press("home")), Scroll(char(" ")), Scroll(char("a")), Scroll(Press("up")))
    for key in ("q", "v", ESC):
        assert typed(state, key)[0].mode == "reading"


@pytest.mark.parametrize("key", ["a", "q", "?", ENTER, Press("up")])
def test_any_key_closes_the_help_and_does_nothing_else(key: Press | str) -> None:
    state, effects = typed(showing(ONE), "?", key)
    assert (state.mode, state.shown, state.left, effects) == ("reading", ONE, False, ())


# Once


def test_once_leaves_when_nothing_waits() -> None:
    assert after(Inbox(once=True), Changed((), T0)).left


def test_once_leaves_after_the_last_answer() -> None:
    state, _ = typed(showing(ONE, once=True), "d")
    state, effects = step(state, Answered(1, "applied", HEARD))
    assert (state.left, effects) == (True, (Unclaim(1), "draw"))


def test_once_passes_over_what_is_skipped_and_it_stays_passed() -> None:
    state, _ = typed(showing(ONE, TWO, once=True), "n")
    state = after(state, Changed((ONE, TWO), HEARD))
    assert (state.shown, state.waiting, state.left) == (TWO, (), False)
    assert typed(state, "n", now=HEARD + DEAF_MS * MS)[0].left


def test_once_stays_while_a_lost_reason_is_still_typed() -> None:
    state, _ = typed(showing(ONE, once=True), "r")
    state = after(state, Changed((), HEARD))
    assert not state.left
    assert typed(state, ENTER)[0].left
