"""Agent processes that nobody launched through us: which command lines are agents', which processes to name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from msgspec import Struct

from supervisor.core.ports import Process
from supervisor.core.profile import LaunchProfile

_INTERPRETERS = frozenset({"node", "nodejs", "bun", "deno", "python", "python3"})
_SUFFIXES = (".js", ".mjs", ".cjs", ".ts", ".py", ".exe")
_PACKAGES = {
    "claude-code": "claude",
    "codex": "codex",
    "gemini-cli": "gemini",
    "opencode-ai": "opencode",
    "pi-coding-agent": "pi",
}
"""Folder of the npm package → the program, for an interpreter that runs the package's own file (`…/cli.js`)."""


class Foreign(Struct, frozen=True, kw_only=True, rename="camel"):
    """An agent process that is not on record. `program` is its file alone: arguments may hold secrets."""

    pid: int
    profile: str
    program: str
    cwd: str | None
    parent_pid: int


def programs(profiles: Iterable[LaunchProfile]) -> dict[str, str]:
    """The name of a program, as a profile probes it → the profile: of several the one that bears the program's name."""
    out: dict[str, str] = {}
    for profile in profiles:
        name = profile.probe[0].rpartition("/")[2] if profile.probe else ""
        if name and name not in _INTERPRETERS and (name not in out or profile.name == name):
            out[name] = profile.name
    return out


def profile_of(command: Sequence[str], known: Mapping[str, str]) -> str | None:
    """Which profile a command line belongs to, None for any other program."""
    if not command:
        return None
    name = _name(command[0])
    if name in known:
        return known[name]
    if name not in _INTERPRETERS and name.rstrip("0123456789.") not in _INTERPRETERS:
        return None
    script = next((w for w in command[1:] if not w.startswith("-")), "")
    if _name(script) in known:
        return known[_name(script)]
    package = next((_PACKAGES[part] for part in script.split("/")[:-1] if part in _PACKAGES), None)
    return known.get(package) if package else None


def topmost(found: Iterable[int], rows: Mapping[int, Process], *, recorded: Set[int]) -> list[int]:
    """Of the agent processes found, those that descend neither from one another nor from a recorded agent."""
    candidates = set(found)
    blocked = candidates | recorded

    def below_another(pid: int) -> bool:
        seen = {pid}
        at = rows[pid].parent_pid
        while at in rows and at not in seen:
            if at in blocked:
                return True
            seen.add(at)
            at = rows[at].parent_pid
        return False

    return sorted(p for p in candidates - recorded if p in rows and not below_another(p))


def _name(word: str) -> str:
    base = word.split(" ", 1)[0].rpartition("/")[2]  # a program that retitles itself leaves one word with spaces
    return next((base[: -len(s)] for s in _SUFFIXES if base.endswith(s)), base)
