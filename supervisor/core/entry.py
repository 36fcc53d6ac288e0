"""The entry: the durable record of one session, with its state as a tagged union.

Owns the record's shape (camelCase on disk, `docs/reference/records.md`); what may follow what is in `transitions`.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from supervisor.core.identity import ProcessRef
from supervisor.core.ids import encode
from supervisor.core.launch_plan import LaunchPlan

SCHEMA = 1
MAX_TASK_REF = 512
MAX_SUMMARY = 2_000
MAX_DEATHS = 32
MAX_SURVIVORS = 64

Role = Literal["master", "worker"]
Want = Literal["up", "down"]
WindDownReason = Literal["parent_lost", "not_adopted", "parent_shutdown", "user_cleanup"]


class ResumeContext(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a resume needs, in one place: there are no parallel fields elsewhere in the entry.

    `checkpoint`, `pointers` and `summary` are what the agent itself, or a script, wants it to be told when it resumes.
    """

    profile: str
    cwd: str
    provider_session_id: str | None = None
    session_file: str | None = None
    worktree: str | None = None
    model: str | None = None
    checkpoint: str | None = None
    pointers: tuple[str, ...] = ()
    summary: str | None = None


class AgentIdentity(Struct, frozen=True, kw_only=True, rename="camel"):
    """The logical agent, stable across resumes. `resume_context` is None where the CLI cannot resume."""

    agent_id: str
    resume_context: ResumeContext | None = None


class Generation(Struct, frozen=True, kw_only=True, rename="camel"):
    """One OS process behind the entry. `process` is None between intent and spawn; the nonce is in its environment.

    `resumes`: the CLI's session that it is started to go on with, None for a new one. `session`: the CLI's session that
    this very process has proven to be in, None until then. `output_from`: where in the transcript its output begins.
    """

    nonce: str
    process: ProcessRef | None = None
    resumes: str | None = None
    session: str | None = None
    output_from: int = 0


class KeeperRef(Struct, frozen=True, rename="camel"):
    """The keeper that looks after the agent; its heartbeat file and its bell bear `keeper_id`."""

    keeper_id: str
    process: ProcessRef


class ParentRef(Struct, frozen=True, kw_only=True, rename="camel"):
    """Who launched this agent. `process` is the parent agent's at launch; None when only named by the caller.

    `asks_folder`: a pi that nobody launched through us takes its children's asks there, itself.
    """

    session_id: str
    entry_id: str | None = None
    pid: int | None = None
    process: ProcessRef | None = None
    asks_folder: str | None = None


class Terminal(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where the agent's terminal is: `detached` has none, `foreground` shares the launcher's, `tmux` names a pane."""

    kind: Literal["detached", "foreground", "tmux"] = "detached"
    pane: str | None = None
    socket: str | None = None


class Output(Struct, frozen=True, kw_only=True, rename="camel"):
    """The transcript (None where the agent owns a terminal) and why it is no longer complete, if so."""

    transcript: str | None = None
    degraded: str | None = None


class Death(Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of the death tally. `monotonic_ns` orders and ages it within `boot_id`; `at` is for people."""

    at: int
    boot_id: str
    monotonic_ns: int
    code: int | None = None
    signal: str | None = None


class HandOff(Struct, frozen=True, kw_only=True, rename="camel"):
    """How an agent ended, until somebody has been told.

    `outcome`: `exited` (with code), `signaled` (with signal), `unknown` (nobody could learn it: never read as 0 or as
    failed), `not_started`. `cause`: `ended` by itself, `stopped` on request, `lost` (found dead without a keeper),
    `spawn_failed`. `success` is the profile's reading of code and signal; None for unknown. `hung_up`: its terminal was
    closed before.
    """

    outcome: Literal["exited", "signaled", "unknown", "not_started"]
    cause: Literal["ended", "stopped", "lost", "spawn_failed"]
    observed_at: int
    code: int | None = None
    signal: str | None = None
    success: bool | None = None
    detail: str = ""
    survivors: tuple[str, ...] = ()
    hung_up: bool = False
    delivered_at: int | None = None


class FailedResume(Struct, frozen=True, kw_only=True, rename="camel"):
    """Why the last resume came to nothing; `at` in epoch ms."""

    at: int
    why: str


class Unconfirmed(Struct, frozen=True, kw_only=True, rename="camel"):
    """A resume that the agent has not confirmed yet: what is on record again if it fails."""

    state: Resumable | Closed
    parent: ParentRef | None = None


class Starting(Struct, frozen=True, kw_only=True, rename="camel", tag_field="status", tag="starting"):
    """Reserved, not yet spawned; `not_before` (monotonic ns of this boot) while a restart backs off."""

    since: int
    attempt: int = 0
    not_before: int | None = None
    waits_for: tuple[str, ...] = ()
    unconfirmed: Unconfirmed | None = None


class Running(Struct, frozen=True, kw_only=True, rename="camel", tag_field="status", tag="running"):
    """Spawned. `ready_at` once the profile's proof was seen; a resumed one's proof is that it confirms its session."""

    since: int
    ready_at: int | None = None
    unconfirmed: Unconfirmed | None = None


class WindingDown(Struct, frozen=True, kw_only=True, rename="camel", tag_field="status", tag="winding_down"):
    """Marked to end, the process may still live."""

    since: int
    reason: WindDownReason
    detail: str = ""


class Grace(Struct, frozen=True, kw_only=True, rename="camel"):
    """The window in which an orphan lives on and may be adopted.

    `until_ns` is monotonic within the agent's boot, so that a next keeper goes on with what is left; `until` (epoch ms)
    is for people. `evidence`: why its parent is held to be lost; `ready_at` is what it was before.
    """

    until: int
    until_ns: int
    evidence: str
    ready_at: int | None = None


class Resumable(Struct, frozen=True, kw_only=True, rename="camel", tag_field="status", tag="resumable"):
    """The session can be resumed: one clone of the identity, no more. With a `grace` the process still lives."""

    since: int
    agent: AgentIdentity
    task_ref: str | None = None
    task_summary: str | None = None
    hand_off: HandOff | None = None
    grace: Grace | None = None
    failed_resume: FailedResume | None = None


class Adopted(Struct, frozen=True, kw_only=True, rename="camel", tag_field="status", tag="adopted"):
    """A new parent has claimed it; becomes `running` when its keeper has seen that."""

    since: int
    by_session: str
    grace: Grace | None = None


class Closed(Struct, frozen=True, kw_only=True, rename="camel", tag_field="status", tag="closed"):
    """Over. The hand-off says how."""

    since: int
    hand_off: HandOff
    failed_resume: FailedResume | None = None


State = Starting | Running | WindingDown | Resumable | Adopted | Closed
Status = Literal["starting", "running", "winding_down", "resumable", "adopted", "closed"]


class Entry(Struct, frozen=True, kw_only=True, rename="camel"):
    """One session of one agent. Every change after registration is `replace_if_unchanged`."""

    schema: int = SCHEMA
    entry_id: str
    session_id: str
    name: str
    role: Role
    agent: AgentIdentity
    generation: Generation
    keeper: KeeperRef
    state: State
    plan: LaunchPlan
    hostname: str
    started_at: int
    heartbeat_at: int
    want: Want = "up"
    stop_grace_ms: int | None = None
    parent: ParentRef | None = None
    tree: str | None = None
    enrolled: bool = False
    task_ref: str | None = None
    task_summary: str | None = None
    terminal: Terminal = Terminal()
    output: Output = Output()
    deaths: tuple[Death, ...] = ()
    revision: int = 1

    @property
    def key(self) -> str:
        """The stem of the entry's file."""
        return f"{self.role}-{encode(self.session_id)}"

    @property
    def status(self) -> Status:
        """The state's tag."""
        return self.state.__struct_config__.tag  # type: ignore[return-value]

    @property
    def hand_off(self) -> HandOff | None:
        """The end on record, if there is one."""
        return self.state.hand_off if isinstance(self.state, Closed | Resumable) else None


LIVE: frozenset[str] = frozenset({"starting", "running", "winding_down", "adopted"})
"""States in which a process may run: such an entry needs a keeper. An orphan in its grace is live besides."""


def grace_of(entry: Entry) -> Grace | None:
    """The window in which a live orphan may be adopted; None for everybody else."""
    return entry.state.grace if isinstance(entry.state, Resumable) else None


def is_live(entry: Entry) -> bool:
    """Whether a process may be running behind this entry."""
    return entry.status in LIVE or grace_of(entry) is not None


def unconfirmed(entry: Entry) -> Unconfirmed | None:
    """The resume that is under way, if one is."""
    return entry.state.unconfirmed if isinstance(entry.state, Starting | Running) else None


def failed_resume(entry: Entry) -> FailedResume | None:
    """The last resume, if it came to nothing."""
    return entry.state.failed_resume if isinstance(entry.state, Resumable | Closed) else None


def as_parent(entry: Entry) -> ParentRef:
    """A recorded agent as a parent: its session, and the process that it is now."""
    process = entry.generation.process
    pid = process.key.pid if process else None
    return ParentRef(session_id=entry.session_id, entry_id=entry.entry_id, pid=pid, process=process)
