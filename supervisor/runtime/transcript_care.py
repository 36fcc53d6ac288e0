"""Looking after transcripts: the cap, a file removed under us, a full disk. At each beat; never blocks the agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from supervisor.runtime.logs import warn
from supervisor.runtime.parts import Parts

if TYPE_CHECKING:
    from supervisor.runtime.kept_agent import KeptAgent

_MIN_FREE = 4096


COLD_EVERY = 8
"""A transcript that did not grow at the last look is looked at every eighth beat: silent agents cost nothing."""


class TranscriptCare:
    """One keeper's care; remembers the sizes last seen, and which transcripts grow."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._sizes: dict[str, int] = {}
        self._growing: set[str] = set()
        self._beat = 0

    def look(self, agents: Sequence[KeptAgent]) -> None:
        """Cap what has grown too long, and say which output is degraded."""
        self._beat += 1
        full: bool | None = None
        for number, agent in enumerate(agents):
            if (self._beat + number) % COLD_EVERY and agent.transcript not in self._growing:
                continue
            path = agent.transcript
            if path is None or agent.leader is None:
                continue
            size = self._parts.transcripts.size(path)
            if size is None:
                agent.output_degraded("the transcript was removed or rotated away")
                continue
            if full is None:
                full = self._parts.transcripts.free_bytes() < _MIN_FREE
            if full:
                agent.output_degraded("the disk was full, what it wrote then is lost")
            self._remember(path, size)
            if size > self._parts.limits.transcript_bytes:
                self._cap(agent, path)

    def _remember(self, path: str, size: int) -> None:
        if self._sizes.get(path, 0) == size:
            self._growing.discard(path)
        else:
            self._growing.add(path)
        self._sizes[path] = size

    def _cap(self, agent: KeptAgent, path: str) -> None:
        try:
            self._parts.transcripts.cap(path, self._parts.limits.transcript_bytes)
        except OSError as error:
            warn("a transcript could not be capped", agent=agent.entry.name, why=str(error))
