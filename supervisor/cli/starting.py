"""What `launch` and `resume` share: in the foreground, detached or in a tmux pane, and what is said of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from supervisor.cli.common import note, print_json, say

if TYPE_CHECKING:
    from supervisor.core.entry import Entry, ParentRef
    from supervisor.core.recovery import Found
    from supervisor.runtime.compose import Context
    from supervisor.runtime.starting import Choose, Started


def launched_by_an_agent(context: Context) -> bool:
    """By the environment; without a terminal also by descent: an enrolled agent's tool shell names nobody."""
    if context.env.get("SUPERVISOR_SESSION_ID"):
        return True
    if sys.stdin.isatty():
        return False
    from supervisor.runtime.parentage import recorded_ancestor

    return recorded_ancestor(context, context.store.list()) is not None


def named_parent(wanted: str, entries: Sequence[Entry]) -> ParentRef:
    """The agent of `--parent`.

    Raises:
        NotFound, Refused: no such agent, or one that does not run.
    """
    from supervisor.core.entry import as_parent, is_live
    from supervisor.core.errors import Refused
    from supervisor.core.resolve import resolve

    parent = resolve(wanted, entries)
    if not is_live(parent):
        raise Refused(f"{parent.name} is {parent.status}, it cannot be a parent", hint="Name a running agent")
    return as_parent(parent)


def in_foreground(
    context: Context,
    choose: Choose,
    *,
    as_json: bool,
    before: Callable[[Entry], None] = lambda _entry: None,
    ready: Callable[[Entry], None] = lambda _entry: None,
) -> int:
    """Be the keeper of one agent on this terminal; the agent's own code.

    What a master is to recover of others is asked first, unless JSON is wanted. `before` is called before it is
    spawned: afterwards the screen is its own. `ready` once it is proven up.

    Raises:
        SupervisorError: refused before anything was started.
        click.Abort: the person has changed their mind.
    """
    from supervisor.core.text import printable
    from supervisor.runtime.starting import run_foreground

    later: Sequence[Found] = ()
    if not as_json and sys.stderr.isatty():
        from supervisor.cli.activating import offer_first

        choose, later = offer_first(context, choose)

    def announce(entry: Entry) -> None:
        if sys.stderr.isatty():
            print(printable(f"supervisor: {entry.name} · session {entry.session_id}"), file=sys.stderr)
        tell_of_clis(context, [entry])
        before(entry)

    def started(key: str) -> None:
        entry = context.store.read(key) if later else None
        if entry is not None:
            from supervisor.runtime.recovering import take_in_beside

            take_in_beside(context, entry.session_id, later)

    return _told(run_foreground(context, choose, announce=announce, started=started, ready=ready))


def _told(entry: Entry) -> int:
    """Say what went wrong with an agent of this terminal, if anything; its code."""
    from supervisor.core.ending import describe, exit_status
    from supervisor.core.entry import failed_resume

    if (failed := failed_resume(entry)) is not None:
        note(f"{entry.name} was not resumed: {failed.why}")
        return 1
    end = entry.hand_off
    if end is None:
        note(f"{entry.name}: its record was taken over by another keeper; see: supervisor show {entry.name}")
        return 1
    if end.outcome == "not_started" or end.survivors:
        note(f"{entry.name} {describe(end)}")
    return exit_status(end)


def detached(
    context: Context,
    choose: Choose,
    wait_for: str,
    *,
    as_json: bool,
    ready: Callable[[Entry], None] = lambda _entry: None,
) -> int:
    """Start one agent in the background and say how it went. `ready` is called when it is up, before anything is said
    of its end."""
    from supervisor.runtime.starting import start_detached

    until = "spawned" if wait_for == "spawned" else "ready"
    _, (started,) = start_detached(
        context, choose, until="spawned" if until == "spawned" else "ready", tell=lambda _draft, _what: None
    )
    tell_of_clis(context, [started.entry])
    if not started.reached:
        return failed(started, as_json=as_json)
    print_started(started.entry, as_json=as_json)
    ready(started.entry)
    if wait_for == "exit":
        from supervisor.cli.waiting import wait_for_exits

        return wait_for_exits(context, [started.entry])
    return 0


def tell_of_clis(context: Context, entries: Sequence[Entry]) -> None:
    """A line for each CLI of another version than its profile was verified with, or that could not be set up whole."""
    from supervisor.runtime.versions import launch_notes

    for line in launch_notes(context, entries):
        note(line)


def print_started(entry: Entry, *, as_json: bool) -> None:
    """What was started, for people or as JSON."""
    process = entry.generation.process
    pid = process.key.pid if process else None
    if as_json:
        print_json(
            {
                "name": entry.name,
                "entryId": entry.entry_id,
                "sessionId": entry.session_id,
                "pid": pid,
                "role": entry.role,
                "parentSessionId": entry.parent.session_id if entry.parent else None,
                "status": entry.status,
                "transcript": entry.output.transcript,
            }
        )
        return
    for label, value in (
        ("name", entry.name),
        ("session", entry.session_id),
        ("pid", pid),
        ("transcript", entry.output.transcript),
    ):
        if value is not None:
            say(f"{label:<11}{value}")


def failed(started: Started, *, as_json: bool) -> int:
    """Say what happened, with the end of what it printed."""
    from supervisor.core.text import printable

    entry = started.entry
    problem = _problem(started)
    text = printable(_last_words(entry).decode(errors="replace")).rstrip()
    if as_json:
        print_json({"name": entry.name, "entryId": entry.entry_id, "error": problem, "output": text})
    note(problem)
    if text and not as_json:
        print("\n".join(f"  | {line}" for line in text.splitlines()), file=sys.stderr)
    return 1


def _problem(started: Started) -> str:
    from supervisor.core.ending import describe_early
    from supervisor.core.entry import failed_resume

    entry = started.entry
    if started.why == "lost":
        return f"{entry.name} was resumed by another command at the same time; see: supervisor show {entry.entry_id}"
    if started.why == "ended" and (resume := failed_resume(entry)) is not None:
        return f"{entry.name} was not resumed: {resume.why}. Its record is as it was"
    if started.why == "ended" and entry.hand_off:
        return f"{entry.name} {describe_early(entry.hand_off)}"
    if started.why == "timeout":
        return (
            f"{entry.name} runs, but has not proven itself up within {entry.plan.ready_timeout_ms // 1000} s "
            f"({entry.plan.ready}); see: supervisor why {entry.name}"
        )
    return f"{entry.name}: its keeper died while starting it. Run: supervisor reconcile"


def _last_words(entry: Entry) -> bytes:
    """The last lines of this generation's output."""
    from supervisor.adapters.transcripts import read_from, tail_lines

    if not entry.output.transcript:
        return b""
    tail, _ = tail_lines(entry.output.transcript, 20)
    own, _ = read_from(entry.output.transcript, entry.generation.output_from)
    return tail if len(tail) <= len(own) or not entry.generation.output_from else own
