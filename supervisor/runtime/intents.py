"""Drafts of entries, and putting them on record: every intent is on disk before anything is spawned.

Kept apart from the checks of a launch, which a keeper-to-be (`seed`) must not load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from supervisor.adapters.atomic_file import write_atomic
from supervisor.core import transitions
from supervisor.core.entry import Entry
from supervisor.core.errors import Refused
from supervisor.core.ports import Conflict
from supervisor.runtime.compose import Context
from supervisor.runtime.kept_agent import KeptAgent, Report

if TYPE_CHECKING:
    from supervisor.runtime.keeper import Keeper


class Draft(Struct, frozen=True):
    """A checked start: the entry but for its keeper, and the environment that will not be stored.

    `before`: the record that a resume replaces; None for a new agent.
    """

    entry: Entry
    env: Mapping[str, str]
    prompt: bytes | None
    before: Entry | None = None


def start_all(context: Context, drafts: Sequence[Draft], keeper: Keeper, report: Report) -> None:
    """In the keeper: write every intent, then keep the agents. Nothing is spawned before all intents are on disk.

    A resume whose record somebody else has changed meanwhile is told as `lost`, and the others go on.

    Raises:
        OSError: the disk does not take the intents; those written are withdrawn.
    """
    written: list[tuple[Draft, Entry]] = []
    try:
        for draft in drafts:
            entry = _claim(context, draft, keeper)
            if entry is None:
                report(draft.entry.key, "lost")
                continue
            written.append((draft, entry))
            if draft.prompt is not None and entry.plan.prompt_file:
                write_atomic(entry.plan.prompt_file, draft.prompt)
            if entry.output.transcript:
                context.parts.transcripts.create(entry.output.transcript)
    except BaseException as error:
        for draft, entry in written:
            _withdraw(context, draft, entry, str(error))
        raise
    for draft, entry in written:
        keeper.add(KeptAgent(entry, draft.env, parts=context.parts, report=report))


def _claim(context: Context, draft: Draft, keeper: Keeper) -> Entry | None:
    """The intent on record; None when another one has won the record that a resume is of."""
    entry = replace(draft.entry, keeper=keeper.ref)
    if draft.before is not None:
        claimed = context.store.replace_if_unchanged(draft.before, entry)
        return claimed if isinstance(claimed, Entry) else None
    if isinstance(context.store.create(entry), Conflict):
        raise Refused(f"{entry.name}: its session {entry.session_id} is on record already")
    return entry


def _withdraw(context: Context, draft: Draft, entry: Entry, why: str) -> None:
    if draft.before is None:
        context.store.remove_if_unchanged(entry)
        context.parts.transcripts.remove(entry.entry_id)
    else:
        back = transitions.rolled_back(entry, f"it could not be started: {why}", now=context.clock.wall_ms())
        context.store.replace_if_unchanged(entry, back)
