"""Keys, and a line of text under them. Pure; owns nothing."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

MAX_TEXT = 2000


class Press(NamedTuple):
    """One key: `char` with its text, `paste` with a text, or the name of a key (`enter`, `esc`, `left`, ...)."""

    name: str
    text: str = ""


class Typing(Struct, frozen=True):
    """The reason of a denial is being typed: every key belongs to the text."""

    text: str = ""
    cursor: int = 0


def edited(at: Typing, press: Press) -> Typing:
    """The line after one key; keys that edit nothing leave it."""
    text, cursor = at.text, at.cursor
    before, after = text[:cursor], text[cursor:]
    if press.name in ("char", "paste"):
        added = "".join(c if c.isprintable() else " " for c in press.text)[: MAX_TEXT - len(text)]
        return Typing(before + added + after, cursor + len(added))
    word = before.rstrip()[: before.rstrip().rfind(" ") + 1]
    edits = {
        "backspace": Typing(before[:-1] + after, len(before[:-1])),
        "delete": Typing(before + after[1:], cursor),
        "left": Typing(text, max(cursor - 1, 0)),
        "right": Typing(text, min(cursor + 1, len(text))),
        "home": Typing(text, 0),
        "end": Typing(text, len(text)),
        "ctrl-u": Typing(after, 0),
        "ctrl-k": Typing(before, cursor),
        "ctrl-w": Typing(word + after, len(word)),
    }
    return edits.get(press.name, at)
