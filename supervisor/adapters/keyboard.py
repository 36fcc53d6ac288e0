"""A terminal for one full-screen program: single keys in, whole frames out, and every way out puts it back.

Owns the terminal's modes while open, through descriptors of its own: nobody's O_NONBLOCK is changed. Decides nothing.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import select
import termios
from collections.abc import Sequence
from typing import Any

from supervisor.core.line_edit import Press

_ENTER = b"\x1b[?1049h\x1b[?2004h\x1b[?25l"  # the alternate screen, pastes marked, no cursor
_LEAVE = b"\x1b[?2004l\x1b[?25h\x1b[?1049l"
_WRITE_S = 1.0  # what a stalled terminal may hold up our end; a frame is not waited for at all
_DRAINED = 64  # reads at most: whoever writes faster than we read is no person
_MAX_HELD = 64  # characters of a sequence; a longer one is none

_SEQUENCE = re.compile(r"\x1b\[([0-9;:<=>?]*)[ -/]*([@-~])|\x1bO([@-~])")
_UNFINISHED = re.compile(r"\x1b(\[[0-9;:<=>?]*[ -/]*|O)?\Z")
_PASTE_END = "\x1b[201~"
_BY_LETTER = {"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end"}
_BY_NUMBER = {"1": "home", "7": "home", "4": "end", "8": "end", "3": "delete", "5": "pgup", "6": "pgdn"}
_CONTROLS = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace", "\x04": "ctrl-d", "\x0c": "ctrl-l"}
_CONTROLS |= {"\x01": "home", "\x05": "end", "\x02": "left", "\x06": "right"}
_CONTROLS |= {"\x15": "ctrl-u", "\x0b": "ctrl-k", "\x17": "ctrl-w"}


class Keys:
    """Bytes of a terminal as keys. Sequences and characters may be cut anywhere."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""
        self._paste: str | None = None
        self._escaped = False

    @property
    def unfinished(self) -> bool:
        """Whether something waits for its rest, or for `settle`."""
        return bool(self._held) or self._paste is not None

    @property
    def in_paste(self) -> bool:
        """Whether a paste has begun and not ended."""
        return self._paste is not None

    def feed(self, data: bytes) -> list[Press]:
        """The keys that are complete."""
        text = self._held + self._decoder.decode(data)
        if self._escaped and text[:1] in ("[", "O"):  # the late rest of what was taken for a lone Esc: no letters
            text = "\x1b" + text
        self._escaped = False
        self._held = ""
        pressed: list[Press] = []
        while text:
            if self._paste is not None:
                text = self._pasted(text, pressed)
            elif text[0] == "\x1b":
                text = self._sequence(text, pressed)
            else:
                pressed.extend(_plain(text[0]))
                text = text[1:]
        return pressed

    def settle(self) -> list[Press]:
        """Nothing more has come for a while: a lone Esc is the key, an unfinished sequence is dropped."""
        held, paste = self._held, self._paste
        self._held, self._paste = "", None
        self._escaped = held == "\x1b" and paste is None
        if paste is not None:
            return [Press("paste", paste + held)]
        return [Press("esc")] if self._escaped else []

    def forget(self) -> None:
        """What has come so far is nobody's. A paste that goes on stays one: its rest must not be read as keys."""
        if self._paste is None:
            self.settle()
        else:
            self._held, self._paste = "", ""

    def _pasted(self, text: str, pressed: list[Press]) -> str:
        body, end, rest = text.partition(_PASTE_END)
        keep = "" if end else next((_PASTE_END[:n] for n in range(5, 0, -1) if body.endswith(_PASTE_END[:n])), "")
        self._paste = ((self._paste or "") + body[: len(body) - len(keep)])[:65536]
        if end:
            pressed.append(Press("paste", self._paste))
            self._paste = None
        self._held = keep
        return rest

    def _sequence(self, text: str, pressed: list[Press]) -> str:
        found = _SEQUENCE.match(text)
        if found is None:
            if len(text) <= _MAX_HELD and _UNFINISHED.match(text):
                self._held = text
                return ""
            if text.startswith("\x1b\x1b"):
                pressed.append(Press("esc"))
                return text[1:]
            return text[2:]  # Alt with a key is no key of ours
        number, letter, letter_o = found.groups()
        if letter == "~" and number == "200":
            self._paste = ""
        else:
            name = _BY_NUMBER.get(number.split(";")[0]) if letter == "~" else _BY_LETTER.get(letter or letter_o)
            pressed.append(Press(name or "unknown"))
        return text[found.end() :]


def _plain(character: str) -> list[Press]:
    if character in _CONTROLS:
        return [Press(_CONTROLS[character])]
    return [Press("char", character)] if character.isprintable() and character != "\ufffd" else []


class Terminal:
    """`open` takes the screen and the keys, `close` gives them back; both may be repeated."""

    def __init__(self, fd_in: int, fd_out: int) -> None:
        self.fd = _own(fd_in, os.O_RDONLY)
        self._out = _own(fd_out, os.O_WRONLY)
        self._saved: list[Any] | None = None
        self._drawn: object = None
        self.keys = Keys()

    def open(self) -> None:
        """Keys one by one, no echo, no flow control; Ctrl-C, Ctrl-Z and Ctrl-\\ stay signals.

        Raises:
            OSError: it is no terminal any more.
        """
        try:
            mode = self._set_modes()
        except termios.error as error:
            raise OSError(*error.args) from None
        self._saved = self._saved or mode
        self._drawn = None
        self._write(_ENTER, wait_s=_WRITE_S)

    def _set_modes(self) -> list[Any]:
        before, mode = termios.tcgetattr(self.fd), termios.tcgetattr(self.fd)
        mode[0] &= ~(termios.IXON | termios.INLCR | termios.IGNCR)
        mode[3] = mode[3] & ~(termios.ICANON | termios.ECHO | termios.IEXTEN) | termios.ISIG
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self.fd, termios.TCSANOW, mode)
        return before

    def close(self) -> None:
        """As it was found. A terminal that is gone, or that a shell has taken back from us, needs nothing."""
        saved, self._saved = self._saved, None
        if saved is None or not self.is_ours():
            return
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(self.fd, termios.TCSANOW, saved)
        self._write(_LEAVE, wait_s=_WRITE_S)

    def is_ours(self) -> bool:
        """Whether we are in the foreground: to set modes from the background would stop us."""
        try:
            return os.tcgetpgrp(self.fd) == os.getpgrp()
        except OSError:  # not our controlling terminal: nobody's job control
            return True

    def release(self) -> None:
        """Close our descriptors."""
        os.close(self.fd)
        os.close(self._out)

    def read(self) -> list[Press] | None:
        """The keys that have come; None at the end of the input."""
        try:
            data = os.read(self.fd, 4096)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return self.keys.feed(data) if data else None

    def drain(self) -> None:
        """Throw away what was typed until now (read, not flushed: the decoder stays in step)."""
        for _ in range(_DRAINED):
            if not select.select([self.fd], [], [], 0)[0] or self.read() is None:
                break
        self.keys.forget()

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        with contextlib.suppress(OSError):
            columns, rows = os.get_terminal_size(self._out)
            if columns and rows:
                return columns, rows
        return 80, 24

    def draw(self, lines: Sequence[str], cursor: tuple[int, int] | None = None) -> None:
        """Show a frame (`cursor`: its column and row). A terminal that does not take it gets the next one whole."""
        frame = (tuple(lines), cursor, self.size())
        if frame == self._drawn:
            return
        at = f"\x1b[{cursor[1] + 1};{cursor[0] + 1}H\x1b[?25h" if cursor else ""
        text = "\x1b[?25l\x1b[H" + "\x1b[K\r\n".join(lines) + "\x1b[K\x1b[J" + at
        self._drawn = frame if self._write(text.encode("utf-8", "replace"), wait_s=0) else None

    def redraw(self) -> None:
        """Forget what is on the screen."""
        self._drawn = None

    def ring(self) -> None:
        """The terminal's own bell."""
        self._write(b"\a", wait_s=0)

    def _write(self, data: bytes, *, wait_s: float) -> bool:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._out, view) :]
            except BlockingIOError:
                if not select.select([], [self._out], [], wait_s)[1]:
                    return False
            except OSError:
                return False
        return True


def _own(fd: int, flags: int) -> int:
    """A description of the same terminal that is ours alone; where the system names none, a duplicate."""
    try:
        return os.open(os.ttyname(fd), flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return os.dup(fd)


def reader_is_gone(fd: int) -> bool:
    """Whether nobody can read any more what is written there (a pipe without reader, a closed terminal)."""
    poll = select.poll()
    poll.register(fd, 0)
    return any(event & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, event in poll.poll(0))
