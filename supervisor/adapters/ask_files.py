"""Asks as files, in pi's layout: requests, responses and claims per session, serving heartbeats beside them.

Owns one forwarding folder (ours, or pi's). Standard library only: hooks import it. Decides nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from supervisor.adapters.atomic_file import make_private, read_bounded, temp_name, write_atomic, writer_of_temp
from supervisor.adapters.clock import pause
from supervisor.core.ask_wire import MAX_BYTES
from supervisor.core.ids import encode

T = TypeVar("T")
_TRIES = 200
"""A peer may remove an empty folder between our mkdir and our open: both are repeated (its loop runs every 250 ms)."""


class AskFiles:
    """`root` holds `sessions/<ENC(session)>/{requests,responses,claims}` and `serving/`."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._serving = os.path.join(root, "serving")
        self._fds: dict[str, int] = {}

    def sessions(self) -> Sequence[str]:
        """The sessions that have an inbox."""
        return _session_names(_names(os.path.join(self.root, "sessions")))

    # -- requests

    def write_request(self, session: str, ask_id: str, data: bytes, *, responses: bool = True) -> None:
        """Put a request into a session's inbox. Without `responses` that folder is left to whoever answers.

        Raises:
            OSError: it is not there.
        """
        path = self._path(session, "requests", ask_id)
        kinds = ("requests", "responses") if responses else ("requests",)
        self._with_folders(session, kinds, lambda: write_atomic(path, data))

    def requests(self, session: str, *, but: Collection[str] = ()) -> Sequence[str]:
        """The ids in a session's inbox, in order of arrival; without those in `but`, at which it does not look."""
        return self._ids(session, "requests", but)

    def gone(self, session: str, known: Collection[str]) -> set[str]:
        """Which of these are in a session's inbox no more."""
        return set(known) - self._stems(session, "requests") if known else set()

    def read_request(self, session: str, ask_id: str) -> bytes | None:
        """A request's bytes; None when it was withdrawn, or is too large to be one."""
        return _read(self._path(session, "requests", ask_id))

    def has_request(self, session: str, ask_id: str) -> bool:
        """Whether it still waits."""
        return os.path.exists(self._path(session, "requests", ask_id))

    def remove_request(self, session: str, ask_id: str) -> None:
        """Withdrawn or answered."""
        _unlink(self._path(session, "requests", ask_id))

    def inbox_stamp(self, session: str) -> int:
        """Changes whenever a request came or went; 0 when there is no inbox."""
        try:
            return os.stat(os.path.join(self._folder(session), "requests")).st_mtime_ns
        except OSError:
            return 0

    # -- responses

    def publish_response(self, session: str, ask_id: str, data: bytes) -> bool:
        """Publish an answer so that the first one stands; False when there is one already.

        Raises:
            OSError: it could not be written.
        """
        path = self._path(session, "responses", ask_id)
        return self._with_folders(session, ("responses",), lambda: _link_new(path, data))

    def read_response(self, session: str, ask_id: str) -> bytes | None:
        """The answer's bytes, None while there is none."""
        return _read(self._path(session, "responses", ask_id))

    def has_response(self, session: str, ask_id: str) -> bool:
        """Whether somebody has answered."""
        return os.path.exists(self._path(session, "responses", ask_id))

    def has_responses(self, session: str) -> bool:
        """Whether there is a folder for answers: pi makes it when it takes up a request."""
        return os.path.isdir(os.path.join(self._folder(session), "responses"))

    def responses(self, session: str) -> Sequence[str]:
        """The ids that have an answer which nobody has fetched."""
        return self._ids(session, "responses")

    def answered(self, session: str) -> set[str]:
        """The same as a set, without a look at the files."""
        return self._stems(session, "responses")

    def remove_response(self, session: str, ask_id: str) -> None:
        """Fetched, or nobody's any more."""
        _unlink(self._path(session, "responses", ask_id))

    # -- claims

    def claim(self, session: str, ask_id: str, data: bytes) -> None:
        """Somebody looks at it. Rewritten while they do.

        Raises:
            OSError: it could not be written.
        """
        path = self._path(session, "claims", ask_id)
        self._with_folders(session, ("claims",), lambda: write_atomic(path, data))

    def read_claim(self, session: str, ask_id: str) -> bytes | None:
        """The claim's bytes."""
        return _read(self._path(session, "claims", ask_id))

    def claims(self, session: str) -> set[str]:
        """The ids that somebody looks at, or has looked at before he was killed."""
        return self._stems(session, "claims")

    def remove_claim(self, session: str, ask_id: str) -> None:
        """Nobody looks any more."""
        _unlink(self._path(session, "claims", ask_id))

    # -- serving

    def serving_path(self, session: str) -> str:
        """The serving heartbeat of a session."""
        return os.path.join(self._serving, f"{encode(session)}.json")

    def beat(self, session: str, data: bytes) -> None:
        """Write a serving heartbeat in place (fixed width: no reader sees a torn one); a removed file is made anew.

        Raises:
            OSError: it could not be written.
        """
        fd = self._fds.get(session)
        if fd is not None and os.fstat(fd).st_nlink == 0:
            os.close(self._fds.pop(session))
            fd = None
        if fd is None:
            make_private(self._serving)
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = self._fds[session] = os.open(self.serving_path(session), flags, 0o600)
            os.ftruncate(fd, len(data))
        os.pwrite(fd, data, 0)

    def stop_serving(self, session: str) -> None:
        """A clean end leaves no heartbeat; the folder itself is never removed."""
        fd = self._fds.pop(session, None)
        if fd is not None:
            os.close(fd)
            _unlink(self.serving_path(session))

    def read_beat(self, session: str) -> bytes | None:
        """A session's serving heartbeat."""
        return _read(self.serving_path(session), 4096)

    def serving_files(self) -> Sequence[str]:
        """The paths of all serving heartbeats."""
        try:
            return [f.path for f in os.scandir(self._serving) if f.name.endswith(".json")]
        except OSError:
            return ()

    def serving_sessions(self, most: int) -> Sequence[str]:
        """The sessions that have a serving heartbeat, alive or not: at most so many."""
        return _session_names((n[:-5] for n in _names(self._serving) if n.endswith(".json")), most)

    # -- tidying

    def sweep_temps(self, session: str, alive: Callable[[int], bool]) -> int:
        """Remove temp files whose writers are dead; how many."""
        swept = 0
        for kind in ("requests", "responses", "claims"):
            folder = os.path.join(self._folder(session), kind)
            for name in _names(folder):
                writer = writer_of_temp(name)
                if writer is not None and not alive(writer):
                    _unlink(os.path.join(folder, name))
                    swept += 1
        return swept

    def sweep_responses(self, session: str, *, before_ns: int) -> int:
        """Remove answers that were published before then (epoch ns), and whose requests are gone; how many."""
        swept = 0
        for ask_id in self.responses(session):
            path = self._path(session, "responses", ask_id)
            with contextlib.suppress(OSError):
                if os.lstat(path).st_mtime_ns < before_ns and not self.has_request(session, ask_id):
                    os.unlink(path)
                    swept += 1
        return swept

    def _folder(self, session: str) -> str:
        return os.path.join(self.root, "sessions", encode(session))

    def _path(self, session: str, kind: str, ask_id: str) -> str:
        return os.path.join(self._folder(session), kind, f"{ask_id}.json")

    def _stems(self, session: str, kind: str) -> set[str]:
        names = _names(os.path.join(self._folder(session), kind))
        return {n[:-5] for n in names if n.endswith(".json") and not n.startswith(".")}

    def _ids(self, session: str, kind: str, but: Collection[str] = ()) -> Sequence[str]:
        found = []
        try:
            for item in os.scandir(os.path.join(self._folder(session), kind)):
                if item.name.endswith(".json") and not item.name.startswith(".") and item.name[:-5] not in but:
                    with contextlib.suppress(OSError):
                        found.append((item.stat(follow_symlinks=False).st_mtime_ns, item.name[:-5]))
        except OSError:
            return ()
        return [ask_id for _, ask_id in sorted(found)]

    def _with_folders(self, session: str, kinds: Sequence[str], write: Callable[[], T]) -> T:
        for attempt in range(_TRIES):
            try:
                for kind in kinds:
                    make_private(os.path.join(self._folder(session), kind))
                return write()
            except (FileNotFoundError, FileExistsError):
                if attempt == _TRIES - 1:
                    raise
                if attempt > 8:
                    pause(0.001)
            except PermissionError:  # a scanner or a peer's clean-up holds it for a moment
                if attempt >= 3:
                    raise
        raise AssertionError("unreachable")


def _link_new(path: str, data: bytes) -> bool:
    folder, name = os.path.split(path)
    temp = temp_name(folder, name)
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        os.link(temp, path)
    except FileExistsError:
        return False
    finally:
        _unlink(temp)
    return True


def _read(path: str, limit: int = MAX_BYTES + 1) -> bytes | None:
    """None when there is none; a file over the limit reads as its first bytes, which are then malformed."""
    try:
        return read_bounded(path, limit)
    except OSError:
        return b"" if os.path.lexists(path) else None


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _session_names(names: Iterable[str], most: int | None = None) -> Sequence[str]:
    from urllib.parse import unquote

    found: list[str] = []
    for name in names:
        session = unquote(name)
        with contextlib.suppress(UnicodeEncodeError):
            if encode(session) == name and session not in ("", ".", ".."):
                found.append(session)
        if len(found) == most:
            break
    return found


def _names(folder: str) -> Sequence[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return ()
