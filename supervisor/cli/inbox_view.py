"""What the inbox puts on the screen: one ask, the queue behind it, its full text, the keys. Text, cut to the window.

Whatever an agent has written is printable, bounded, and stands behind a bar: it cannot pass for a line of ours.
"""

from __future__ import annotations

import signal
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len, chop_cells, set_cell_size

from supervisor.cli.asking import full_text, summary
from supervisor.core.ending import describe
from supervisor.core.entry import Running, is_live
from supervisor.core.inbox import Inbox, Sending
from supervisor.core.line_edit import Press, Typing
from supervisor.core.text import one_line, printable, span

if TYPE_CHECKING:
    from supervisor.core.entry import Entry
    from supervisor.runtime.attending import Scope
    from supervisor.runtime.compose import Context
    from supervisor.runtime.deciding import Pending
    from supervisor.runtime.inbox import Frame, Screen

_BAR = "│ "
_KEYS = (
    ("a", "allow"),
    ("d", "deny"),
    ("r", "deny with a reason"),
    ("c", "allow for this child"),
    ("s", "allow for all below"),
    ("n", "next"),
    ("v", "full text"),
    ("?", "help"),
    ("q", "leave"),
)
_EMPTY_KEYS = ("?", "q")
_SMALL = 14  # rows: below it the keys have no words and one notice is left, so that the ask itself has room
_HELP = """\
The oldest ask that waits is on the screen; a later one never takes its place.

  a  allow it, this once
  d  deny it
  r  deny it with a reason that the agent receives; Enter sends, Esc goes back
  c  allow it, and the same for this child from now on
  s  allow it, and the same for everybody below the session that was asked
  n  leave it for later and go to the next one
  v  its full text: Space and b turn pages, j and k lines, g and G go to the ends
  q  leave; what waits is then refused as unattended, unless another inbox is open or asks.mode is hold

While an ask is on the screen its timeout waits. When it has gone, keys are not heard for a moment, so that no answer
goes to another ask than the one you saw. Any key closes this help."""


def sit(context: Context, scope: Scope, *, once: bool) -> int:
    """Be an inbox on this terminal until it is left; its exit code. What was done in it stands below it."""
    from supervisor.runtime.inbox import run

    fds = (sys.stdin.fileno(), sys.stdout.fileno())
    view = View(scope.title, tree=scope.id if scope.kind == "tree" else None)
    left = run(context.parts, context.asks, scope, view, terminal=fds, once=once)
    if left.code != 128 + signal.SIGHUP:  # there is nobody to read it
        for notice in left.notices:
            sys.stdout.write(one_line(notice) + "\n")
    return left.code


class View:
    """Draws frames, and keeps the pager's place. `tree`: while nothing waits, how its agents are."""

    def __init__(self, title: str, *, tree: str | None = None) -> None:
        self._title = title
        self._tree = tree
        self._top = 0
        self._page = 1
        self._lines: Sequence[str] = ()
        self._folded: tuple[object, ...] = ()

    def scroll(self, press: Press) -> None:
        """Move the pager by one key; `home` also when it opens."""
        page, key = max(self._page - 1, 1), press.text or press.name
        moves = {
            **dict.fromkeys((" ", "f", "pgdn"), page),
            **dict.fromkeys(("b", "pgup"), -page),
            **dict.fromkeys(("j", "enter", "down"), 1),
            **dict.fromkeys(("k", "up"), -1),
            **dict.fromkeys(("g", "home", "<"), -self._top),
            **dict.fromkeys(("G", "end", ">"), len(self._lines)),
        }
        last = max(len(self._lines) - self._page, 0)
        self._top = min(max(self._top + moves.get(key, 0), 0), last)

    def frame(self, state: Inbox, at: Screen) -> Frame:
        """The whole screen: lines, and where the cursor stands (None: nowhere)."""
        width = max(at.columns - 1, 10)
        if state.mode == "viewing" and at.item is not None:
            return self._pager(at.item, at.entries, width, max(at.rows, 2)), None
        head = self._head(state, at, width)
        foot, cursor = _foot(state, at, width)
        room = max(at.rows - len(head) - len(foot), 0)
        body = _body(state, at, width, room, self._tree)
        lines = [*head, *body, *[""] * (room - len(body)), *foot][-at.rows :]
        if cursor is not None:
            cursor = (cursor[0], len(lines) - len(foot) + cursor[1])
        return [set_cell_size(line, min(cell_len(line), width)) for line in lines], cursor

    def _head(self, state: Inbox, at: Screen, width: int) -> list[str]:
        more = len(state.waiting)
        count = f"{more} more {'waits' if more == 1 else 'wait'}" if more else ""
        title = f"supervisor inbox · {one_line(self._title, 60)}"
        gap = " " * max(width - cell_len(title) - cell_len(count), 2)
        trouble = [one_line(f"! {at.trouble}", width)] if at.trouble else []
        return [f"{title}{gap}{count}", *trouble, "─" * width]

    def _pager(self, item: Pending, entries: Sequence[Entry], width: int, rows: int) -> list[str]:
        wanted = (item.request, width)
        if self._folded != wanted:
            self._folded = wanted
            self._lines = fold(full_text(item, entries), width)
        self._page = rows - 1
        self.scroll(Press("unknown"))
        shown = self._lines[self._top : self._top + self._page]
        end = self._top + len(shown)
        where = f"lines {self._top + 1}-{end} of {len(self._lines)}"
        keys = "Space b turn pages, j k lines, g G ends, q back"
        return [*shown, *[""] * (self._page - len(shown)), set_cell_size(f"── {where} ── {keys}", width).rstrip()]


def _body(state: Inbox, at: Screen, width: int, room: int, tree: str | None) -> list[str]:
    if state.mode == "helping":
        lines = [part for line in _HELP.split("\n") for part in textwrap.wrap(line, width) or [""]]
        return lines[:room]
    if at.item is None:
        waits = "Press Enter to go on." if state.mode == "lost" else "No ask waits. New ones appear here."
        return ["", waits, *(agents_of(tree, at.entries, room - 2) if tree else ())][:room]
    facts = _facts(at.item, at, width)[: max(room - 2, 0)]
    value = str(at.item.request.value or at.item.request.message)
    lines = [*facts, "", *_value(value, width, max(room - len(facts) - 1, 1))]
    return lines if len(lines) <= room else [line for line in lines if line][:room]


def agents_of(tree: str, entries: Sequence[Entry], most: int) -> list[str]:
    """How the agents of a tree are, a line each, those that live first; no more lines than there is room for."""
    latest = {e.name: e for e in sorted(entries, key=lambda e: e.started_at) if e.tree == tree}
    shown = sorted(latest.values(), key=lambda e: not is_live(e))
    lines = [f"  {one_line(e.name, 40):<20} {_how(e)}" for e in shown]
    if len(lines) + 1 > most:
        kept = max(most - 2, 0)
        lines = [*lines[:kept], f"  and {len(lines) - kept} more"]
    return ["", *lines]


def _how(entry: Entry) -> str:
    if entry.hand_off is not None:
        return describe(entry.hand_off)
    if isinstance(entry.state, Running):
        return "up" if entry.state.ready_at is not None else "running, not proven up yet"
    return entry.status


def _facts(item: Pending, at: Screen, width: int) -> list[str]:
    data = summary(item, at.entries)
    task = data["taskRef"] or next((e.task_ref for e in at.entries if e.session_id == data["requester"]), None)
    facts = [
        ("from", " > ".join(data["lineage"])),
        ("tool", data["tool"] or "-"),
        ("in", data["cwd"] or "-"),
        ("age", span(item.age_ms)),
        ("task", task),
        ("by way of", " > ".join(at.names.get(hop, hop) for hop in data["hops"])),
        ("input", "more than this: v shows all of it" if data["input"] is not None else None),
        ("also seen", at.other),
    ]
    return [f"{name:<10}{one_line(str(value), max(width - 10, 1))}" for name, value in facts if value]


def _value(value: str, width: int, rows: int) -> list[str]:
    """What is asked for, as far as it fits; that more follows is said in the last row."""
    head = value[: rows * width + 1]
    lines = [_BAR + line for line in fold(head, width - len(_BAR))]
    if len(lines) <= rows and head == value:
        return lines
    kept = lines[: max(rows - 1, 0)]
    return [*kept, set_cell_size(f"cut: {len(value)} characters in all, v shows the full text", width).rstrip()]


def _foot(state: Inbox, at: Screen, width: int) -> tuple[list[str], tuple[int, int] | None]:
    notices = [one_line(n, width) for n in state.notices[-3:]] if at.rows >= _SMALL else []
    notices = notices or [one_line(n, width) for n in state.notices[-1:]]
    lines, cursor = ["─" * width, *notices], None
    if isinstance(state.mode, Typing):
        shown, column = _window(state.mode, width - 2)
        cursor = (column + 2, len(lines) + 1)
        lines += ["why not? Enter sends the denial, Esc goes back", f"> {shown}"]
    elif state.mode == "confirming":
        below = at.names.get(at.item.session_id, at.item.session_id) if at.item else ""
        lines += [f"allow the same for everybody below {one_line(below, 60)} from now on? y/n"]
    elif state.mode == "lost":
        lines += ["the ask has gone, nothing was answered. Enter or Esc goes on; other keys do nothing"]
    elif isinstance(state.mode, Sending):
        lines += ["sending …"]
    else:
        small = at.rows < _SMALL
        keys = [k if small else f"{k} {w}" for k, w in _KEYS if at.item is not None or k in _EMPTY_KEYS]
        lines += textwrap.wrap("  ".join(k.replace(" ", "\xa0") for k in keys), width, break_long_words=False)
    return [line.replace("\xa0", " ") for line in lines], cursor


def _window(line: Typing, width: int) -> tuple[str, int]:
    """The part of the line around the cursor that fits, and the cursor's column in it."""
    start = max(line.cursor - width, 0)
    while cell_len(line.text[start : line.cursor]) >= max(width, 1):
        start += 1
    text = printable(line.text[start:])
    return set_cell_size(text, min(cell_len(text), max(width, 1))), cell_len(line.text[start : line.cursor])


def fold(text: str, width: int) -> list[str]:
    """Harmless lines that fit; every character of the text is in one of them."""
    lines = printable(text).expandtabs(4).split("\n")
    return [part for line in lines for part in chop_cells(line, max(width, 1)) or [""]]
