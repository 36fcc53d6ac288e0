"""Looking after transcripts: the cap, a file removed under us, a full disk. At each beat; never blocks the agent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from supervisor.runtime.logs import warn
from supervisor.runtime.parts import Parts

if TYPE_CHECKING:
    from supervisor.runtime.kept_agent import KeptAgent

_MIN_FREE = 4096


class TranscriptCare:
    """One keeper's care; remembers nothing."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def look(self, agents: Iterable[KeptAgent]) -> None:
        """Cap what has grown too long, and say which output is degraded."""
        full: bool | None = None
        for agent in agents:
            path = agent.entry.output.transcript
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
            if size > self._parts.limits.transcript_bytes:
                self._cap(agent, path)

    def _cap(self, agent: KeptAgent, path: str) -> None:
        try:
            self._parts.transcripts.cap(path, self._parts.limits.transcript_bytes)
        except OSError as error:
            warn("a transcript could not be capped", agent=agent.entry.name, why=str(error))
