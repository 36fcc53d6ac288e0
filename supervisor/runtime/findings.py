"""What the doctor looks at and what it says: facts and findings, as values. Owns nothing, judges nothing.

`fail`: something does not work or is unsafe. `warn`: it works worse than it should, or a person should look. `info`:
worth knowing, nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from supervisor.adapters.machine import Folder, Kernel, Space

Level = Literal["ok", "info", "warn", "fail"]
LEVELS: tuple[Level, ...] = ("ok", "info", "warn", "fail")


class Finding(Struct, frozen=True):
    """One line of the doctor's report."""

    level: Level
    what: str
    detail: str
    todo: str = ""


class ProfileFacts(Struct, frozen=True, kw_only=True):
    """One profile as looked at: is it valid, where are its programs, what does its probe say.

    `programs` are (name, path or None); `version` is None when it was not probed or said nothing.
    """

    name: str
    origin: str
    path: str
    trusted: bool
    problem: str = ""
    programs: tuple[tuple[str, str | None], ...] = ()
    version: str | None = None
    probe_error: str = ""
    tested: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """The programs that are not on PATH."""
        return tuple(name for name, where in self.programs if where is None)


class Swept(Struct, frozen=True):
    """Something that a dead process left behind, and whether it could be removed."""

    kind: str
    path: str
    removed: bool


class Problem(Struct, frozen=True):
    """An error of ours as a fact."""

    message: str
    hint: str = ""


class Facts(Struct, frozen=True, kw_only=True):
    """Everything that is judged. What could not be looked at has its empty value."""

    uid: int
    home: Folder
    home_problem: Problem | None = None
    home_writable: bool = True
    space: Space | None = None
    folders: tuple[Folder, ...] = ()
    run: Folder | None = None
    run_target: Folder | None = None
    run_space: Space | None = None
    host_id: str | None = None
    wall_ms: int = 0
    monotonic_ns: int = 1
    newest_start_ms: int | None = None
    kernel: Kernel
    tmux: str | None = None
    python: str = "3.11.0"
    executable: str = "python3"
    supervisord: str | None = None
    owners: tuple[str, ...] = ()
    corrupt: tuple[tuple[str, str], ...] = ()
    swept: tuple[Swept, ...] = ()
    without_keeper: tuple[str, ...] = ()
    settings_problem: Problem | None = None
    tasks_problem: Problem | None = None
    profiles: tuple[ProfileFacts, ...] = ()


def worst(findings: Iterable[Finding]) -> Level:
    """The most serious level; `ok` when there is nothing."""
    return max((f.level for f in findings), key=LEVELS.index, default="ok")
