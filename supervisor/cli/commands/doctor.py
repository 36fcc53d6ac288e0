"""`supervisor doctor`: check this machine and the state root."""

from __future__ import annotations

import click

from supervisor.cli.common import json_option, print_json

COLOURS = {"ok": "green", "info": "dim", "warn": "yellow", "fail": "bold red"}


@click.command("doctor", epilog="Example: supervisor doctor --json")
@json_option
def command(as_json: bool) -> int:
    """Check this machine and the state root, and sweep what dead processes left behind.

    One line per check: ok, info, warn or fail; what; details; what to do. The exit code is 1 when a check fails.
    """
    from supervisor.runtime.checks import judge
    from supervisor.runtime.checkup import look
    from supervisor.runtime.compose import from_environment
    from supervisor.runtime.findings import worst

    findings = judge(look(from_environment()))
    if as_json:
        print_json(findings)
    else:
        from supervisor.cli.tables import print_table

        rows = [(f.level, f.what, f.detail, f"→ {f.todo}" if f.todo else "") for f in findings]
        print_table((), rows, colours=COLOURS)
    return 1 if worst(findings) == "fail" else 0
