"""The Gemini CLI: ACP, and its session files looked after around a load."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from supervisor.core.ports import Clock
from supervisor.drivers.acp import AcpSpeaker
from supervisor.drivers.effects import Job
from supervisor.drivers.gemini_sessions import GeminiSessions
from supervisor.drivers.links import Around, JsonLines, Link


def gemini(job: Job, *, env: Mapping[str, str], keep: str, clock: Clock) -> tuple[AcpSpeaker, Link]:
    """Its speaker and its link. Model and folders are options of its command line."""
    home = env.get("GEMINI_CLI_HOME") or env.get("HOME") or os.path.expanduser("~")
    sessions = GeminiSessions(home, cwd=job.cwd, keep=keep, clock=clock)
    model = ("--model", job.model) if job.model else ()
    folders = tuple(word for path in job.paths for word in ("--include-directories", path))
    plain = job._replace(argv=(*job.argv, *model, *folders), model=None, paths=())
    return AcpSpeaker(plain, file_of=sessions.file_of), GeminiLink(sessions, job.resume)


class GeminiLink(JsonLines):
    """JSON lines; an answer to `session/load` is believed only when the history is still there."""

    def __init__(self, sessions: GeminiSessions, resume: str | None) -> None:
        super().__init__()
        self._sessions = sessions
        self._resume = resume
        self._load: Any = None

    def start(self, around: Around) -> str | None:
        """Look for the session, wait for the minute, keep a copy."""
        super().start(around)
        if self._resume is None:
            return None
        try:
            return self._sessions.prepare(self._resume, around)
        except OSError as error:
            return f"the files of session {self._resume} cannot be kept safe: {error}"

    def environment(self) -> Mapping[str, str]:
        """Without this the process that is started is a wrapper that ignores every polite signal."""
        return {"GEMINI_CLI_NO_RELAUNCH": "true"}

    def send(self, message: Any) -> None:
        """Remember which is the load."""
        if message.get("method") == "session/load":
            self._load = message["id"]
        super().send(message)

    def line(self, line: bytes) -> Sequence[Any]:
        """The message in a line."""
        messages = super().line(line)
        if self._resume is None or self._load is None:
            return messages
        return [self._checked(m) if isinstance(m, dict) and m.get("id") == self._load else m for m in messages]

    def _checked(self, answer: dict[str, Any]) -> dict[str, Any]:
        if "method" in answer or "error" in answer:
            return answer
        self._load = None
        try:
            why = self._sessions.loaded(self._resume or "")
        except OSError as error:
            why = f"the session's files cannot be read: {error}"
        return answer if why is None else {"id": answer["id"], "error": {"message": why}}

    def ended(self) -> None:
        """Put back what a load has destroyed; what cannot be written now is put back before the next load."""
        if self._resume is not None:
            with contextlib.suppress(OSError):
                self._sessions.settle(self._resume)
