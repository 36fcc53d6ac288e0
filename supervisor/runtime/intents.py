"""Drafts of entries, and putting them on record: every intent is on disk before anything is spawned.

Kept apart from the checks of a launch, which a keeper-to-be (`seed`) must not load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from supervisor.adapters.atomic_file import write_atomic
from supervisor.core.entry import Entry
from supervisor.core.errors import Refused
from supervisor.core.ports import Conflict
from supervisor.runtime.compose import Context
from supervisor.runtime.kept_agent import KeptAgent, Report

if TYPE_CHECKING:
    from supervisor.runtime.keeper import Keeper


class Draft(Struct, frozen=True):
    """A checked launch: the entry but for its keeper, and the environment that will not be stored."""

    entry: Entry
    env: Mapping[str, str]
    prompt: bytes | None


def start_all(context: Context, drafts: Sequence[Draft], keeper: Keeper, report: Report) -> None:
    """In the keeper: write every intent, then keep the agents. Nothing is spawned before all intents are on disk.

    Raises:
        OSError: the disk does not take the intents; those written are withdrawn.
    """
    written: list[Entry] = []
    agents: list[KeptAgent] = []
    try:
        for draft in drafts:
            entry = replace(draft.entry, keeper=keeper.ref)
            if draft.prompt is not None and entry.plan.prompt_file:
                write_atomic(entry.plan.prompt_file, draft.prompt)
            if entry.output.transcript:
                context.parts.transcripts.create(entry.output.transcript)
            if isinstance(context.store.create(entry), Conflict):
                raise Refused(f"{entry.name}: its session {entry.session_id} is on record already")
            written.append(entry)
            agents.append(KeptAgent(entry, draft.env, parts=context.parts, report=report))
    except BaseException:
        for entry in written:
            context.store.remove_if_unchanged(entry)
        for draft in drafts:
            context.parts.transcripts.remove(draft.entry.entry_id)
        raise
    for agent in agents:
        keeper.add(agent)
