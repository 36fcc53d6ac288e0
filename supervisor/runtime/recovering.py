"""The use case of a recovery: reconcile once, deliver hand-offs, recover what is one's own, and say what else waits.

Carries out what `core.recovery` finds. Kills nobody; every write is conditional, so that of two recoveries one takes
each agent. Before anything is done in a session's name it is looked whether that session is still there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from supervisor.core.ending import describe
from supervisor.core.entry import Entry, HandOff, as_parent, failed_resume
from supervisor.core.errors import Fenced, SupervisorError
from supervisor.core.fences import Fence, met, refusal
from supervisor.core.handoffs import addressed_to
from supervisor.core.ports import SpawnRequest
from supervisor.core.recovery import Found, downwards, find, session_fence
from supervisor.runtime.activation import Activated, activate
from supervisor.runtime.adopting import adopt, release
from supervisor.runtime.agent_request import ResumeRequest
from supervisor.runtime.compose import Context
from supervisor.runtime.delivering import deliver
from supervisor.runtime.intents import Draft
from supervisor.runtime.scan import Scan, scan
from supervisor.runtime.starting import Choose, Started, Until, start_detached
from supervisor.runtime.task_list import tasks_or_none

What = Literal[
    "handed_off", "adopted", "resumed", "released", "fenced", "failed", "unconfirmed", "offered", "left", "dropped"
]


class Event(Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that a recovery did or found, about one agent.

    `fence`: the code of what stopped it, `hint` what to do about that.
    """

    event: What
    name: str
    entry_id: str
    session_id: str
    kind: str = ""
    why: str = ""
    fence: str | None = None
    hint: str = ""
    command: str | None = None


Tell = Callable[[Event], None]


class Start(Protocol):
    """Starts a batch in the background (`start_detached`)."""

    def __call__(
        self,
        context: Context,
        choose: Choose,
        *,
        until: Until,
        tell: Callable[[Draft, str], None],
        refused: Callable[[ResumeRequest, SupervisorError], None] | None = None,
    ) -> tuple[Activated, list[Started]]: ...


class Recovery:
    """One recovery, in the session of `active`, or of nobody. Without `tell` nobody hears: no end is noted as told."""

    def __init__(
        self, context: Context, active: Entry | None, tell: Tell | None, *, start: Start = start_detached
    ) -> None:
        self._context = context
        self._start = start
        self.active = active
        self._told = tell
        self.events: list[Event] = []
        self.resumed: list[Entry] = []
        """Those resumed that have launched agents themselves: what is theirs comes next."""
        self._parents: set[str] = set()

    def run(self, activated: Activated) -> list[Found]:
        """All that needs no question; what is left is foreign, to be offered.

        Raises:
            Fenced: the session in whose name this is done has ended.
        """
        seen = activated.seen
        self._parents = {e.parent.session_id for e in seen.entries if e.parent}
        self._check_session(seen)
        if self.active is not None:
            self._deliver(self.active, seen)
        found = find(seen.entries, seen.judgements, active=self.active, tasks=tasks_or_none(self._context))
        own = [f for f in found if f.exact]
        for one in own:
            if one.fence is not None:
                self._fenced(one, one.fence)
        for one in own:
            if one.automatic and one.kind == "live":
                self.adopt(one, seen=seen)
        self._resume_all([f for f in own if f.automatic and f.kind == "dead"])
        return [f for f in found if not f.exact]

    def offer(self, found: Found) -> None:
        """Say that this one waits, and which command recovers it; nothing is written."""
        if found.fence is not None:
            return self._fenced(found, found.fence)
        name = found.entry.name
        command = f"supervisor resume {name}" if found.kind == "dead" else f"supervisor adopt {name} --as SESSION"
        return self._tell("offered", found, why=found.evidence, command=command)

    # -- one agent

    def adopt(self, found: Found, *, seen: Scan | None = None) -> None:
        """Make the active session its parent."""
        assert self.active is not None
        if seen is None:
            self._check_session(scan(self._context.parts))
        self._outcome("adopted", found, adopt(self._context.parts, found.entry, self.active, seen=seen))

    def release(self, found: Found) -> None:
        """Ask it to clean up and end."""
        self._check_session(scan(self._context.parts))
        self._outcome("released", found, release(self._context.parts, found.entry))

    def resume(self, found: Found) -> None:
        """Relaunch it in the background, below the active session if there is one."""
        self._check_session(scan(self._context.parts))
        self._resume_all([found])

    def drop(self, found: Found) -> None:
        """A dead one is not to come back: it is offered no more, and resumed only by name."""
        result = self._context.store.want_down(found.entry, grace_ms=None)
        self._tell("dropped" if isinstance(result, Entry) else "left", found)

    def leave(self, found: Found) -> None:
        """Nothing is done to it."""
        self._tell("left", found)

    def _outcome(self, what: What, found: Found, result: Entry | Fence) -> None:
        if isinstance(result, Fence):
            self._fenced(found, result)
        else:
            self._tell(what, found)

    # -- resuming

    def _resume_all(self, dead: Sequence[Found]) -> None:
        """One keeper for all of them; one that a fence stops does not keep the others."""
        if not dead:
            return
        by_id = {f.entry.entry_id: f for f in dead}

        def refused(request: ResumeRequest, error: SupervisorError) -> None:
            found, fence = by_id[request.entry_id], met(error)
            self._fenced(found, fence) if fence is not None else self._tell("failed", found, why=str(error))

        _, results = self._start(
            self._context,
            lambda _activated: [self._request(f) for f in dead],
            until="ready",
            tell=lambda draft, what: self._is_up(by_id[draft.entry.entry_id], what),
            refused=refused,
        )
        for result in results:
            self._result(by_id[result.entry.entry_id], result)

    def _is_up(self, found: Found, what: str) -> None:
        """Said as each of them comes up, not when the last one has."""
        if what == "ready":
            self._tell("resumed", found)

    def _request(self, found: Found) -> ResumeRequest:
        entry = found.entry
        parent = as_parent(self.active) if self.active is not None else None
        return ResumeRequest(
            entry_id=entry.entry_id, name=entry.name, cwd=entry.plan.cwd, parent=parent if entry.parent else None
        )

    def _result(self, found: Found, result: Started) -> None:
        if result.reached:
            if result.entry.session_id in self._parents:
                self.resumed.append(result.entry)
            return None
        if result.why == "lost":
            hint = f"See: supervisor show {found.entry.name}"
            return self._fenced(found, Fence("claimed", "another command was first", hint))
        failed = failed_resume(result.entry)
        return self._tell("failed", found, why=failed.why if failed else f"it is {result.entry.status}")

    # -- the session

    def _check_session(self, seen: Scan) -> None:
        """Stopping a session fences what is still asked in its name.

        Raises:
            Fenced: it has ended.
        """
        if self.active is None:
            return
        now = next((e for e in seen.entries if e.entry_id == self.active.entry_id), None)
        fence = session_fence(self.active, now, seen.judgements.get(self.active.entry_id))
        if fence is not None:
            raise refusal(fence)

    def _deliver(self, owner: Entry, seen: Scan) -> None:
        """The ends of its children that nobody has been told of."""
        if self._told is None:
            return
        for child in addressed_to(owner.session_id, seen.entries):
            deliver(self._context.store, child, self._tell_end, now=self._context.clock.wall_ms())
        self._context.store.sync()

    def _tell_end(self, child: Entry, end: HandOff) -> None:
        self._emit(_event("handed_off", child, why=describe(end)))

    # -- telling

    def _fenced(self, found: Found, fence: Fence) -> None:
        self._emit(_event("fenced", found.entry, kind=found.kind, why=fence.why, fence=fence))

    def _tell(self, what: What, found: Found, *, why: str = "", command: str | None = None) -> None:
        self._emit(_event(what, found.entry, kind=found.kind, why=why, command=command))

    def _emit(self, event: Event) -> None:
        self.events.append(event)
        if self._told is not None:
            self._told(event)


def _event(
    what: What, entry: Entry, *, kind: str = "", why: str = "", fence: Fence | None = None, command: str | None = None
) -> Event:
    return Event(
        event=what,
        name=entry.name,
        entry_id=entry.entry_id,
        session_id=entry.session_id,
        kind=kind,
        why=why,
        fence=fence.code if fence else None,
        hint=fence.hint if fence else "",
        command=command,
    )


def recover_own(
    context: Context,
    session: Entry,
    tell: Tell | None,
    *,
    look: Callable[[Context], Activated] = activate,
    start: Start = start_detached,
) -> list[Event]:
    """The activation of a resumed agent: what is its own comes back, and what is theirs, without a question.

    One that was quick and has ended again meanwhile recovers nobody; that is no error.
    """
    events: list[Event] = []

    def recover(active: Entry) -> Sequence[Entry]:
        recovery = Recovery(context, active, tell, start=start)
        with contextlib.suppress(Fenced):
            recovery.run(look(context))
        events.extend(recovery.events)
        return recovery.resumed

    downwards(session, recover)
    return events


def recover_beside(context: Context, session: Entry) -> None:
    """The same in a process of its own, for an agent that has the terminal: nothing is said, the records tell."""
    _beside(context, "recover", "--as", session.session_id, "--yes-exact-only", "--silent")


def take_in_beside(context: Context, session: str, chosen: Sequence[Found]) -> None:
    """What a person has chosen to have below a session, before that had started; as above."""
    for found in chosen:
        wanted = found.entry.entry_id
        if found.kind == "live":
            _beside(context, "adopt", wanted, "--as", session)
        else:
            _beside(context, "resume", wanted, "--parent", session, "--detach")


def _beside(context: Context, *words: str) -> None:
    context.spawner.spawn(
        SpawnRequest(
            argv=context.self_argv(*words),
            env={**context.env, "SUPERVISOR_HOME": context.places.home},
            cwd="/",
            new_session=True,
            stdin=os.devnull,
            output=os.devnull,
        )
    )
