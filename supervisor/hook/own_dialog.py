"""When a CLI's own dialog waits behind our answer: who sits before it must not wait for an inbox that nobody opens.

Codex shows its dialog only after the hook has ended. Looks at one record, the settings and the marks of inboxes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from supervisor.adapters.inbox_files import ALL_SESSIONS, InboxFiles
from supervisor.adapters.proc_stat import boot_id, pid_namespace, start_ticks
from supervisor.core.serving import Here, ServingBeat, judge
from supervisor.core.timing import MS, TICK_MS
from supervisor.runtime.ask_call import read_setting
from supervisor.runtime.asking import Places
from supervisor.runtime.targets import parent_of

if TYPE_CHECKING:
    from supervisor.core.ports import Clock

ALONE_MS = 4 * TICK_MS
"""How long nobody attends before the dialog has its turn: time enough for a rule on record, too short to be felt."""


class OwnDialog:
    """True once nobody but the person at the CLI's own terminal could decide. `record`: the asking agent's."""

    def __init__(self, record: Mapping[str, Any], env: Mapping[str, str], *, clock: Clock) -> None:
        home = env.get("SUPERVISOR_HOME", "")
        self._clock = clock
        self._machine = (Places(home).host_id(), boot_id(), pid_namespace())
        self._inboxes = InboxFiles(os.path.join(home, "run", "inboxes"))
        own = record.get("sessionId")
        self._names = (ALL_SESSIONS, own, record.get("tree"))
        plan = record.get("plan")
        mode = plan.get("asksMode") if isinstance(plan, dict) else None
        above = parent_of(record)
        self._others = (above is not None and above != own) or (mode or read_setting(env, home, "mode")) == "hold"
        self._alone_since = clock.monotonic_ns()

    def __call__(self) -> bool:
        """One look."""
        now = self._clock.monotonic_ns()
        if self._others or any(map(self._attends, self._inboxes.marks())):
            self._alone_since = now
        return now - self._alone_since >= ALONE_MS * MS

    def _attends(self, mark: ServingBeat) -> bool:
        if mark.session_id not in self._names:
            return False
        here = Here(*self._machine, self._clock.wall_ms(), self._clock.monotonic_ns())
        return judge("entry", beat=mark, ticks=start_ticks(mark.pid), here=here).answer == "serving"
