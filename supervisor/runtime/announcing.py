"""Tells a person who is not looking that an ask waits, or that an agent has lost its parent.

By title and bell, tmux, the user's command, the desktop. Owns the title while it is set, and the helper processes of
one announcement at a time. Each ask and each orphan is announced once, all orphans of one parent together; those that
come while helpers run are announced together. Never blocks; what fails is only not told: no ask depends on it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence

from supervisor.adapters.own_terminal import tell_terminal
from supervisor.adapters.spawn import which
from supervisor.adapters.tmux import message_argv, popup_argv
from supervisor.core.announcement import (
    NewAsk,
    NewOrphan,
    desktop_argv,
    line,
    off_terminal,
    on_terminal,
    orphan_variables,
    orphans_line,
    variables,
)
from supervisor.core.ask_wire import Request
from supervisor.core.entry import Entry, grace_of
from supervisor.core.identity import ProcessKey, same_process
from supervisor.core.liveness import Now
from supervisor.core.ports import Spawned, SpawnRequest
from supervisor.core.timing import MS, TICK_MS
from supervisor.runtime.logs import warn
from supervisor.runtime.parts import Parts

HELPER_MS = 40 * TICK_MS
"""A notification is shown within a second; what still runs then hangs, and would hold up the next one."""

_DESKTOPS = ("osascript", "notify-send")
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


class Announcer:
    """`add` a new ask, and `turn` it over. `on_terminal`: this keeper's agent owns the terminal that we are on."""

    def __init__(
        self,
        parts: Parts,
        *,
        env: Mapping[str, str],
        command: Callable[[], tuple[str, ...]],
        on_terminal: bool,
        popup: Callable[[str], tuple[str, ...]] = lambda _session: (),
        write: Callable[[bytes], bool] = tell_terminal,
    ) -> None:
        self._parts = parts
        self._env = {k: v for k, v in env.items() if not k.startswith("SUPERVISOR_")}
        self._command = command
        self._popup = popup
        self._open: ProcessKey | None = None
        self._on_terminal = on_terminal
        self._write = write
        self._here: Entry | None = None
        self._new: NewAsk | None = None
        self._orphans: list[NewOrphan] = []
        self._titled = ""
        self._helpers: list[ProcessKey] = []
        self._until = 0

    def add(self, request: Request, entry: Entry) -> None:
        """A new ask waits for a person, and no inbox is open for it."""
        self._new = NewAsk(
            id=request.id,
            agent=request.agent_name,
            tool=request.surface or "",
            value=request.value or request.message,
            session=entry.name,
        )
        own = request.requester == entry.session_id  # the agent on the terminal shows its own dialog there
        if self._on_terminal and entry.terminal.kind != "detached" and not own:
            self._here = entry

    def orphaned(self, entry: Entry) -> None:
        """An agent has lost its parent, and may be adopted."""
        grace, lost = grace_of(entry), entry.parent.session_id if entry.parent else ""
        if grace is not None:
            self._orphans.append(NewOrphan(agent=entry.name, parent=lost, evidence=grace.evidence, until=grace.until))

    def turn(self, now: Now, *, waiting: int) -> None:
        """One announcement after the other; the title goes when nothing waits any more."""
        if not waiting:
            self.close()
        self._helpers = [k for k in self._helpers if self._runs(k)]
        if now.monotonic_ns >= self._until:
            for key in self._helpers:
                self._parts.signals.send(key, signal.SIGKILL)
        if self._helpers:
            return None
        if self._orphans:
            lost = self._orphans[0].parent
            orphans = [o for o in self._orphans if o.parent == lost]
            self._orphans = [o for o in self._orphans if o.parent != lost]
            text = orphans_line(orphans)
            return self._start(now, [self._command() or self._desktop(text)], orphan_variables(orphans))
        if self._new is None or not waiting:
            return None
        new, here, self._new, self._here = self._new, self._here, None, None
        text = line(new, waiting=waiting)
        wanted = [self._command() or self._desktop(text)]
        if here is not None:
            wanted.append(self._on_screen(text, here))
            self._pop_up(here, variables(new, waiting=waiting))
        return self._start(now, wanted, variables(new, waiting=waiting))

    def _start(self, now: Now, wanted: Sequence[tuple[str, ...]], facts: Mapping[str, str]) -> None:
        found = [self._spawn(argv, facts) for argv in wanted if argv]
        self._helpers = [key for key in found if key is not None]
        self._until = now.monotonic_ns + HELPER_MS * MS

    def close(self) -> None:
        """The title that was there is back."""
        if self._titled:
            self._write(off_terminal(self._titled, term=self._term))
            self._titled = ""

    @property
    def _term(self) -> str:
        return self._env.get("TERM", "")

    def _runs(self, key: ProcessKey) -> bool:
        seen = self._parts.processes.identify(key.pid)
        return seen is not None and same_process(key, seen)

    def _on_screen(self, text: str, entry: Entry) -> tuple[str, ...]:
        """Title and bell at once; what tells tmux, when we are in it."""
        if self._write(on_terminal(text, term=self._term, first=not self._titled)):
            self._titled = entry.name
        pane = self._env.get("TMUX_PANE", "")
        return message_argv(pane, text, env=self._env) if self._env.get("TMUX") and pane else ()

    def _pop_up(self, entry: Entry, facts: Mapping[str, str]) -> None:
        """An inbox above the panes, where the user wants that; one at a time, for as long as the person needs it."""
        pane = self._env.get("TMUX_PANE", "")
        if not (self._env.get("TMUX") and pane) or (self._open is not None and self._runs(self._open)):
            return
        if argv := self._popup(entry.session_id):
            self._open = self._spawn(popup_argv(pane, argv, env=self._env), facts)

    def _desktop(self, text: str) -> tuple[str, ...]:
        """Where there is one: on macOS, or where a display is named."""
        for name in _DESKTOPS:
            found = which(name, path=self._env.get("PATH", ""), cwd="/")
            if found and (name == "osascript" or any(self._env.get(d) for d in _DISPLAYS)):
                return desktop_argv(found, text)
        return ()

    def _spawn(self, argv: tuple[str, ...], facts: Mapping[str, str]) -> ProcessKey | None:
        done = self._parts.spawner.spawn(
            SpawnRequest(
                argv=argv,
                env={**self._env, **facts},
                cwd="/",
                new_session=True,
                stdin=os.devnull,
                output=os.devnull,
            )
        )
        if isinstance(done, Spawned):
            return done.key
        warn("an ask could not be announced", why=done.why)
        return None
