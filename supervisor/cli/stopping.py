"""What `stop` and `down` say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor.cli.common import note, say

if TYPE_CHECKING:
    from supervisor.runtime.stopping import Stopped


def report(result: Stopped) -> None:
    """One line per agent; trouble goes to stderr with what to do."""
    from supervisor.core.ending import describe

    name = result.entry.name
    end = result.entry.hand_off
    if result.what == "stopped":
        how = result.why or (describe(end) if end else "ended")
        say(f"{name}: {how}")
    elif result.what == "already_ended":
        how = f" ({describe(end)})" if end else ""
        say(f"{name}: had ended already{how}{f'; {result.why}' if result.why else ''}")
    elif result.what == "survived":
        note(f"can't stop {name}: still alive: {', '.join(result.survivors)}")
    else:
        note(f"can't stop {name}: {result.why}")


def summary(result: Stopped) -> dict[str, object]:
    """The same as data."""
    return {
        "name": result.entry.name,
        "entryId": result.entry.entry_id,
        "result": result.what,
        "why": result.why,
        "survivors": result.survivors,
        "handOff": result.entry.hand_off,
    }
