"""What a vendor's protocol wants done, as values; and what a protocol has to be able to do. Pure.

A `Speaker` holds the state of one conversation and nothing else: messages come in, effects go out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol

from supervisor.core.asks import Decision
from supervisor.runtime.tool_use import PermissionAsk, Unclear

Kind = Literal["text", "tool", "result", "note", "error"]
How = Literal["done", "failed", "interrupted"]


class Job(NamedTuple):
    """What the CLI is to be started for. `session`: the id we choose; `resume`: the one to go on with, else None.

    `paths`: folders besides `cwd` that it may use. `mcp`: the command of the MCP server that it is told of.
    """

    argv: tuple[str, ...]
    cwd: str
    session: str | None = None
    resume: str | None = None
    model: str | None = None
    paths: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()


class Send(NamedTuple):
    """A message to the CLI, as its link takes it."""

    message: Any


class Ready(NamedTuple):
    """From now on it takes prompts."""


class Proven(NamedTuple):
    """The CLI itself has named the session that it is in; `file`: where it keeps it, when it says so."""

    session: str
    file: str | None = None


class Ask(NamedTuple):
    """The CLI asks; `key` is ours, one for each ask. What is `Unclear` is denied without asking anybody."""

    key: str
    wanted: PermissionAsk | Unclear


class Withdraw(NamedTuple):
    """The CLI needs no answer to that ask any more."""

    key: str


class Say(NamedTuple):
    """Something for the transcript."""

    kind: Kind
    text: str


class TurnEnded(NamedTuple):
    """The turn that a prompt began is over, with everything it had started."""

    how: How
    why: str = ""


class Broken(NamedTuple):
    """It makes no sense to go on: the CLI is ended and the driver fails."""

    why: str


Effect = Send | Ready | Proven | Ask | Withdraw | Say | TurnEnded | Broken
Effects = Sequence[Effect]


class Speaker(Protocol):
    """One vendor's protocol."""

    @property
    def ends_on_eof(self) -> bool | None:
        """Whether the end of its standard input ends the CLI: also amid a tool; False: between turns; None: never."""

    def command(self) -> Sequence[str]:
        """The CLI's command line."""

    def open(self) -> Effects:
        """The CLI has been started."""

    def hear(self, message: Any) -> Effects:
        """One message of the CLI."""

    def garbled(self, why: str) -> Effects:
        """It said something that is no message."""

    def prompt(self, text: str) -> Effects:
        """Begin a turn; only after `Ready` and not amid one."""

    def answer(self, key: str, decision: Decision) -> Effects:
        """What was decided on an ask that has not been withdrawn. Only `approved is True` may run anything."""

    def interrupt(self) -> Effects:
        """End the running turn, which is then told as `TurnEnded`."""

    def close(self) -> Effects:
        """The last words before its standard input ends."""
