"""Taking over agents whose keeper was killed: claimed by compare-and-swap, found by identity, none started twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from supervisor.core import transitions
from supervisor.core.agent_env import base_environment, identity_rules
from supervisor.core.entry import Entry, Starting
from supervisor.core.identity import ProcessKey, ProcessRef, same_process
from supervisor.core.ports import Exit
from supervisor.runtime.compose import Context
from supervisor.runtime.keeper import Keeper
from supervisor.runtime.kept_agent import KeptAgent, Report
from supervisor.runtime.look import find_generation


def attach_all(context: Context, entries: Iterable[Entry], keeper: Keeper, report: Report) -> None:
    """Claim each entry for this keeper; what another keeper claimed first is left to it."""
    for entry in entries:
        claimed = context.store.replace_if_unchanged(
            entry, transitions.kept_by(entry, keeper.ref, now=context.clock.wall_ms())
        )
        if isinstance(claimed, Entry):
            _attach(context, claimed, keeper, report)


def _attach(context: Context, entry: Entry, keeper: Keeper, report: Report) -> None:
    parts = context.parts
    now = parts.now()
    key, adopted_start = _find(context, entry)
    agent = KeptAgent(entry, _environment(context, entry, key), parts=parts, report=report, attached=True)
    if adopted_start and key is not None:  # its keeper died between spawn and record
        process = ProcessRef(now.machine, key)
        agent.record.change(lambda e: transitions.spawned(e, process, now=now.wall_ms))
    elif isinstance(entry.state, Starting):
        if entry.state.attempt == 0:
            agent.close_unstarted("its keeper died before it was started", now, cause="lost")
    elif key is None:
        agent.ended(Exit())
    report(entry.key, "attached")
    keeper.add(agent)


def _find(context: Context, entry: Entry) -> tuple[ProcessKey | None, bool]:
    """The agent's process if it lives, and whether it was found by its marker instead of its record."""
    ref = entry.generation.process
    if ref is None:
        pid = find_generation(context.processes, entry.generation.nonce, home=context.places.home)
        return (context.processes.identify(pid) if pid else None), True
    seen = context.processes.probe(ref.key.pid)
    return (ref.key if isinstance(seen, ProcessKey) and same_process(ref.key, seen) else None), False


def _environment(context: Context, entry: Entry, key: ProcessKey | None) -> Mapping[str, str]:
    """What a restart would give it: what it was started with, as the kernel remembers, else what we would inherit.

    The values that the user gave by --env are not stored; a dead agent's are lost with it.
    """
    if key is not None and (found := context.processes.environment(key.pid)):
        return {n: v for n, v in found.items() if not n.startswith("SUPERVISOR_")}
    return base_environment(context.env, rules=identity_rules(context.profiles.known()), plan=entry.plan)
