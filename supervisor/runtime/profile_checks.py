"""The doctor's judgement of a launch profile, for `doctor` and `profiles check`. Starts no program, reads nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping

from supervisor.runtime.findings import Finding, Level, ProfileFacts

_VERSION = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+)+(?:[-+][0-9A-Za-z.+-]+)?)")
_PROBE_VARIABLES = re.compile(r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|TMPDIR|TERM|XDG_\w+")


def judge_profile(facts: ProfileFacts, *, missing: Level) -> Finding:
    """One profile's finding. `missing` is what a program that is not on PATH counts as."""
    what = f"profile {facts.name}"
    if facts.problem:
        return Finding("fail", what, facts.problem, "Correct the file, or remove it")
    if facts.missing and (facts.trusted or missing == "fail"):
        return Finding(missing, what, f"not installed: {', '.join(facts.missing)} is not on PATH", _install(missing))
    if not facts.trusted:
        todo = f"Read it, then: supervisor profiles trust {facts.name}"
        return Finding("info", what, f"{facts.path} comes from the project and is not trusted, so not used", todo)
    if facts.probe_error:
        return Finding("warn", what, facts.probe_error, "Try it by hand")
    where = facts.programs[0][1] if facts.programs else "valid"
    if facts.version is None:
        return Finding("ok", what, where or "valid")
    if facts.tested and facts.version not in facts.tested:
        tested = ", ".join(facts.tested)
        return Finding("warn", what, f"version {facts.version}, verified with {tested}", "Mostly works; watch its asks")
    return Finding("ok", what, f"version {facts.version} ({where})")


def version_in(output: str) -> str | None:
    """The first thing in a program's answer that looks like a version."""
    match = _VERSION.search(output)
    return match.group(1) if match else None


def probe_environment(env: Mapping[str, str]) -> dict[str, str]:
    """What a version probe gets: enough to run, no key and no identity."""
    return {name: value for name, value in env.items() if _PROBE_VARIABLES.fullmatch(name)}


def _install(missing: Level) -> str:
    return "" if missing == "info" else "Install it, or put its folder on PATH"
