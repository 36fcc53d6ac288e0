"""The use case of enrolling: an agent that we did not launch gets a record and a keeper, so that it can be a parent.

Its process is watched, never started again, and signalled only by a `stop` that names it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from supervisor.adapters.process_details import Details, details
from supervisor.core.entry import Entry, Generation, Output, Running, Terminal, is_live
from supervisor.core.errors import BadInput, NotFound, Refused
from supervisor.core.foreign import profile_of, programs
from supervisor.core.identity import ProcessKey, ProcessRef, same_process
from supervisor.core.ids import session_id
from supervisor.core.launch_plan import LaunchPlan, RestartPlan
from supervisor.core.leases import owner_of
from supervisor.core.ports import Conflict
from supervisor.core.text import is_text
from supervisor.runtime.activation import activate, claimed
from supervisor.runtime.agent_request import AgentRequest
from supervisor.runtime.compose import Context
from supervisor.runtime.discovering import recorded_pids
from supervisor.runtime.forking import fork_keeper
from supervisor.runtime.keeper import Keeper
from supervisor.runtime.kept_agent import KeptAgent, Report
from supervisor.runtime.launching import Launcher
from supervisor.runtime.parentage import refuse_inside_sandbox
from supervisor.runtime.scan import alive
from supervisor.runtime.starting import names_lock

NO_PROFILE = "shell"
"""The profile of a program that no profile is about: it cannot be resumed."""


def enroll(context: Context, pid: int, *, session: str | None, profile: str | None, name: str | None) -> Entry:
    """Record a running process as a master and have a keeper watch it.

    Raises:
        NotFound: no such process. Refused: another user's, ours, or on record already. BadInput: no session id.
        LimitReached: one agent too many.
    """
    session = session_id(session) if session is not None else None
    with names_lock(context) as names:
        entries = activate(context).seen.entries
        refuse_inside_sandbox(context, entries)
        key = _process(context, pid, entries)
        seen = details(pid)
        if seen.uid != os.geteuid():
            raise Refused(f"process {pid} is another user's", hint="Only one's own processes can be enrolled")
        entry = _entry(context, key, seen, entries, session=session, profile=profile, name=name)
        news = fork_keeper(context, lambda keeper, report: _keep(context, entry, keeper, report), keep=(names,))
    if entry.key not in claimed(news):
        raise Refused(f"process {pid} ended meanwhile", hint="See: supervisor tree --discover")
    return context.store.read(entry.key) or entry


def _process(context: Context, pid: int, entries: Sequence[Entry]) -> ProcessKey:
    processes = context.processes
    key = processes.probe(pid)
    if not isinstance(key, ProcessKey) or pid not in processes.snapshot():  # a thread has a number too
        raise NotFound(f"no process {pid} runs here", hint="See: supervisor tree --discover")
    if not processes.command(pid):
        raise Refused(f"process {pid} runs no program, it is the kernel's", hint="See: supervisor tree --discover")
    owners = context.parts.beats.owners()
    if pid == os.getpid() or owners.get(pid) == key.start_ticks:
        raise Refused(f"process {pid} is supervisor itself", hint="Name the agent's own process")
    recorded = recorded_pids(context, entries)
    at: int | None = pid
    while at is not None and at not in recorded:
        at = processes.parent_of(at)
    if at is not None:
        owner = next(e for e in entries if is_live(e) and (p := e.generation.process) and p.key.pid == at)
        what = "is on record as" if at == pid else "belongs to"
        raise Refused(
            f"process {pid} {what} {owner.name}", hint=f"What is launched from inside it is a child of {owner.name}"
        )
    return key


def _entry(
    context: Context,
    key: ProcessKey,
    seen: Details,
    entries: Sequence[Entry],
    *,
    session: str | None,
    profile: str | None,
    name: str | None,
) -> Entry:
    """What a launch would have recorded, with the process that is there already."""
    owner = next((e for e in entries if e.session_id == session and (is_live(e) or not e.enrolled)), None)
    if owner is None and session is not None:  # under another id of our own, by the CLI's
        owner = owner_of(session, entries, partial(alive, context.parts))
    if owner is not None:
        raise Refused(f"session {session} is on record as {owner.name}", hint=f"See: supervisor show {owner.name}")
    found = profile or profile_of(context.processes.command(key.pid), programs(context.profiles.known())) or NO_PROFILE
    program = seen.program if seen.program and is_text(seen.program) else None
    if not seen.cwd or not is_text(seen.cwd):
        raise BadInput(f"the working directory of process {key.pid} cannot be read")
    needs_words = context.profiles.load(found).prompt.words == "args"
    request = AgentRequest(
        profile=found,
        cwd=seen.cwd,
        name=name,
        mode="interactive",
        words=((program or "/bin/sh"),) if needs_words else (),
        terminal=Terminal(kind="foreground" if seen.on_terminal else "detached"),
    )
    (draft,) = Launcher(context).drafts([request], entries)
    entry = draft.entry
    now = context.clock.wall_ms()
    resume = entry.agent.resume_context
    if resume is not None:
        resume = replace(resume, provider_session_id=session) if session else None
    return replace(
        entry,
        session_id=session or entry.session_id,
        agent=replace(entry.agent, resume_context=resume),
        generation=Generation(nonce=entry.generation.nonce, process=ProcessRef(context.processes.machine(), key)),
        state=Running(since=now, ready_at=now),
        plan=_plan(entry, program, session),
        output=Output(),
        enrolled=True,
    )


def _plan(entry: Entry, program: str | None, session: str | None) -> LaunchPlan:
    """The profile's, but for what was not ours to choose: how it was started, and that it never is again."""
    files = entry.plan.session_files if session else ()
    return replace(
        entry.plan,
        argv=(program or entry.plan.argv[0],),
        session_files=files,
        ready="spawned",
        restart=RestartPlan(),
    )


def _keep(context: Context, entry: Entry, keeper: Keeper, report: Report) -> None:
    """In the keeper: record it, unless it has ended since, and watch it."""
    process = entry.generation.process
    seen = context.processes.probe(process.key.pid) if process else None
    if process is None or not isinstance(seen, ProcessKey) or not same_process(process.key, seen):
        return
    earlier = context.store.read(entry.key)
    if earlier is not None and earlier.enrolled and not is_live(earlier):
        context.store.remove_if_unchanged(earlier)  # the same session runs again, as another process
    kept = replace(entry, keeper=keeper.ref)
    if isinstance(context.store.create(kept), Conflict):
        return
    context.store.sync()
    keeper.add(KeptAgent(kept, {}, parts=context.parts, report=report, attached=True))
    report(kept.key, "attached")
