"""`join`: the session of this process, taken when a supervisor launched it, else registered. One for each process."""

from __future__ import annotations

from collections.abc import Sequence

from supervisor.core.entry import Entry, is_live
from supervisor.core.errors import MatrixOff
from supervisor.library import records, registry
from supervisor.library.host import Host
from supervisor.library.serving import Decide
from supervisor.library.session import Session
from supervisor.runtime import parentage
from supervisor.runtime.compose import Context, from_environment


def join(name: str | None = None, *, decide: Decide | None = None, parent: str | None = None) -> Session:
    """The session of this process, registered as a master (or as a worker of `parent`, a session id or name).

    Joining again gives the same session, whatever is asked for. Inside an agent that a supervisor launched it is that
    agent's; `name` and `parent` are then as they were launched. `decide` serves it, as `Session.serve` does.

    Raises:
        SupervisorError: the state root cannot be used, or the name or parent is none.
    """
    state = registry.shared()
    with state["joining"]:
        session: Session | None = state["joined"]
        if session is not None and not session.closed:
            session.hold()
        else:
            session = state["joined"] = open_session(from_environment(), name=name, parent=parent)
    if decide is not None:
        session.serve(decide)
    return session


def open_session(context: Context, *, name: str | None = None, parent: str | None = None) -> Session:
    """A session of its own, whatever else is joined.

    Raises:
        SupervisorError, OSError.
    """
    if not context.matrix_on:
        raise MatrixOff
    context.prepare()
    entries = context.store.list()
    launched = _launched(context, entries)
    host = Host(context)
    if launched is not None:
        host.open(launched, register=False)
        return Session(host, launched)
    above = records.parent_named(parent, entries) if parent is not None else None
    if parent is None:
        above = parentage.from_environment(context, entries).parent
    entry = records.build(context, name=records.free_name(name, entries), keeper=host.keeper, parent=above)
    host.open(entry, register=True)
    return Session(host, entry)


def _launched(context: Context, entries: Sequence[Entry]) -> Entry | None:
    """The entry that we run in, when the environment names it and the process table agrees."""
    own = context.env.get("SUPERVISOR_SESSION_ID")
    if not own:
        return None
    inside = parentage.from_environment(context, entries).inside
    if inside is not None:
        return inside
    entry = next((e for e in entries if e.session_id == own.strip() and is_live(e)), None)
    process = entry.generation.process if entry else None
    here = context.processes.machine()
    if process is None or (process.machine.host_id, process.machine.boot_id) != (here.host_id, here.boot_id):
        return None
    # a tool sandbox hides the ancestors: the record is what there is
    return entry if process.machine.pid_namespace != here.pid_namespace else None
