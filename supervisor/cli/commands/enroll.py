"""`supervisor enroll`: record a running agent that was not launched by us."""

from __future__ import annotations

import click

from supervisor.cli.common import complete_profiles, json_option, note, open_context


@click.command("enroll", epilog="Example: supervisor enroll --pid 4711 --name lead")
@click.option("--pid", type=click.IntRange(2, 2**31 - 1), required=True, help="The agent's process.")
@click.option("--session", metavar="ID", help="Its own session id, for a resume after its end.")
@click.option("--profile", metavar="P", shell_complete=complete_profiles, help="Profile [default: by its program].")
@click.option("--name", help="Name of the agent [default: the profile's, numbered].")
@json_option
def command(pid: int, session: str | None, profile: str | None, name: str | None, as_json: bool) -> None:
    """Record a running agent that was not launched by supervisor: agents launched from inside it become its children.

    It is watched, its end is recorded. Nothing is done to it: only a `stop` that names it signals it.
    """
    from supervisor.cli.starting import print_started
    from supervisor.runtime.enrolling import NO_PROFILE, enroll

    entry = enroll(open_context(), pid, session=session, profile=profile, name=name)
    print_started(entry, as_json=as_json)
    if entry.plan.profile == NO_PROFILE and profile is None and not as_json:
        note("no profile is about its program: it cannot be resumed after its end (--profile names one)")
