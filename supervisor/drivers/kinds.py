"""The kinds of drivers: a name, its protocol, its link. Imports the one that is wanted."""

from __future__ import annotations

from supervisor.drivers.effects import Job, Speaker
from supervisor.drivers.links import JsonLines, Link

KINDS = ("codex",)


def make(kind: str, job: Job) -> tuple[Speaker, Link]:
    """A speaker of this kind for one job, and the link it speaks over.

    Raises:
        ValueError: there is no such kind.
    """
    if kind == "codex":
        from supervisor.drivers.codex import Codex

        return Codex(job), JsonLines()
    raise ValueError(kind)
