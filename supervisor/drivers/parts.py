"""What a driver is made of: the things that happen to it, and the little that it needs of what it works with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from supervisor.adapters.driver_box import Request
from supervisor.core.asks import Decision
from supervisor.runtime.tool_use import PermissionAsk, Unclear


class Heard(NamedTuple):
    """A line on the CLI's standard output; None at its end."""

    line: bytes | None


class Posted(NamedTuple):
    """A message that did not come as a line."""

    message: Any


class Decided(NamedTuple):
    """An ask has its answer."""

    key: str
    decision: Decision


class Told(NamedTuple):
    """A signal for us."""

    number: int


class Rung(NamedTuple):
    """Look again: somebody has put a request, or a child has ended."""


Event = Heard | Posted | Decided | Told | Rung


class Inbox(Protocol):
    """Where events arrive from all threads. Raises queue.Empty after `timeout` seconds."""

    def get(self, *, timeout: float | None = None) -> Event: ...


class Cli(Protocol):
    """What is needed of the CLI's process."""

    def write(self, data: bytes) -> None: ...
    def end_input(self) -> None: ...
    def taken(self) -> None: ...
    def last_words(self) -> str: ...
    def reap(self) -> bool: ...
    def signal(self, number: int) -> None: ...
    def describe_end(self) -> str: ...
    def end_left(self) -> str: ...


class Asks(Protocol):
    """What is needed of the relay."""

    def put(self, key: str, wanted: PermissionAsk | Unclear) -> Decision | None: ...
    def settle(self, key: str) -> bool: ...
    def withdraw(self, key: str) -> bool: ...
    def close(self) -> None: ...


class Box(Protocol):
    """What is needed of the box; `leave` when we mean to end, which gives what was put at the last moment."""

    def take(self) -> Sequence[Request]: ...
    def leave(self) -> Sequence[Request]: ...
    def listen_again(self) -> None: ...
    def close(self) -> None: ...
