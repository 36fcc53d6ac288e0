"""The entry of a program that registers itself, and how it ends. Builds values; writes nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Literal

from supervisor.adapters.places import uuid4
from supervisor.core.entry import (
    AgentIdentity,
    Entry,
    Generation,
    HandOff,
    KeeperRef,
    ParentRef,
    Running,
    as_parent,
    is_live,
)
from supervisor.core.errors import BadInput, Refused
from supervisor.core.ids import agent_name, session_id
from supervisor.core.launch_plan import LaunchPlan
from supervisor.core.text import is_text
from supervisor.runtime.compose import Context

PROFILE = "python"
"""What the record of a program that joined by itself names as its profile: nothing launches it again."""


def build(context: Context, *, name: str, keeper: KeeperRef, parent: ParentRef | None) -> Entry:
    """The record of this process: it runs, and is ready by having joined."""
    now, session = context.clock.wall_ms(), uuid4()
    return Entry(
        entry_id=os.urandom(6).hex(),
        session_id=session,
        name=name,
        role="worker" if parent else "master",
        agent=AgentIdentity(agent_id=uuid4()),
        generation=Generation(nonce=os.urandom(8).hex(), process=keeper.process),
        keeper=keeper,
        state=Running(since=now, ready_at=now),
        plan=LaunchPlan(profile=PROFILE, argv=_argv(), cwd=context.cwd if is_text(context.cwd) else "/"),
        hostname=context.hostname,
        started_at=now,
        heartbeat_at=now,
        parent=parent,
    )


def free_name(wanted: str | None, entries: Sequence[Entry]) -> str:
    """The name given, or the next free one.

    Raises:
        BadInput: it is no name. Refused: a running agent has it.
    """
    taken = {e.name for e in entries if is_live(e)}
    if wanted is not None:
        if agent_name(wanted) in taken:
            raise Refused(
                f"the name {wanted} is taken by a running agent",
                hint=f"Choose another name, or see: supervisor show {wanted}",
            )
        return wanted
    number = 1
    while (name := PROFILE if number == 1 else f"{PROFILE}-{number}") in taken:
        number += 1
    return name


def parent_named(wanted: str, entries: Sequence[Entry]) -> ParentRef:
    """A parent by the session id or name of a running agent, or any session id (a peer's that is not on record).

    Raises:
        BadInput: it can be neither. Refused: the name is borne by several.
    """
    wanted = session_id(wanted)
    live = [e for e in entries if is_live(e)]
    found = [e for e in live if e.session_id == wanted] or [e for e in live if e.name == wanted]
    if len(found) > 1:
        raise Refused(f"several running agents are named {wanted}", hint="Give the parent's session id")
    return as_parent(found[0]) if found else ParentRef(session_id=wanted)


def hand_off(*, now: int, error: BaseException | None, exiting: bool, stopped: bool) -> HandOff:
    """How it ended. `exiting`: the interpreter ends, and nobody in it can know with which status."""
    cause: Literal["stopped", "ended"] = "stopped" if stopped else "ended"
    if exiting:
        return HandOff(outcome="unknown", cause=cause, observed_at=now, detail="its program has come to its end")
    if error is not None:
        detail = f"its session ended with {type(error).__name__}"
        return HandOff(outcome="exited", cause=cause, observed_at=now, code=1, success=False, detail=detail)
    return HandOff(outcome="exited", cause=cause, observed_at=now, code=0, success=True, detail="it left by itself")


def child_name(raw: str) -> str:
    """The name of an in-process child.

    Raises:
        BadInput: it is none.
    """
    if not isinstance(raw, str):
        raise BadInput(f"{raw!r} is no agent name")
    return agent_name(raw)


def _argv() -> tuple[str, ...]:
    """The program, without its arguments: they may hold what no record should."""
    return tuple(w for w in (sys.executable, *sys.argv[:1]) if w and is_text(w))
