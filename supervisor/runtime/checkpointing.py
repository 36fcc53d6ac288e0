"""The use case of a checkpoint: by an agent of itself, or by anybody of a named agent. Writes that one entry."""

from __future__ import annotations

from collections.abc import Sequence

from supervisor.core.checkpoints import checked, checkpointed
from supervisor.core.entry import Entry
from supervisor.core.errors import NotFound, Refused, UsageError
from supervisor.core.resolve import resolve
from supervisor.runtime.compose import Context
from supervisor.runtime.parentage import from_environment

_TRIES = 16


def keep(
    context: Context, wanted: str | None, *, checkpoint: str | None, pointers: Sequence[str], summary: str | None
) -> Entry:
    """Keep it; the entry as written, on stable storage.

    Raises:
        SupervisorError: out of bounds, no such agent, or not run by an agent although no agent is named.
    """
    checked(checkpoint, pointers, summary)
    entries = context.store.list()
    entry = resolve(wanted, entries) if wanted is not None else _own(context, entries)
    for _ in range(_TRIES):
        after = checkpointed(entry, checkpoint=checkpoint, pointers=pointers, summary=summary)
        result = context.store.replace_if_unchanged(entry, after)
        if isinstance(result, Entry):
            context.store.sync()
            return result
        if result.current is None:
            raise NotFound(f"{entry.name} is not on record any more")
        entry = result.current
    raise Refused(f"the record of {entry.name} changes too often", hint="Try again")


def _own(context: Context, entries: Sequence[Entry]) -> Entry:
    """The agent that this command runs inside of, by the process table: a variable alone proves nothing."""
    found = from_environment(context, entries)
    if found.inside is None:
        why = (found.warning or "").partition(": ignored")[0]
        raise UsageError(why or "no agent runs this command", hint="Name one: supervisor checkpoint ID …")
    return found.inside
