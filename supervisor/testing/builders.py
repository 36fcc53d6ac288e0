"""Small builders of records: every field has an unremarkable value, a test names those that it is about."""

from __future__ import annotations

from typing import Any, get_args

from msgspec.structs import replace

from supervisor.core.entry import (
    Adopted,
    AgentIdentity,
    Closed,
    Entry,
    Generation,
    HandOff,
    KeeperRef,
    Resumable,
    Running,
    Starting,
    State,
    Status,
    WindingDown,
)
from supervisor.core.identity import Machine, ProcessKey, ProcessRef
from supervisor.core.launch_plan import LaunchPlan
from supervisor.core.liveness import Beat

MACHINE = Machine(host_id="host-1", boot_id="boot-1", pid_namespace=4_026_531_836)
STATUSES: tuple[Status, ...] = get_args(Status)
WALL_MS = 1_750_000_000_000


def make_ref(pid: int = 300, start_ticks: int = 7000, *, machine: Machine = MACHINE) -> ProcessRef:
    """A process as a record holds it."""
    return ProcessRef(machine, ProcessKey(pid, start_ticks))


def make_plan(**changes: Any) -> LaunchPlan:
    """A plan of a plain command."""
    return replace(LaunchPlan(profile="shell", argv=("/bin/agent",), cwd="/work"), **changes)


def make_hand_off(**changes: Any) -> HandOff:
    """An agent that has ended well."""
    return replace(
        HandOff(outcome="exited", cause="ended", observed_at=WALL_MS, code=0, success=True),
        **changes,
    )


def make_state(status: Status, *, since: int = WALL_MS) -> State:
    """A state of each kind."""
    states: dict[str, State] = {
        "starting": Starting(since=since),
        "running": Running(since=since, ready_at=since),
        "winding_down": WindingDown(since=since, reason="user_cleanup"),
        "resumable": Resumable(since=since, agent=AgentIdentity(agent_id="agent-lead")),
        "adopted": Adopted(since=since, by_session="session-other"),
        "closed": Closed(since=since, hand_off=make_hand_off()),
    }
    return states[status]


def make_entry(name: str = "lead", *, status: Status = "running", **changes: Any) -> Entry:
    """An entry; ids derive from its name, and the state from `status` unless `state` is given."""
    process = None if status == "starting" else make_ref()
    entry = Entry(
        entry_id=f"entry-{name}",
        session_id=f"session-{name}",
        name=name,
        role="worker" if changes.get("parent") else "master",
        agent=AgentIdentity(agent_id=f"agent-{name}"),
        generation=Generation(nonce=f"nonce-{name}", process=process),
        keeper=KeeperRef("keeper-1", make_ref(200, 6000)),
        state=make_state(status),
        plan=make_plan(),
        hostname="here",
        started_at=WALL_MS,
        heartbeat_at=WALL_MS,
    )
    return replace(entry, **changes)


def make_beat(keeper: KeeperRef, *, beat: int = 1, wall_ms: int = WALL_MS, monotonic_ns: int = 0) -> Beat:
    """A heartbeat of a keeper."""
    return Beat(
        keeper_id=keeper.keeper_id,
        pid=keeper.process.key.pid,
        start_ticks=keeper.process.key.start_ticks,
        boot_id=keeper.process.machine.boot_id,
        host_id=keeper.process.machine.host_id,
        beat=beat,
        updated_at=wall_ms,
        monotonic_ns=monotonic_ns,
    )
