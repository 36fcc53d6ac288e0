"""Which entry an id means: agent name, session id, entry id, or a unique prefix. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from supervisor.core.entry import Entry, is_live
from supervisor.core.errors import NotFound
from supervisor.core.text import one_line


def resolve(wanted: str, entries: Sequence[Entry]) -> Entry:
    """The entry. A live agent's name beats ended ones of that name; of several ended ones the latest is meant.

    Raises:
        NotFound: none, or several (listed).
    """
    exact = [e for e in entries if wanted in (e.entry_id, e.session_id)]
    named = [e for e in entries if e.name == wanted]
    live = [e for e in named if is_live(e)]
    if len(live) == 1 and not exact:
        return live[0]
    if exact and len({e.entry_id for e in exact}) == 1:
        return exact[0]
    if named and not live and not exact:
        return max(named, key=lambda e: e.started_at)
    found = exact or live or [e for e in entries if wanted and _begins(e, wanted)]
    names = {e.name for e in found}
    if len(found) > 1 and len(names) == 1:  # one name's generations by prefix: the live one, else the latest
        lively = [e for e in found if is_live(e)]
        if len(lively) <= 1:
            return (lively or [max(found, key=lambda e: e.started_at)])[0]
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(f"there is no agent {one_line(wanted, 60)!r}", hint="See: supervisor ps --all")
    listed = ", ".join(f"{e.name} ({e.entry_id}, {e.status})" for e in found[:10])
    raise NotFound(f"{one_line(wanted, 60)!r} is ambiguous: {listed}{' …' if len(found) > 10 else ''}")


def _begins(entry: Entry, prefix: str) -> bool:
    return any(i.startswith(prefix) for i in (entry.name, entry.session_id, entry.entry_id))
