"""What a running driver is told: requests as files beside a bell. Owns `<home>/drivers/<entry id>`.

Whoever unlinks a request has it: the driver that takes it, or the sender that gives up. So nothing is done twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from supervisor.adapters.atomic_file import make_private, read_bounded, write_atomic
from supervisor.adapters.bells import BellFiles

MAX_REQUEST = 8 * 1024 * 1024
"""A follow-up of 1 MiB may be six times as long in JSON."""

_BELL = "bell"
_ENTRY = re.compile(r"[0-9a-f]{8,64}\Z")
_REQUEST = re.compile(r"[0-9]{16,20}-[0-9a-f]{8}\.json\Z")

Do = Literal["prompt", "interrupt"]


class Request(NamedTuple):
    """Begin another turn with `text`, or end the one that runs."""

    do: Do
    text: str = ""


class DriverBox:
    """The requests to one driver. Raises ValueError for what is no entry id."""

    def __init__(self, home: str, entry_id: str) -> None:
        if not os.path.isabs(home) or not _ENTRY.match(entry_id):
            raise ValueError(f"{entry_id!r} is no entry id")
        self._folder = os.path.join(home, "drivers", entry_id)
        self._bells = BellFiles(self._folder)

    # -- the driver

    def listen(self) -> int:
        """Be there; a descriptor that becomes readable when something was put.

        Raises:
            OSError: the folder cannot be made.
        """
        make_private(self._folder)
        return self._bells.listen(_BELL)

    def take(self) -> list[Request]:
        """What was put, oldest first; each is taken by exactly one. Malformed ones are dropped."""
        return [request for name in self._names() if (request := self._take(name)) is not None]

    def leave(self) -> list[Request]:
        """Not be there any more; what was put at the last moment. Whoever gets something listens again."""
        self._bells.remove(_BELL)
        return self.take()

    def close(self) -> None:
        """Not be there any more, and take nothing: senders take it back."""
        self._bells.remove(_BELL)
        with contextlib.suppress(OSError):
            os.rmdir(self._folder)

    def _names(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self._folder) if _REQUEST.match(name))
        except OSError:
            return []

    def _take(self, name: str) -> Request | None:
        path = os.path.join(self._folder, name)
        try:
            data = read_bounded(path, MAX_REQUEST)
        except OSError:
            data = b""
        try:
            os.unlink(path)
        except OSError:
            return None  # its sender has taken it back
        return _parse(data or b"")

    # -- a sender

    def put(self, request: Request, *, now_ns: int) -> str | None:
        """Put a request and ring; its name, None when nobody is there. `now_ns` (monotonic) keeps the order.

        Raises:
            OSError: it cannot be written.
        """
        name = f"{now_ns:020d}-{os.urandom(4).hex()}.json"
        path = os.path.join(self._folder, name)
        try:
            write_atomic(path, json.dumps(request._asdict()).encode())
        except FileNotFoundError:
            return None
        if not self.ring() and self.take_back(name):
            return None
        return name

    def ring(self) -> bool:
        """Whether somebody is there to hear it."""
        return self._bells.ring(_BELL)

    def is_put(self, name: str) -> bool:
        """Whether it was not taken yet."""
        return os.path.lexists(os.path.join(self._folder, name))

    def take_back(self, name: str) -> bool:
        """Give up; False when it has been taken."""
        try:
            os.unlink(os.path.join(self._folder, name))
        except OSError:
            return False
        return True

    def remove(self) -> None:
        """The agent is no longer on record."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self._folder):
                os.unlink(os.path.join(self._folder, name))
            os.rmdir(self._folder)


def entries(home: str) -> Iterator[str]:
    """The entry ids that have a box."""
    try:
        yield from (name for name in os.listdir(os.path.join(home, "drivers")) if _ENTRY.match(name))
    except OSError:
        return


def _parse(data: bytes) -> Request | None:
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict):
        return None
    do, text = raw.get("do"), raw.get("text", "")
    if do not in ("prompt", "interrupt") or not isinstance(text, str):
        return None
    return Request(do, text)
