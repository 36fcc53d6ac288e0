"""`supervisor resume`: go on with an agent that has ended, in its own session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from supervisor.cli.common import agent_argument, complete_agents, json_option, note, open_context
from supervisor.cli.tmux_launch import check_socket, tmux_socket_option

if TYPE_CHECKING:
    from supervisor.core.entry import Entry, ParentRef
    from supervisor.core.launch_plan import Mode
    from supervisor.runtime.activation import Activated
    from supervisor.runtime.agent_request import ResumeRequest
    from supervisor.runtime.compose import Context


@click.command(
    "resume",
    epilog="Examples: supervisor resume lead   |   supervisor resume tests --detach --prompt 'now fix what fails'",
)
@agent_argument()
@click.option("--parent", metavar="ID", shell_complete=complete_agents, help="Its new parent, a running agent.")
@click.option("--prompt", metavar="TEXT", help="What it is to do [default: go on with its task].")
@click.option("--prompt-file", metavar="FILE", help="Read that from a file, - for standard input.")
@click.option("--detach", is_flag=True, help="Run in the background [default when resumed by an agent].")
@click.option("--tmux", is_flag=True, help="Run in a new tmux window.")
@tmux_socket_option
@json_option
def command(
    agent_id: str,
    parent: str | None,
    prompt: str | None,
    prompt_file: str | None,
    detach: bool,
    tmux: bool,
    tmux_socket: str | None,
    as_json: bool,
) -> int:
    """Go on with an agent that has ended: the same agent, the same session, the same folder.

    It counts as resumed once it has confirmed its session. Otherwise its record is as it was, with the reason. An agent
    that runs, a session that is in use, a folder that is gone: refused with code 5 before anything is started.
    """
    from supervisor.cli.starting import detached, in_foreground, launched_by_an_agent

    check_socket(tmux_socket, tmux=tmux)
    if prompt_file is not None:
        prompt = _from_file(prompt, prompt_file)
    context = open_context()
    in_background = detach or (not tmux and launched_by_an_agent(context))
    choice = _Choice(context, agent_id, parent, prompt, mode="headless" if in_background else "interactive")
    if tmux:
        from supervisor.cli.tmux_launch import launch_in_tmux

        return launch_in_tmux(context, choice.request, as_json=as_json, socket=tmux_socket)
    if in_background:
        return detached(context, choice.request, "ready", as_json=as_json, ready=lambda e: _recover(context, e))
    return in_foreground(context, choice.request, as_json=as_json, before=choice.tell_ends, ready=choice.is_up)


def _recover(context: Context, entry: Entry) -> None:
    """Its own agents come back with it. What is said goes to standard error: the command's result stands already."""
    from supervisor.cli.recovering import line_of
    from supervisor.runtime.recovering import recover_own

    recover_own(context, entry, lambda event: note(line_of(event)))


def _from_file(prompt: str | None, path: str) -> str:
    """Raises UsageError: both ways to give it. BadInput: unreadable or too long."""
    from supervisor.cli.prompt_file import read_prompt
    from supervisor.core.errors import UsageError

    if prompt is not None:
        raise UsageError("--prompt and --prompt-file exclude each other")
    return read_prompt(path).decode(errors="surrogateescape")


class _Choice:
    """The command line as a request, given what is on record."""

    def __init__(self, context: Context, wanted: str, parent: str | None, prompt: str | None, *, mode: Mode) -> None:
        self._context = context
        self._wanted = wanted
        self._parent = parent
        self._prompt = prompt
        self._mode = mode
        self._ends: Sequence[Entry] = ()

    def request(self, activated: Activated) -> list[ResumeRequest]:
        """The one request.

        Raises:
            SupervisorError: no such agent, or a parent that is none.
        """
        from supervisor.cli.starting import named_parent
        from supervisor.core.handoffs import addressed_to
        from supervisor.core.resolve import resolve
        from supervisor.runtime.agent_request import ResumeRequest

        entries = activated.seen.entries
        entry = resolve(self._wanted, entries)
        self._warn(entry)
        self._ends = addressed_to(entry.session_id, entries)
        return [
            ResumeRequest(
                entry_id=entry.entry_id,
                name=entry.name,
                cwd=entry.plan.cwd,
                mode=self._mode,
                parent=named_parent(self._parent, entries) if self._parent is not None else None,
                inside=self._inside(activated),
                text=self._prompt,
            )
        ]

    def tell_ends(self, _entry: Entry) -> None:
        """Which of its agents have ended meanwhile, while the screen is still ours."""
        from supervisor.core.ending import describe

        for ended in self._ends:
            if ended.hand_off is not None:
                note(f"{ended.name}: {describe(ended.hand_off)}")

    def is_up(self, entry: Entry) -> None:
        """The ends that were told are noted; the rest comes back in a process beside it."""
        from supervisor.runtime.delivering import note_told
        from supervisor.runtime.recovering import recover_beside

        for ended in self._ends:
            note_told(self._context.store, ended, now=self._context.clock.wall_ms())
        recover_beside(self._context, entry)

    def _inside(self, activated: Activated) -> ParentRef | None:
        from supervisor.runtime.parentage import from_environment

        return from_environment(self._context, activated.seen.entries).parent

    def _warn(self, entry: Entry) -> None:
        from supervisor.runtime.resuming import missing_variables

        missing = missing_variables(self._context, entry)
        if missing:
            note(f"{entry.name} was launched with --env {', '.join(missing)}: not set here, so it goes on without")
