"""A profile whose CLI is spoken to by a driver of ours, as the profile of that driver. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from supervisor.core.profile import Argv, LaunchProfile, ProcessRules

GRACE_S = 10
"""A driver's own ladder takes at most 5 s: the end of the CLI's input, TERM, and killing what is left."""


def as_driver(profile: LaunchProfile) -> LaunchProfile:
    """How the driver is started, proven up and stopped: its own options, whatever those of the CLI are."""
    driver = profile.driver
    assert driver is not None
    session = replace(profile.session, id=driver.session or profile.session.id, capture_key=None)
    grace = max(profile.stop.grace_seconds, GRACE_S)
    return replace(
        profile,
        argv=Argv(
            base=("{python}", "-P", "-m", "supervisor.drivers", driver.kind),
            start=(("--session-id", "{session_id}"),) if session.id == "preset" else (),
            resume=(("--resume", "{session_id}"),) if session.id != "none" else (),
            options=((("--model", "{model}"),) if driver.model else ()) + (("--mcp-server", "{mcp_server}"),),
            path=("--add-dir", "{path}"),
        ),
        prompt=replace(profile.prompt, headless="stdin"),
        session=session,
        ready=replace(profile.ready, when="session"),
        stop=replace(profile.stop, signal="TERM", grace_seconds=grace, success_codes=(0,), success_line={}),
        process=ProcessRules(),
    )
