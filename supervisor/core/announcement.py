"""What is said of a new ask or orphan to somebody who is not looking: a line, a title, the facts as variables. Pure.

Whatever an agent has written is printable and bounded: it drives no terminal and starts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from supervisor.core.text import one_line, printable

BELL = b"\a"
_PUSH_TITLE, _POP_TITLE = b"\x1b[22;2t", b"\x1b[23;2t"
_WITHOUT_TITLE = frozenset({"", "dumb", "linux", "vt100", "vt220"})
MAX_VALUE = 1000
"""So many characters of what is asked for are handed to a command: an environment is no place for 100 KB."""


class NewAsk(Struct, frozen=True, kw_only=True):
    """One ask as it is announced. `session` is the name of the agent that was asked."""

    id: str
    agent: str
    tool: str
    value: str
    session: str


class NewOrphan(Struct, frozen=True, kw_only=True):
    """One agent that has lost its parent. `parent`: that session; `until`: how long it may be adopted, epoch ms."""

    agent: str
    parent: str
    evidence: str
    until: int


def orphans_line(orphans: Sequence[NewOrphan]) -> str:
    """For a notification about those of one parent: the first by name, the others counted."""
    first, count = orphans[0], len(orphans)
    who, why = one_line(first.agent, 40), one_line(first.evidence, 80)
    if count == 1:
        return f"{who} has lost its parent ({why}): supervisor orphans"
    return f"{count} agents have lost their parent ({why}), {who} and {count - 1} more: supervisor orphans"


def orphan_variables(orphans: Sequence[NewOrphan]) -> Mapping[str, str]:
    """The facts as a command of the user gets them: those of the first, and how many there are."""
    first = orphans[0]
    return {
        "SUPERVISOR_ORPHAN_AGENT": one_line(first.agent),
        "SUPERVISOR_ORPHAN_EVIDENCE": one_line(first.evidence),
        "SUPERVISOR_ORPHAN_UNTIL": str(first.until),
        "SUPERVISOR_ORPHANS": str(len(orphans)),
    }


def line(ask: NewAsk, *, waiting: int) -> str:
    """For a title, a status line or a notification. It holds no control character."""
    more = f", {waiting} wait" if waiting > 1 else ""
    who, tool = one_line(ask.agent, 40), one_line(ask.tool or "a tool", 40)
    return f"{who} asks to use {tool} ({one_line(ask.session, 40)}{more}): supervisor inbox"


def variables(ask: NewAsk, *, waiting: int) -> Mapping[str, str]:
    """The facts as a command of the user gets them."""
    return {
        "SUPERVISOR_ASK_ID": one_line(ask.id, 200),
        "SUPERVISOR_ASK_AGENT": one_line(ask.agent),
        "SUPERVISOR_ASK_SESSION": one_line(ask.session),
        "SUPERVISOR_ASK_TOOL": one_line(ask.tool),
        "SUPERVISOR_ASK_VALUE": printable(ask.value[:MAX_VALUE]),
        "SUPERVISOR_ASKS_WAITING": str(waiting),
    }


def on_terminal(text: str, *, term: str, first: bool) -> bytes:
    """A title and a bell: neither moves the cursor nor draws. `first`: the title that was there is put aside."""
    if term in _WITHOUT_TITLE:
        return BELL
    return (_PUSH_TITLE if first else b"") + _title(text) + BELL


def off_terminal(name: str, *, term: str) -> bytes:
    """Nothing waits any more: the title that was there, or the agent's name where a terminal keeps no titles."""
    return b"" if term in _WITHOUT_TITLE else _title(one_line(name, 60)) + _POP_TITLE


def _title(text: str) -> bytes:
    return b"\x1b]2;" + text.encode("utf-8", "replace") + BELL


def desktop_argv(program: str, text: str) -> tuple[str, ...]:
    """The notification program's command line; the text is one word of it, never a script."""
    if program.endswith("osascript"):
        script = ("on run words", "display notification (item 1 of words) with title (item 2 of words)", "end run")
        return (program, *(part for told in script for part in ("-e", told)), "--", text, "supervisor")
    return (program, "--app-name=supervisor", "--", "supervisor", text)
