"""What the inbox draws: within the window, harmless, the ask told apart from our lines, a pager for what is long."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from supervisor.cli.inbox_view import View, fold
from supervisor.core.ask_wire import build_request
from supervisor.core.inbox import Ask, Inbox
from supervisor.core.line_edit import Press, Typing
from supervisor.runtime.deciding import Pending
from supervisor.runtime.inbox import Screen
from supervisor.testing import make_entry

SHOWN = Inbox(shown=Ask(1, "kid bash echo hi"))
HOSTILE = "echo hi\n───\na allow  d deny\n\x1b[2J\x1b]0;x\x07\u202e\r\x9b1m\udcff"


def pending(value: str = "echo hi", *, name: str = "kid", age_ms: int = 3000, **ours: Any) -> Pending:
    request = build_request(
        "perm-1",
        now=1,
        requester="s-kid",
        target="s-lead",
        agent_name=name,
        tool="bash",
        value=value,
        cwd="/work/x",
        ours={"hops": [], **ours},
    )
    return Pending("s-lead", request, age_ms, None, False)


def screen(item: Pending | None, *, columns: int = 80, rows: int = 24, **more: Any) -> Screen:
    facts: dict[str, Any] = {"entries": (), "names": {}, "other": "", "trouble": "", **more}
    return Screen(columns=columns, rows=rows, item=item, **facts)


def drawn(state: Inbox, at: Screen, view: View | None = None) -> list[str]:
    lines, _ = (view or View("all sessions")).frame(state, at)
    return list(lines)


def test_an_ask_is_shown_with_everything_a_person_decides_on() -> None:
    entries = [make_entry(name="lead", session_id="s-lead"), make_entry(name="kid", session_id="s-kid")]
    item = pending(taskRef="T-1", hops=["s-mid"], input={"command": "echo hi"})
    at = screen(item, entries=entries, names={"s-mid": "mid"}, other="in another inbox (pid 7)", trouble="no mark")
    text = "\n".join(drawn(Inbox(shown=SHOWN.shown, waiting=(Ask(2, "x"), Ask(3, "y"))), at))
    for part in (
        "kid",
        "bash",
        "/work/x",
        "3s",
        "T-1",
        "mid",
        "│ echo hi",
        "v shows all",
        "pid 7",
        "no mark",
        "2 more",
    ):
        assert part in text


@pytest.mark.parametrize("columns", [1, 10, 11, 40, 80, 300])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 9, 24, 60])
@pytest.mark.parametrize(
    "state",
    [
        Inbox(),
        SHOWN,
        *(Inbox(shown=SHOWN.shown, mode=m, notices=("one", "two" * 99)) for m in ("viewing", "helping", "confirming")),
        Inbox(mode="lost"),
        Inbox(shown=SHOWN.shown, mode=Typing("because " * 40, 200)),
    ],
)
def test_every_frame_fits_its_window(state: Inbox, columns: int, rows: int) -> None:
    item = pending("echo 日本語 " * 500 + HOSTILE, name="k\x1b[2Jid") if state.shown else None
    lines, cursor = View("all").frame(state, screen(item, columns=columns, rows=rows))
    assert len(lines) <= max(rows, 2)
    assert all(cell_len(line) < max(columns, 11) for line in lines)
    assert all(line.isprintable() for line in lines)
    assert cursor is None or (0 <= cursor[0] < max(columns, 11) and cursor[1] < max(rows, 2))


@pytest.mark.parametrize("rows", [6, 8, 10, 14])
def test_a_small_window_still_shows_what_is_asked_for(rows: int) -> None:
    assert "│ echo hi" in drawn(SHOWN, screen(pending(), rows=rows, columns=40))


def test_what_an_agent_wrote_stands_behind_a_bar() -> None:
    lines = drawn(SHOWN, screen(pending(HOSTILE), rows=30))
    assert "│ a allow  d deny" in lines
    assert "a allow  d deny" not in lines
    assert "│ \\x1b[2J\\x1b]0;x\\x07\\x202e\\x0d\\x9b1m\\xdcff" in lines


@pytest.mark.parametrize("value", ["x" * 5000, "x\n" * 40, "日" * 3000])
def test_a_value_that_does_not_fit_is_said_to_be_cut(value: str) -> None:
    text = "\n".join(drawn(SHOWN, screen(pending(value))))
    assert f"cut: {len(value)} characters in all, v shows the full text" in text


@pytest.mark.parametrize("value", ["x" * 500, "x\n" * 5])
def test_a_value_that_fits_is_shown_whole(value: str) -> None:
    lines = drawn(SHOWN, screen(pending(value)))
    assert "".join(line[2:] for line in lines if line.startswith("│ ")) == value.replace("\n", "")
    assert "cut:" not in "\n".join(lines)


def test_the_pager_shows_every_character_of_a_hundred_kilobytes() -> None:
    value = "\n".join(f"line {n} \x1b[31m日" for n in range(8000))
    assert len(value) > 100_000
    state, at, view = Inbox(shown=SHOWN.shown, mode="viewing"), screen(pending(value)), View("all")
    seen: list[str] = []
    view.scroll(Press("home"))
    for _ in range(1000):
        page = drawn(state, at, view)
        seen += [line for line in page[:-1] if line not in seen[-30:]]
        if "8007 of 8007" in page[-1]:
            break
        view.scroll(Press("char", " "))
    assert [line for line in seen if line.startswith("line ")] == [f"line {n} \\x1b[31m日" for n in range(8000)]


def test_the_pager_moves_as_less_does_and_stays_in_the_text() -> None:
    state, at, view = (
        Inbox(shown=SHOWN.shown, mode="viewing"),
        screen(pending("\n".join("x" * 100)), rows=11),
        View("a"),
    )

    def after(*keys: str) -> str:
        for key in keys:
            view.scroll(Press("char", key) if len(key) == 1 else Press(key))
        return drawn(state, at, view)[-1].split(" ──")[0]

    assert after() == "── lines 1-10 of 106"
    assert after("k", "b") == "── lines 1-10 of 106"
    assert after("j", "enter", "down") == "── lines 4-13 of 106"
    assert after(" ") == "── lines 13-22 of 106"
    assert after("b", "k") == "── lines 3-12 of 106"
    assert after("G") == "── lines 97-106 of 106"
    assert after(" ", "j") == "── lines 97-106 of 106"
    assert after("up", "pgup", "pgdn") == "── lines 96-105 of 106"
    assert after("a", "unknown") == "── lines 96-105 of 106"
    assert after("g") == "── lines 1-10 of 106"


def test_another_ask_in_the_pager_is_another_text() -> None:
    state, view = Inbox(shown=SHOWN.shown, mode="viewing"), View("a")
    assert "one" in drawn(state, screen(pending("one")), view)
    assert "two" in drawn(state, screen(pending("two")), view)


def test_the_editor_shows_the_part_around_the_cursor() -> None:
    mode = Typing("start " + "x" * 200 + " end", 210)
    lines, cursor = View("a").frame(Inbox(shown=SHOWN.shown, mode=mode), screen(pending(), columns=40))
    assert cursor is not None
    assert lines[cursor[1]].startswith("> x")
    assert lines[cursor[1]].endswith(" end"[: 40 - 2])
    lines, cursor = View("a").frame(Inbox(shown=SHOWN.shown, mode=Typing("日本", 1)), screen(pending(), columns=40))
    assert (cursor, lines[-1]) == ((4, 23), "> 日本")


def test_the_question_for_all_names_the_session_that_was_asked() -> None:
    state = Inbox(shown=SHOWN.shown, mode="confirming")
    lines = drawn(state, screen(pending(), names={"s-lead": "lead"}))
    assert lines[-1] == "allow the same for everybody below lead from now on? y/n"


@pytest.mark.parametrize(("text", "folded"), [("", [""]), ("a\n\nb", ["a", "", "b"]), ("日本語", ["日本", "語"])])
def test_folding_keeps_lines_and_never_splits_a_wide_character(text: str, folded: list[str]) -> None:
    assert fold(text, 5) == folded
