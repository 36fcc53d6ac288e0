"""Who is the parent of what is launched now: named, or taken from the environment and checked. Decides by `core` facts.

An inherited variable proves nothing: a tmux server or a shell may merely carry it. The parent must be on record, alive,
and an ancestor of this launcher by process identity. Such an ancestor is the parent also when no variable names it: an
enrolled agent knows nothing of us.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import Struct

from supervisor.core.entry import Entry, ParentRef, as_parent, is_live
from supervisor.core.errors import BadInput, Refused
from supervisor.core.identity import Gone, ProcessKey, ProcessRef, same_process
from supervisor.core.ids import session_id
from supervisor.core.liveness import comparable
from supervisor.runtime.compose import Context
from supervisor.runtime.parts import Parts

_MAX_DEPTH = 4096


class Parentage(Struct, frozen=True):
    """The parent (None: this is a master) and the one line to tell when the environment named one that is none."""

    parent: ParentRef | None
    warning: str | None = None
    inside: Entry | None = None
    """The agent that this launcher runs inside of, if it really does."""


def by_flags(parts: Parts, session: str | None, pid: str | None, entries: Sequence[Entry]) -> Parentage:
    """`--parent-session` and `--parent-pid`: a parent that need not be on record. Malformed: ignored, one warning.

    Raises:
        Refused: no process of that pid can be seen; a bare pid would prove nothing later.
    """
    if session is None:
        return Parentage(None, "--parent-pid alone names no parent (give --parent-session too); launched as a master")
    try:
        parent_session = session_id(session)
    except BadInput as error:
        return Parentage(None, f"--parent-session is ignored: {error}; launched as a master")
    recorded = next((e for e in entries if e.session_id == parent_session and is_live(e)), None)
    if recorded:
        return Parentage(as_parent(recorded))
    number = positive_pid(pid)
    if pid is not None and number is None:
        return Parentage(None, f"--parent-pid {pid[:40]!r} is no positive pid: ignored; launched as a master")
    process = _process(parts, number) if number is not None else None
    return Parentage(ParentRef(session_id=parent_session, pid=number, process=process))


def _process(parts: Parts, pid: int) -> ProcessRef:
    """The process of that pid, by its identity.

    Raises:
        Refused: it is gone, or cannot be read.
    """
    seen = parts.processes.probe(pid)
    if isinstance(seen, ProcessKey):
        return ProcessRef(parts.processes.machine(), seen)
    why = "there is no such process" if isinstance(seen, Gone) else "that process cannot be read from here"
    raise Refused(
        f"--parent-pid {pid}: {why}",
        hint="Name a process that runs, or give --parent-session alone: the end of that parent is then not noticed",
    )


def positive_pid(raw: str | None) -> int | None:
    """A pid from text, None when malformed or not positive."""
    return int(raw) if raw and raw.isascii() and raw.isdigit() and 0 < int(raw) < 2**31 else None


def refuse_inside_sandbox(context: Context, entries: Sequence[Entry]) -> None:
    """Whatever parent is named: a launch by an agent from within its tool sandbox would not last.

    Raises:
        Refused: with the way out.
    """
    session = context.env.get("SUPERVISOR_SESSION_ID")
    entry = next((e for e in entries if session and e.session_id == session.strip() and is_live(e)), None)
    if entry is not None:
        refuse_sandbox(context, entry)


def from_environment(context: Context, entries: Sequence[Entry]) -> Parentage:
    """The agent that we run inside of: named by the environment, or found above us; the process table must agree."""
    entry, doubt = _named_by_variables(context, entries)
    if entry is not None:
        return Parentage(as_parent(entry), inside=entry)
    above = recorded_ancestor(context, entries)
    if above is not None:
        return Parentage(as_parent(above), f"{doubt}: ignored; the parent is {above.name}" if doubt else None)
    pi = _foreign_pi(context)
    if pi is not None:
        return Parentage(pi, f"{doubt}: ignored; the parent is pi session {pi.session_id}" if doubt else None)
    return Parentage(None, f"{doubt}: ignored; launched as a master (--parent names one)" if doubt else None)


def _named_by_variables(context: Context, entries: Sequence[Entry]) -> tuple[Entry | None, str | None]:
    """The agent that the environment names, or why what it names is none."""
    variable = "SUPERVISOR_SESSION_ID" if context.env.get("SUPERVISOR_SESSION_ID") else "SUPERVISOR_PARENT_SESSION"
    raw = context.env.get(variable)
    if not raw:
        return None, None
    pid = context.env.get("SUPERVISOR_PARENT_PID")
    if variable == "SUPERVISOR_PARENT_SESSION" and pid and positive_pid(pid) is None:
        return None, f"SUPERVISOR_PARENT_PID={pid[:40]!r} is no positive pid"
    try:
        wanted = session_id(raw)
    except BadInput as error:
        return None, f"{variable} is malformed ({error})"
    entry = next((e for e in entries if e.session_id == wanted and is_live(e)), None)
    if entry is None or entry.generation.process is None:
        return None, f"{variable} names {wanted}, which is no running agent on record"
    if not _is_ancestor(context, entry.generation.process.key):
        return None, f"{variable} names {entry.name}, but this command does not run inside it"
    return entry, None


def _foreign_pi(context: Context) -> ParentRef | None:
    """The pi session that we run in, or that is declared our parent, of a pi that was not launched by us."""
    if not any(name.startswith("PI_") for name in context.env):
        return None
    from supervisor.runtime.pi_parent import pi_parent

    found = pi_parent(context.env)
    try:
        session = session_id(found.session_id) if found else None
    except BadInput:
        session = None
    if found is None or session is None:
        return None
    process = context.parts.ref(found.process[0]) if found.process else None
    pid = process.key.pid if process else None
    return ParentRef(session_id=session, pid=pid, process=process, asks_folder=found.folder)


def recorded_ancestor(context: Context, entries: Sequence[Entry]) -> Entry | None:
    """The nearest live agent on record that this process descends from, by identity."""
    here = context.processes.machine()
    leaders = {
        p.key.pid: e for e in entries if is_live(e) and (p := e.generation.process) and comparable(p.machine, here)
    }
    for pid in _above(context) if leaders else ():
        entry = leaders.get(pid)
        process = entry.generation.process if entry else None
        seen = context.processes.identify(pid) if process else None
        if process is not None and seen is not None and same_process(process.key, seen):
            return entry
    return None


def refuse_sandbox(context: Context, entry: Entry) -> None:
    """A pid namespace of its own ends everything in it with the tool call.

    Raises:
        Refused: with the way out.
    """
    process = entry.generation.process
    here = context.processes.machine()
    if process is None or process.machine.host_id != here.host_id or process.machine.boot_id != here.boot_id:
        return
    if process.machine.pid_namespace != here.pid_namespace:
        raise Refused(
            f"{entry.name} runs this command in a tool sandbox (its own pid namespace): an agent launched here would "
            "die with the tool call",
            hint=f"Launch it outside the sandbox: from a terminal with --parent {entry.name}, or by the tools of "
            "`supervisor mcp`",
        )


def _is_ancestor(context: Context, key: ProcessKey) -> bool:
    """Whether we are that process or descend from it."""
    if key.pid != os.getpid() and key.pid not in _above(context):
        return False
    seen = context.processes.identify(key.pid)
    return seen is not None and same_process(key, seen)


def _above(context: Context) -> list[int]:
    """Our ancestors, the nearest first."""
    out: list[int] = []
    pid = context.processes.parent_of(os.getpid())
    while pid is not None and len(out) < _MAX_DEPTH:
        out.append(pid)
        pid = context.processes.parent_of(pid)
    return out
