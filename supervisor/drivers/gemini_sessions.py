"""The session files of the Gemini CLI, kept safe from the CLI itself while it loads one.

What version 0.61.0 does, each seen and each in its source:

- a load first begins a new file for the session, named by the minute: `session-<minute>-<first 8 of the id>.jsonl`. In
  the minute in which the session was begun that is the file with the history, and the history is replaced by nothing;
- otherwise the new file stays beside it, without a history. At the next start of any gemini in that folder its clean-up
  takes it for an empty session, and removes every file of these eight characters: the history too;
- a load of an unknown id leaves an empty file.

So: it is looked first whether the session is there; the minute is waited for; a copy is kept until the load is seen to
be good; files without a history are removed. Owns `<keep>/<session>/`. Reads and writes below `<home>/.gemini/tmp`.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import shutil
from datetime import UTC, datetime
from typing import NamedTuple

from supervisor.adapters.atomic_file import make_private
from supervisor.core.ids import encode
from supervisor.core.ports import Clock
from supervisor.drivers.links import Around

MINUTE_MS = 60_000
MAX_LINE = 64 * 1024 * 1024
"""A longer line is a message, whatever it holds."""

_NAME = re.compile(r"session-(\d{4}-\d\d-\d\dT\d\d-\d\d)-[A-Za-z0-9_-]+\.jsonl\Z")
_COMPARED = 1024 * 1024


class SessionFile(NamedTuple):
    """One file of a session. `begun_ms`: the minute in its name (epoch ms)."""

    path: str
    begun_ms: int
    has_history: bool


class GeminiSessions:
    """The sessions of one folder. `home`: what `.gemini` is in; `keep`: where copies go."""

    def __init__(self, home: str, *, cwd: str, keep: str, clock: Clock) -> None:
        self._home = home
        self._cwd = cwd
        self._keep = keep
        self._clock = clock

    def file_of(self, session: str) -> str | None:
        """Where the session is kept: the file with its history, before there is one the newest."""
        files = self._files(session)
        best = [file for file in files if file.has_history] or files
        return best[-1].path if best else None

    def prepare(self, session: str, around: Around) -> str | None:
        """Before the CLI is started to load it; why it must not be, if so.

        Raises:
            OSError: its files cannot be read, copied or removed.
        """
        self.settle(session)  # of an earlier load, whose driver was killed
        files = self._files(session)
        history = [file for file in files if file.has_history]
        if not history:
            return f"gemini has no session {session} that was begun in {self._cwd}"
        self._remove_empty(files)
        over = max(file.begun_ms for file in history) + MINUTE_MS
        left = over - self._clock.wall_ms()
        if left > 2 * MINUTE_MS:
            return "its session file is from the future: the clock was set back; gemini could destroy it"
        if left > 0:
            around.note(f"waits {-(-left // 1000)} s: gemini would destroy a session that was begun in this minute")
            around.wait(left)
        self._copy(session, history[-1].path)
        return None

    def loaded(self, session: str) -> str | None:
        """The CLI says that it has loaded it; why that is not so, if so. Its empty second file is removed.

        Raises:
            OSError: as in `prepare`.
        """
        original, copy = self._kept(session)
        files = self._files(session)
        if (
            original is None
            or not any(f.has_history and f.path == original for f in files)
            or not _begins(original, copy)
        ):
            return "gemini has lost the history of the session while loading it; it is put back"
        self._remove_empty(files)
        self._drop(session)
        return None

    def settle(self, session: str) -> None:
        """The CLI has ended: what it has destroyed is put back.

        Raises:
            OSError: as in `prepare`.
        """
        original, copy = self._kept(session)
        if original is None:
            return
        if not _has_history(original):
            temp = f"{original}.{os.getpid()}.tmp"
            shutil.copy2(copy, temp)
            os.replace(temp, original)
        self._remove_empty(self._files(session))
        self._drop(session)

    # -- its files

    def _files(self, session: str) -> list[SessionFile]:
        """Oldest first."""
        short = glob.escape(re.sub(r"[^A-Za-z0-9_-]", "_", session)[:8])
        found = []
        for path in sorted(glob.glob(f"{glob.escape(self._home)}/.gemini/tmp/*/chats/session-*-{short}.jsonl")):
            begun = _begun_ms(os.path.basename(path))
            if begun is not None and self._is_ours(path) and _session_in(path) == session:
                found.append(SessionFile(path, begun, _has_history(path)))
        return found

    def _is_ours(self, path: str) -> bool:
        """Whether it was begun in this folder: gemini finds it from no other."""
        try:
            with open(os.path.join(os.path.dirname(os.path.dirname(path)), ".project_root")) as file:
                root = file.read(4096).strip()
        except (OSError, UnicodeDecodeError):
            return False
        return os.path.realpath(root) == os.path.realpath(self._cwd)

    def _remove_empty(self, files: list[SessionFile]) -> None:
        if any(file.has_history for file in files):
            for file in files:
                if not file.has_history:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(file.path)

    # -- the copy

    def _folder(self, session: str) -> str:
        return os.path.join(self._keep, encode(session))

    def _copy(self, session: str, path: str) -> None:
        folder = self._folder(session)
        make_private(folder)
        copy = os.path.join(folder, "history.jsonl")
        shutil.copy2(path, copy)
        os.chmod(copy, 0o600)
        with open(os.path.join(folder, "path"), "w") as file:  # last: without it the copy is none
            file.write(path)

    def _kept(self, session: str) -> tuple[str | None, str]:
        """Where the copied file belongs, and the copy."""
        folder = self._folder(session)
        copy = os.path.join(folder, "history.jsonl")
        try:
            with open(os.path.join(folder, "path")) as file:
                path = file.read(8192)
        except (OSError, UnicodeDecodeError):
            return None, copy
        inside = os.path.join(self._home, ".gemini", "tmp", "")
        return (path if path.startswith(inside) and os.path.exists(copy) else None), copy

    def _drop(self, session: str) -> None:
        shutil.rmtree(self._folder(session), ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir(self._keep)


def _begun_ms(name: str) -> int | None:
    match = _NAME.match(name)
    if match is None:
        return None
    try:
        return int(datetime.strptime(match.group(1), "%Y-%m-%dT%H-%M").replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        return None


def _session_in(path: str) -> str | None:
    """The id in its first line."""
    try:
        with open(path, "rb") as file:
            raw = json.loads(file.readline(MAX_LINE))
    except (OSError, ValueError, RecursionError):
        return None
    found = raw.get("sessionId") if isinstance(raw, dict) else None
    return found if isinstance(found, str) else None


def _has_history(path: str) -> bool:
    """Whether it holds a message besides the context that gemini itself begins a session with.

    A line `{"$set": {"messages": […]}}` replaces what stood before it.
    """
    found = False
    try:
        with open(path, "rb") as file:
            while line := file.readline(MAX_LINE):
                try:
                    raw = json.loads(line)
                except (ValueError, RecursionError):
                    found = found or len(line) == MAX_LINE
                    continue
                if not isinstance(raw, dict):
                    continue
                changed = raw.get("$set")
                if isinstance(changed, dict) and isinstance(changed.get("messages"), list):
                    found = any(_is_message(message) for message in changed["messages"])
                else:
                    found = found or _is_message(raw)
    except OSError:
        return False
    return found


def _is_message(raw: object) -> bool:
    if not isinstance(raw, dict) or raw.get("type") not in ("user", "gemini"):
        return False
    content = raw.get("content")
    first = content[0] if isinstance(content, list) and content else content
    text = first.get("text") if isinstance(first, dict) else first
    return not (isinstance(text, str) and text.lstrip().startswith("<session_context>"))


def _begins(path: str, copy: str) -> bool:
    """Whether the file still begins with what was copied: gemini only appends."""
    with open(path, "rb") as file, open(copy, "rb") as other:
        while part := other.read(_COMPARED):
            if file.read(len(part)) != part:
                return False
    return True
