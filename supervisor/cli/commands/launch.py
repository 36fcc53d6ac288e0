"""`supervisor launch`: start one agent, in the foreground, detached, or in tmux."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import click

from supervisor.cli.common import (
    complete_agents,
    complete_profiles,
    json_option,
    note,
    print_json,
)
from supervisor.cli.tmux_launch import check_socket, tmux_socket_option

if TYPE_CHECKING:
    from supervisor.core.entry import ParentRef
    from supervisor.runtime.activation import Activated
    from supervisor.runtime.agent_request import AgentRequest
    from supervisor.runtime.compose import Context


@click.command(
    "launch",
    epilog="Examples: supervisor launch claude --name lead -- 'fix the failing tests'   |   "
    "supervisor launch --detach shell -- make test",
)
@click.argument("profile", shell_complete=complete_profiles)
@click.argument("words", nargs=-1, metavar="[-- PROMPT or ARGS...]", type=click.UNPROCESSED)
@click.option("--name", help="Name of the agent [default: the profile's, numbered].")
@click.option("--prompt", help="The first prompt (words after -- are then arguments of the program).")
@click.option("--prompt-file", metavar="FILE", help="Read the prompt from a file, - for standard input.")
@click.option("--cwd", metavar="DIR", help="Working directory [default: the current one].")
@click.option("--parent", metavar="ID", shell_complete=complete_agents, help="Parent agent on record.")
@click.option("--parent-session", metavar="ID", help="Session id of a parent that need not be on record.")
@click.option("--parent-pid", metavar="PID", help="Its process.")
@click.option("--agent-id", metavar="ID", help="Logical agent, stable across resumes [default: a new one].")
@click.option("--task-ref", metavar="REF", help="Goal or task this agent works on.")
@click.option("--task-summary", metavar="TEXT", help="The task in a few words, for people.")
@click.option(
    "--allow-path", "allow_paths", metavar="DIR", multiple=True, help="Absolute path it may write (repeatable)."
)
@click.option("--env", "variables", metavar="NAME[=VALUE]", multiple=True, help="Set a variable, or pass one on.")
@click.option("--model", help="Model, where the profile has an option for it.")
@click.option("--restart", type=click.Choice(["temporary", "transient", "permanent"]), help="Restart policy.")
@click.option("--asks", type=click.Choice(["attended", "rules", "hold"]), help="When it serves its children's asks.")
@click.option("--mcp", is_flag=True, help="Give it the tools to have children of its own (supervisor mcp).")
@click.option("--detach", is_flag=True, help="Run in the background [default when launched by an agent].")
@click.option("--tmux", is_flag=True, help="Run in a new tmux window.")
@tmux_socket_option
@click.option(
    "--wait", "wait_for", type=click.Choice(["spawned", "ready", "exit"]), help="Return when [default: ready]."
)
@click.option("--dry-run", is_flag=True, help="Show what would be started, and stop.")
@json_option
def command(as_json: bool, dry_run: bool, tmux: bool, detach: bool, wait_for: str | None, **given: object) -> int:
    """Start one agent.

    On a terminal it runs in the foreground and the exit code is the agent's own; before a master takes the terminal,
    agents that wait to be recovered are offered. Detached it prints name, session, pid and transcript once the agent is
    proven up; if the agent dies first you are told how, with the end of its output.
    """
    from supervisor.runtime.compose import from_environment

    check_socket(_text(given["tmux_socket"]), tmux=tmux)
    context = from_environment()
    if context.matrix_on:
        context.prepare()
    choice = _Choice(context, given, interactive=not detach and wait_for is None, tmux=tmux)
    if dry_run:
        return _dry_run(context, choice, as_json=as_json)
    if not context.matrix_on:
        from supervisor.cli.unrecorded import launch_unrecorded

        return launch_unrecorded(
            context,
            choice.request,
            foreground=choice.foreground(detach, wait_for),
            wait_for=wait_for or "spawned",
            tmux=tmux,
            as_json=as_json,
        )
    if tmux:
        from supervisor.cli.tmux_launch import launch_in_tmux

        return launch_in_tmux(context, choice.request, as_json=as_json, socket=_text(given["tmux_socket"]))
    from supervisor.cli.starting import detached, in_foreground

    if choice.foreground(detach, wait_for):
        return in_foreground(context, choice.request, as_json=as_json)
    return detached(context, choice.request, wait_for or "ready", as_json=as_json)


class _Choice:
    """The command line as a request, given what is on record."""

    def __init__(self, context: Context, given: dict[str, object], *, interactive: bool, tmux: bool) -> None:
        self._context = context
        self._given = given
        self._interactive = interactive
        self._tmux = tmux

    @cached_property
    def inside(self) -> bool:
        """Whether an agent launches: reads the matrix, so it is looked at only where it matters."""
        from supervisor.cli.starting import launched_by_an_agent

        return launched_by_an_agent(self._context)

    def foreground(self, detach: bool, wait_for: str | None) -> bool:
        """Detached when asked, when something is to be waited for, or when an agent launches."""
        return not detach and wait_for is None and not self.inside

    def request(self, activated: Activated) -> list[AgentRequest]:
        """The one request.

        Raises:
            SupervisorError: bad input, an unknown parent, a tool sandbox.
        """
        import os

        from supervisor.core.launch_plan import allowed_path
        from supervisor.runtime.agent_request import AgentRequest

        given = self._given
        profile = self._context.profiles.load(str(given["profile"]))
        prompt, words = self._prompt(profile.prompt.words)
        mode = "interactive" if self._runs_on_terminal() else "headless"
        cwd = str(given["cwd"] or self._context.cwd)
        return [
            AgentRequest(
                profile=profile.name,
                name=_text(given["name"]),
                cwd=os.path.abspath(cwd) if cwd else "",
                mode="interactive" if mode == "interactive" else "headless",
                prompt=prompt,
                words=words,
                model=_text(given["model"]),
                allowed_paths=tuple(allowed_path(p) for p in _texts(given["allow_paths"])),
                env=self._env(),
                parent=self._parent(activated),
                agent_id=_text(given["agent_id"]),
                task_ref=_text(given["task_ref"]),
                task_summary=_text(given["task_summary"]),
                restart=_text(given["restart"]),  # type: ignore[arg-type]  # the option's choice
                asks=_text(given["asks"]),  # type: ignore[arg-type]  # the option's choice
                mcp=bool(given["mcp"]),
            )
        ]

    def _runs_on_terminal(self) -> bool:
        return self._tmux or (self._interactive and not self.inside)

    def _prompt(self, words_are: str) -> tuple[bytes | None, tuple[str, ...]]:
        from supervisor.core.errors import UsageError

        words = _texts(self._given["words"])
        text, file = _text(self._given["prompt"]), _text(self._given["prompt_file"])
        if text is not None and file is not None:
            raise UsageError("--prompt and --prompt-file exclude each other")
        if text is not None:
            return _bytes(text), words
        if file is not None:
            from supervisor.cli.prompt_file import read_prompt

            return read_prompt(file), words
        if words_are == "args" or not words:
            return None, words
        return _bytes(" ".join(words)), ()

    def _env(self) -> dict[str, str]:
        from supervisor.core.errors import BadInput
        from supervisor.core.launch_plan import variable

        out = {}
        for raw in _texts(self._given["variables"]):
            name, value = variable(raw)
            if value is None and name not in self._context.env:
                raise BadInput(f"--env {name}: it is not set here", hint=f"Give a value: --env {name}=…")
            out[name] = self._context.env[name] if value is None else value
        return out

    def _parent(self, activated: Activated) -> ParentRef | None:
        from supervisor.cli.starting import named_parent
        from supervisor.runtime.parentage import by_flags, from_environment

        entries = activated.seen.entries
        wanted = _text(self._given["parent"])
        if wanted is not None:
            return named_parent(wanted, entries)
        session, pid = _text(self._given["parent_session"]), _text(self._given["parent_pid"])
        if session is not None or pid is not None:
            found = by_flags(self._context.parts, session, pid, entries)
        else:
            found = from_environment(self._context, entries)
        if found.warning:
            note(found.warning)
        return found.parent


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, tuple | list) else ()


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _dry_run(context: Context, choice: _Choice, *, as_json: bool) -> int:
    """Compile the plan and show it; nothing is written or started."""
    from supervisor.runtime.activation import Activated
    from supervisor.runtime.launching import Launcher
    from supervisor.runtime.scan import scan

    seen = scan(context.parts)
    (draft,) = Launcher(context).drafts(choice.request(Activated(seen, (), ())), seen.entries)
    plan = draft.entry.plan
    if as_json:
        print_json({"name": draft.entry.name, "role": draft.entry.role, "plan": plan})
    else:
        import shlex

        click.echo(f"name      {draft.entry.name} ({draft.entry.role})")
        click.echo(f"command   {shlex.join(plan.argv)}")
        click.echo(f"folder    {plan.cwd}")
        click.echo(f"mode      {plan.mode}, stdin {plan.stdin}, restart {plan.restart.policy}")
        for path in plan.allowed_paths:
            click.echo(
                f"path      {path} ({'enforced by the CLI' if plan.paths_enforced else 'recorded, not enforced'})"
            )
    return 0
