"""Which agent processes run that nobody launched through us. Looks only; same user only."""

from __future__ import annotations

import os
from collections.abc import Sequence

from supervisor.adapters.process_details import details
from supervisor.adapters.process_table import system_process_table
from supervisor.core.entry import Entry, is_live
from supervisor.core.foreign import Foreign, profile_of, programs, topmost
from supervisor.core.identity import same_process
from supervisor.core.liveness import comparable
from supervisor.runtime.compose import Context


def discover(context: Context, entries: Sequence[Entry]) -> list[Foreign]:
    """The topmost agent processes of this user that are no recorded agent's, by pid."""
    processes = context.processes if entries else system_process_table("")  # looking makes no state root
    known = programs(context.profiles.known())
    rows = processes.snapshot()
    mine = os.geteuid()
    found = {}
    for pid in rows:
        profile = profile_of(processes.command(pid), known)
        if profile is not None and (seen := details(pid)).uid == mine:
            found[pid] = (profile, seen)
    return [
        Foreign(
            pid=pid,
            profile=found[pid][0],
            program=found[pid][1].program or os.path.basename(processes.command(pid)[0]),
            cwd=found[pid][1].cwd,
            parent_pid=rows[pid].parent_pid,
        )
        for pid in topmost(found, rows, recorded=recorded_pids(context, entries))
    ]


def recorded_pids(context: Context, entries: Sequence[Entry]) -> set[int]:
    """The pids of live recorded agents, each verified."""
    out: set[int] = set()
    if not entries:
        return out
    here = context.processes.machine()
    for entry in entries:
        process = entry.generation.process
        if process is None or not is_live(entry) or not comparable(process.machine, here):
            continue
        seen = context.processes.identify(process.key.pid)
        if seen is not None and same_process(process.key, seen):
            out.add(seen.pid)
    return out
