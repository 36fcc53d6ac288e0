"""The composition root: the only reader of the environment and the only place that names the real adapters."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from supervisor.adapters.beat_files import BeatFiles
from supervisor.adapters.bells import BellFiles
from supervisor.adapters.clock import SystemClock
from supervisor.adapters.entry_files import EntryFiles
from supervisor.adapters.exit_watch import SystemExitWatch
from supervisor.adapters.places import Places, config_folder, default_home
from supervisor.adapters.process_table import system_process_table
from supervisor.adapters.proof_files import ProofFiles
from supervisor.adapters.session_files import SystemSessionFiles
from supervisor.adapters.signals import SystemSignals
from supervisor.adapters.spawn import SystemSpawner
from supervisor.adapters.transcripts import TranscriptFiles
from supervisor.core.errors import BadState, Refused, SupervisorError
from supervisor.core.ports import ProcessTable
from supervisor.core.settings import Value, resolve
from supervisor.core.spawn_limits import SpawnLimits
from supervisor.runtime.parts import Limits, Parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from supervisor.adapters.profile_files import ProfileFiles
    from supervisor.adapters.settings_files import SettingsFiles
    from supervisor.adapters.task_files import TaskFile
    from supervisor.runtime.ask_facts import AskParts, AskSettings

EXIT_WATCH_VARIABLE = "SUPERVISOR_EXIT_WATCH"
"""`poll` forces the fallback of exit watching (tests, and kernels that lie about pidfds)."""
CLOCK_OFFSET_VARIABLE = "SUPERVISOR_CLOCK_OFFSET_MS"
"""Milliseconds by which the wall clock is taken to be off (tests only)."""


class Context:
    """Everything one of our processes works with, made when first asked for."""

    def __init__(self, env: Mapping[str, str], *, cwd: str) -> None:
        self.env = env
        self.cwd = cwd
        self._mode_stamp: tuple[int, ...] = ()
        self._mode_attended = True

    @cached_property
    def places(self) -> Places:
        """The state root (not made yet). Raises BadState."""
        runtime = self.env.get("XDG_RUNTIME_DIR") or None
        return Places(default_home(self.env), runtime_dir=runtime)

    @cached_property
    def matrix_on(self) -> bool:
        """`processMatrix.enabled`. Malformed settings do not switch it off."""
        try:
            return bool(self.settings.values()["processMatrix.enabled"].value)
        except SupervisorError:
            return True

    def prepare(self) -> None:
        """Make the state root. Inside an agent's tool sandbox a root that cannot be written is a refusal of its own.

        Raises:
            BadState, Refused.
        """
        try:
            self.places.prepare()
        except BadState as error:
            if self.env.get("SUPERVISOR_SESSION_ID") and self.places.exists():
                raise Refused(
                    f"{error.message}: this looks like an agent's tool sandbox, where a launched agent would not last",
                    hint="Run the command outside the sandbox: from a terminal, with --parent, or by the tools of "
                    "`supervisor mcp`",
                ) from None
            raise

    @cached_property
    def clock(self) -> SystemClock:
        """The real clocks. An offset that is no whole number is none."""
        try:
            return SystemClock(int(self.env.get(CLOCK_OFFSET_VARIABLE, "0")))
        except ValueError:
            return SystemClock()

    @cached_property
    def processes(self) -> ProcessTable:
        """The process table, with this host's id; without a matrix none is written, and none is needed."""
        known = self.matrix_on or self.places.has_host_id()
        return system_process_table(self.places.host_id() if known else "")

    @cached_property
    def store(self) -> EntryFiles:
        """The process matrix."""
        return EntryFiles(self.places.matrix, self.places.locks)

    @cached_property
    def bells(self) -> BellFiles:
        """The bells."""
        return BellFiles(self.places.bells)

    @cached_property
    def spawner(self) -> SystemSpawner:
        """Our children."""
        return SystemSpawner(self.processes)

    @cached_property
    def settings(self) -> SettingsFiles:
        """The settings' files."""
        from supervisor.adapters.settings_files import SettingsFiles

        return SettingsFiles(user=config_folder(self.env), root=self.places.settings)

    @cached_property
    def tasks(self) -> TaskFile:
        """Which tasks are blocked or done."""
        from supervisor.adapters.task_files import TaskFile

        return TaskFile(self.places.home, self.places.locks)

    @cached_property
    def profiles(self) -> ProfileFiles:
        """Profiles as seen from the working directory."""
        from supervisor.adapters.profile_files import ProfileFiles

        return ProfileFiles(cwd=self.cwd, user=config_folder(self.env), trust=self.places.trust)

    @cached_property
    def _values(self) -> Mapping[str, Value]:
        """The settings, read once. A malformed file must not take away the way to stop agents: defaults then."""
        try:
            return self.settings.values()
        except SupervisorError as error:
            from supervisor.runtime.logs import warn

            warn(f"{error}; the defaults are used")
            return resolve([])

    @cached_property
    def spawn_limits(self) -> SpawnLimits:
        """The limits against runaway spawning."""
        values = self._values
        return SpawnLimits(
            max_depth=values["limits.max_depth"].value,
            max_children=values["limits.max_children"].value,
            max_agents=values["limits.max_agents"].value,
        )

    @cached_property
    def limits(self) -> Limits:
        """The settings a keeper works by."""
        values = self._values
        return Limits(
            heartbeat_ms=values["processMatrix.heartbeat_ms"].value,
            watcher_poll_ms=values["processMatrix.watcher_poll_ms"].value,
            adoption_grace_ms=values["processMatrix.adoption_grace_ms"].value,
            transcript_bytes=values["transcripts.max_kib"].value * 1024,
        )

    @cached_property
    def asks(self) -> AskParts:
        """What asks are served and answered with."""
        from supervisor.adapters.approval_files import ApprovalFiles
        from supervisor.adapters.ask_files import AskFiles
        from supervisor.adapters.inbox_files import InboxFiles
        from supervisor.adapters.review_log import ReviewLog
        from supervisor.runtime.ask_facts import AskParts

        return AskParts(
            files=AskFiles(self.places.forwarding),
            approvals=ApprovalFiles(self.places.approvals, self.places.locks),
            inboxes=InboxFiles(self.places.inboxes),
            review=ReviewLog(self.places.review_log),
            settings=self._ask_settings(),
        )

    def may_be_attended(self) -> bool:
        """Cheap, for every beat of a keeper that serves nobody yet: whether an inbox is open, or the mode says so."""
        try:
            if any(True for _ in os.scandir(self.places.inboxes)):
                return True
        except OSError:
            pass
        stamp = self.settings.stamp()
        if stamp != self._mode_stamp:
            self._mode_stamp = stamp
            try:
                self._mode_attended = self.settings.values()["asks.mode"].value == "attended"
            except SupervisorError:
                self._mode_attended = True
        return not self._mode_attended

    def _ask_settings(self) -> Callable[[], AskSettings]:
        """Read live, parsed only when a file has changed; a malformed file leaves what was in force."""
        from supervisor.runtime.ask_facts import AskSettings
        from supervisor.runtime.logs import warn

        last: tuple[object, AskSettings] = (None, AskSettings())

        def read() -> AskSettings:
            nonlocal last
            stamp = self.settings.stamp()
            if stamp != last[0]:
                try:
                    values = self.settings.values()
                    settings = AskSettings(
                        mode=values["asks.mode"].value,
                        rules=values["asks.rules"].value,
                        timeout_ms=values["asks.forwarding_timeout_ms"].value,
                        notify=values["notify.command"].value,
                        popup=values["notify.tmux"].value == "popup",
                    )
                except SupervisorError as error:
                    warn("the settings of asks are malformed, the last good ones stay", why=str(error))
                    settings = last[1]
                last = (stamp, settings)
            return last[1]

        return read

    @cached_property
    def parts(self) -> Parts:
        """The ports, wired."""
        poll_only = self.env.get(EXIT_WATCH_VARIABLE) == "poll"
        return Parts(
            home=self.places.home,
            clock=self.clock,
            processes=self.processes,
            signals=SystemSignals(self.processes),
            spawner=self.spawner,
            exit_watch=SystemExitWatch(self.processes, poll_only=poll_only),
            store=self.store,
            beats=BeatFiles(self.places.heartbeats),
            bells=self.bells,
            transcripts=TranscriptFiles(self.places.transcripts, self.places.prompts),
            session_files=SystemSessionFiles(),
            proofs=ProofFiles(self.places.proofs),
            limits=self.limits,
        )

    @property
    def hostname(self) -> str:
        """For people; never an identity."""
        return os.uname().nodename[:255]

    @property
    def python(self) -> str:
        """The interpreter of our own re-executions."""
        return sys.executable

    def self_argv(self, *words: str) -> tuple[str, ...]:
        """This program again. `-P`: a `supervisor/` folder in the working directory is not taken for us."""
        return (sys.executable, "-P", "-m", "supervisor", *words)


def from_environment() -> Context:
    """The context of this process. A working directory that is gone reads as empty."""
    try:
        cwd = os.getcwd()
    except OSError:
        cwd = ""
    return Context(dict(os.environ), cwd=cwd)


def inside_agent() -> bool:
    """Whether an agent of ours is who runs this process: what it launches is detached."""
    return bool(os.environ.get("SUPERVISOR_SESSION_ID"))
