"""What `ps`, `tree` and others share: one scan, read-only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from supervisor.cli.common import note
from supervisor.core.entry import is_live

if TYPE_CHECKING:
    from supervisor.core.entry import Entry
    from supervisor.runtime.compose import Context
    from supervisor.runtime.scan import Scan
    from supervisor.runtime.views import Row


def look(context: Context) -> Scan:
    """One scan; nothing when there is no state root yet."""
    from supervisor.runtime.scan import Scan, scan

    return scan(context.parts) if context.places.exists() else Scan((), {}, {})


def visible(entry: Entry) -> bool:
    """What is shown without --all: agents that live, or can be resumed and were not dropped."""
    return is_live(entry) or (entry.status == "resumable" and entry.want == "up")


def seen_rows(context: Context, *, ended: bool) -> list[Row]:
    """The rows to show."""
    from supervisor.runtime.scan import Scan
    from supervisor.runtime.views import rows

    seen = look(context)
    if not seen.entries:
        return []
    kept = seen.entries if ended else [e for e in seen.entries if visible(e)]
    return rows(context.parts, Scan(kept, seen.judgements, seen.beats))


def tell_corrupt(context: Context) -> None:
    """Corrupt records are set aside once and told once."""
    for path, reason in context.store.corrupt:
        note(f"{path} could not be read ({reason}); `supervisor doctor` says what to do")


def with_tombstones(entries: Sequence[Entry]) -> list[Entry]:
    """What is visible, and every ended ancestor of it."""
    from supervisor.core.tree import ancestors

    shown = {e.entry_id: e for e in entries if visible(e)}
    for entry in tuple(shown.values()):
        for up in ancestors(entry, entries) if entry.parent else ():
            shown.setdefault(up.entry_id, up)
    return list(shown.values())
