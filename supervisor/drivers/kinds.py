"""The kinds of drivers: a name, its protocol, its link. Imports the one that is wanted."""

from __future__ import annotations

import os
from collections.abc import Mapping

from supervisor.core.ports import Clock
from supervisor.drivers.effects import Job, Speaker
from supervisor.drivers.links import JsonLines, Link

KINDS = ("acp", "claude", "codex", "gemini", "opencode")


def make(kind: str, job: Job, *, env: Mapping[str, str], home: str, clock: Clock) -> tuple[Speaker, Link]:
    """A speaker of this kind for one job, and the link it speaks over. `home` is the state root.

    Raises:
        ValueError: there is no such kind.
    """
    if kind == "acp":
        from supervisor.drivers.acp import AcpSpeaker

        return AcpSpeaker(job), JsonLines()
    if kind == "gemini":
        from supervisor.drivers.gemini import gemini

        return gemini(job, env=env, keep=os.path.join(home, "kept", "gemini"), clock=clock)
    if kind == "opencode":
        from supervisor.drivers.opencode import OpencodeSpeaker
        from supervisor.drivers.opencode_link import OpencodeLink

        return OpencodeSpeaker(job), OpencodeLink(env, password=os.urandom(24).hex())
    if kind == "claude":
        from supervisor.drivers.claude import Claude

        return Claude(job), JsonLines()
    if kind == "codex":
        from supervisor.drivers.codex import Codex

        return Codex(job), JsonLines()
    raise ValueError(kind)
