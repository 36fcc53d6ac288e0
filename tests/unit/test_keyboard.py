"""Keys out of a terminal's bytes; the terminal itself on a real pty: modes, frames, stalls, and the way back."""

from __future__ import annotations

import contextlib
import os
import pty
import termios
from collections.abc import Iterator

import pytest

from supervisor.adapters.keyboard import Keys, Terminal, reader_is_gone
from supervisor.core.line_edit import Press

SENT = [
    (b"a", [Press("char", "a")]),
    ("é日😀".encode(), [Press("char", "é"), Press("char", "日"), Press("char", "😀")]),
    (b"\r", [Press("enter")]),
    (b"\n", [Press("enter")]),
    (b"\x7f\x08", [Press("backspace"), Press("backspace")]),
    (b"\x01\x05\x02\x06", [Press("home"), Press("end"), Press("left"), Press("right")]),
    (b"\x15\x0b\x17\x04\x0c", [Press("ctrl-u"), Press("ctrl-k"), Press("ctrl-w"), Press("ctrl-d"), Press("ctrl-l")]),
    (b"\x1b[A\x1b[B\x1b[C\x1b[D", [Press("up"), Press("down"), Press("right"), Press("left")]),
    (b"\x1bOA\x1bOH\x1bOF", [Press("up"), Press("home"), Press("end")]),
    (b"\x1b[5~\x1b[6~\x1b[3~\x1b[1~\x1b[4~", [Press(n) for n in ("pgup", "pgdn", "delete", "home", "end")]),
    (b"\x1b[1;5D\x1b[3;2~", [Press("left"), Press("delete")]),
    (b"\x1b[Z\x1b[99~\x1b[a\x1b[?1;2c", [Press("unknown")] * 4),
    (b"\x1ba\x1bd", []),
    (b"\x1b\x1b[A", [Press("esc"), Press("up")]),
    (b"\x00\x0e\xff", []),
    (b"\x1b[200~a\ry\x1b[A\x1b[201~d", [Press("paste", "a\ry\x1b[A"), Press("char", "d")]),
]


@pytest.mark.parametrize(("data", "keys"), SENT)
def test_bytes_as_keys(data: bytes, keys: list[Press]) -> None:
    assert Keys().feed(data) == keys


def test_an_escape_alone_is_a_key_once_nothing_follows() -> None:
    keys = Keys()
    assert (keys.feed(b"\x1b"), keys.unfinished) == ([], True)
    assert (keys.settle(), keys.unfinished) == ([Press("esc")], False)


@pytest.mark.parametrize("rest", [b"[a", b"[A", b"Oa", b"[1;5D"])
def test_the_late_rest_of_a_sequence_is_no_letters(rest: bytes) -> None:
    keys = Keys()
    assert [*keys.feed(b"\x1b"), *keys.settle()] == [Press("esc")]
    assert all(press.name != "char" for press in keys.feed(rest))
    assert keys.feed(b"a") == [Press("char", "a")]


@pytest.mark.parametrize("part", [b"\x1b[", b"\x1bO", b"\x1b[1;5"])
def test_an_unfinished_sequence_is_dropped(part: bytes) -> None:
    keys = Keys()
    assert (keys.feed(part), keys.settle(), keys.feed(b"a")) == ([], [], [Press("char", "a")])


def test_a_paste_without_an_end_is_over_after_a_while() -> None:
    keys = Keys()
    assert keys.feed(b"\x1b[200~text\x1b[2") == []
    assert keys.in_paste
    assert keys.settle() == [Press("paste", "text\x1b[2")]
    assert not keys.in_paste


def test_what_is_forgotten_in_a_paste_does_not_make_keys_of_its_rest() -> None:
    keys = Keys()
    keys.feed(b"\x1b[200~a")
    keys.forget()
    assert keys.feed(b"ad\x1b[201~d") == [Press("paste", "ad"), Press("char", "d")]


def test_a_paste_has_a_bound() -> None:
    (paste,) = Keys().feed(b"\x1b[200~" + b"x" * 200_000 + b"\x1b[201~")
    assert len(paste.text) == 65536


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """The person's end of a terminal, and the program's."""
    person, program = pty.openpty()
    yield person, program
    os.close(person)
    os.close(program)


@pytest.fixture
def terminal(ends: tuple[int, int]) -> Iterator[Terminal]:
    made = Terminal(ends[1], ends[1])
    yield made
    made.close()
    made.release()


def test_opening_takes_single_keys_and_closing_puts_everything_back(ends: tuple[int, int], terminal: Terminal) -> None:
    before = termios.tcgetattr(ends[1])
    for _ in range(2):
        terminal.open()
        mode = termios.tcgetattr(ends[1])
        assert not mode[3] & (termios.ICANON | termios.ECHO)
        assert mode[3] & termios.ISIG
        assert not mode[0] & termios.IXON
        terminal.open()
        terminal.close()
        terminal.close()
        assert termios.tcgetattr(ends[1]) == before
    assert os.get_blocking(ends[1]), "our O_NONBLOCK is nobody else's"


def test_keys_are_read_as_they_come_and_the_end_is_told(ends: tuple[int, int], terminal: Terminal) -> None:
    terminal.open()
    assert terminal.read() == []
    os.write(ends[0], b"a\x1b[A")
    assert terminal.read() == [Press("char", "a"), Press("up")]


def test_draining_throws_away_what_was_typed(ends: tuple[int, int], terminal: Terminal) -> None:
    terminal.open()
    os.write(ends[0], b"aaa\x1b")
    terminal.drain()
    assert (terminal.read(), terminal.keys.unfinished) == ([], False)
    os.write(ends[0], b"[Ad")
    assert terminal.read() == [Press("up"), Press("char", "d")]


def test_the_same_frame_is_written_once_and_another_one_whole(ends: tuple[int, int], terminal: Terminal) -> None:
    terminal.open()
    os.read(ends[0], 4096)
    terminal.draw(["one", "two"], (1, 2))
    assert os.read(ends[0], 4096) == b"\x1b[?25l\x1b[Hone\x1b[K\r\r\ntwo\x1b[K\x1b[J\x1b[3;2H\x1b[?25h"
    terminal.draw(["one", "two"], (1, 2))
    terminal.draw(["three"])
    assert os.read(ends[0], 4096) == b"\x1b[?25l\x1b[Hthree\x1b[K\x1b[J"


def test_a_terminal_that_takes_nothing_blocks_nobody(ends: tuple[int, int], terminal: Terminal) -> None:
    terminal.open()
    for number in range(200):
        terminal.draw([f"{number}" * 1000])
    os.set_blocking(ends[0], False)
    with contextlib.suppress(BlockingIOError):
        while os.read(ends[0], 65536):
            pass
    terminal.draw(["199" * 10])  # the frame that was not taken counts as not drawn
    terminal.draw(["199" * 10])
    assert os.read(ends[0], 65536) == b"\x1b[?25l\x1b[H" + b"199" * 10 + b"\x1b[K\x1b[J"


def test_the_size_is_the_window_s(ends: tuple[int, int], terminal: Terminal) -> None:
    termios.tcsetwinsize(ends[0], (7, 33))
    assert terminal.size() == (33, 7)
    termios.tcsetwinsize(ends[0], (0, 0))
    assert terminal.size() == (80, 24)


def test_what_is_no_terminal_cannot_be_opened() -> None:
    reader, writer = os.pipe()
    made = Terminal(reader, writer)
    try:
        with pytest.raises(OSError):
            made.open()
        made.close()
    finally:
        made.release()
        os.close(reader)
        os.close(writer)


def test_a_pipe_without_a_reader_is_known() -> None:
    reader, writer = os.pipe()
    assert not reader_is_gone(writer)
    os.close(reader)
    assert reader_is_gone(writer)
    os.close(writer)
