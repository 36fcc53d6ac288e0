"""Which version a CLI has, and whether its profile was verified with it. Owns nothing; asks a program once per change.

A launch is told of another version in one line. It is never refused: most of what a profile says stays true.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from supervisor.adapters.binary_notes import BinaryNotes
from supervisor.adapters.spawn import run, which
from supervisor.core.entry import Entry
from supervisor.core.errors import SupervisorError
from supervisor.core.profile import LaunchProfile, field_of
from supervisor.core.text import one_line
from supervisor.runtime.compose import Context
from supervisor.runtime.hook_install import hook_left_out

PROBE_S = 10.0
"""A CLI that needs longer to say its version is broken, or asks something."""

_TOPIC = "version"


def probe(context: Context, profile: LaunchProfile) -> tuple[str | None, str]:
    """The version that the CLI says, and else what is wrong with its answer. What it says is noted."""
    from supervisor.runtime.profile_checks import probe_environment, version_in

    argv = [context.python if field_of(t) == "python" else t for t in profile.probe]
    fixed = {name: value for name, value in profile.env.set.items() if field_of(value) is None}  # "do not update now"
    try:
        code, out, error_text = run(argv, env={**probe_environment(context.env), **fixed}, timeout=PROBE_S)
    except OSError as error:
        return None, f"{' '.join(argv)}: {error.strerror or error}"
    version = version_in(out) or version_in(error_text)
    if code != 0 or version is None:
        said = one_line((error_text or out).strip(), 120) or "nothing"
        return None, f"{' '.join(argv)} ended with {code} and said: {said}"
    program = _program(context, profile)
    if program is not None:
        BinaryNotes(context.places.binaries).put(program, _TOPIC, version)
    return version, ""


def launch_notes(context: Context, entries: Sequence[Entry]) -> Iterator[str]:
    """What a person should know about the CLIs that were just launched, one line each."""
    told = set()
    for entry in entries:
        name = entry.plan.profile
        try:
            profile = context.profiles.load(name)
        except SupervisorError:
            continue  # it has changed since
        version = None if name in told else _known_version(context, profile)
        if version not in (None, *profile.tested_versions):
            yield (
                f"{name} is version {version}, its profile was verified with {', '.join(profile.tested_versions)}: "
                "look whether its asks arrive; see: supervisor profiles show " + name
            )
        told.add(name)
        if hook_left_out(profile, entry.plan.mode, entry.plan.argv):
            yield f"{entry.name} could not be made to call our hook: its asks stay in its own dialog"


def _known_version(context: Context, profile: LaunchProfile) -> str | None:
    """Noted for the program as it is now, else asked. None where there is nothing to compare."""
    program = _program(context, profile)
    if program is None or not profile.tested_versions:
        return None
    noted = BinaryNotes(context.places.binaries).get(program, _TOPIC)
    return noted if isinstance(noted, str) else probe(context, profile)[0]


def _program(context: Context, profile: LaunchProfile) -> str | None:
    first = profile.probe[0] if profile.probe else ""
    if not first or field_of(first) is not None:
        return None
    return which(first, path=context.env.get("PATH", os.defpath), cwd=context.cwd or "/")
