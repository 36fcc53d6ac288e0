"""The lazy command group: `--help` imports no command. Turns every error into a line on stderr and an exit code."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from supervisor._version import VERSION
from supervisor.adapters.own_process import mend_streams
from supervisor.core.errors import EXIT_INTERNAL, SupervisorError, os_trouble

COMMANDS = {
    "launch": "Start one agent",
    "up": "Start a whole tree of agents from one file",
    "down": "Stop a tree, children first",
    "tree": "Show who is whose child, and who is alive",
    "ps": "Show the agents as a table",
    "watch": "Follow what happens, live",
    "show": "Show everything recorded about an agent",
    "why": "Explain in a paragraph what an agent is up to, and what to do",
    "logs": "Show an agent's transcript",
    "enroll": "Record an agent that was not launched by supervisor",
    "attach": "Go to an agent's tmux pane",
    "send": "Give a running agent its next prompt",
    "interrupt": "End the turn that an agent is in",
    "stop": "Stop agents, with everything they started",
    "wait": "Wait until agents have ended",
    "resume": "Go on with an agent that has ended, in its own session",
    "recover": "Bring back what a crash has left behind",
    "orphans": "List live agents whose parent is gone",
    "adopt": "Give an agent that has lost its parent a new one",
    "release": "Ask a worker to clean up and end",
    "handoffs": "Show ends that the agents' parents have not been told of",
    "ask": "Ask for a permission, as an agent or script",
    "asks": "Show the asks that wait, or their history",
    "answer": "Allow or deny an ask",
    "inbox": "Answer asks as they come",
    "task": "Say whether a task is still to be worked on",
    "checkpoint": "Keep how far an agent has come, for a resume",
    "profiles": "List, show, check, copy and trust launch profiles",
    "settings": "Show and set settings",
    "reconcile": "Repair the records once: re-attach, close, tidy up",
    "doctor": "Check this machine and the state root",
    "mcp": "Serve the tools of agents, and install them into an agent CLI",
    "guide": "Print a short guide for agents: how to have children",
    "completion": "Print shell completion",
}

HIDDEN = (
    "_pane",
    "_popup",
)


class LazyGroup(click.Group):
    """Knows its commands by name and one line; imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS and cmd_name not in HIDDEN:
            return None
        command = import_module(f"supervisor.cli.commands.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in (*COMMANDS, *HIDDEN) and not ctx.resilient_parsing:
            close = [c for c in COMMANDS if c[:2] == args[0][:2]]
            hint = f" Did you mean {', '.join(close)}?" if close else " See: supervisor --help"
            raise click.UsageError(f"there is no command {args[0][:40]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: supervisor launch claude --name lead -- 'fix the failing tests'",
)
@click.version_option(VERSION, "-V", "--version", prog_name="supervisor")
@click.option("--debug", is_flag=True, hidden=True, help="Show stack traces.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Launch, record, watch and stop trees of coding agents."""
    ctx.obj = debug


def run(args: Sequence[str]) -> int:
    """The whole program; the exit code."""
    mend_streams()
    _warn_of_supervisord()
    debug = "--debug" in args
    try:
        result = cli.main(args=list(args), prog_name="supervisor", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as done:
        return done.exit_code
    except SystemExit as done:  # click's own way out when the reader of our output has gone
        pacified = type(sys.stdout).__name__.endswith("PacifyFlushWrapper")  # private, and its name has changed
        _silence_stdout()
        return 0 if pacified else int(done.code or 0)
    except click.Abort:
        return _fail("interrupted", 130)
    except click.ClickException as error:
        if error.format_message().startswith("Usage: "):  # a group without a command: its help, since click 8.2
            return _help_instead(error)
        told = " ".join(error.format_message().split())  # one line, also where click lists choices below each other
        return _fail(f"{_usage_of(error)}{told}", error.exit_code)
    except SupervisorError as error:
        return _fail(str(error), error.exit_code, debug=debug)
    except BrokenPipeError:
        _silence_stdout()
        return 0
    except OSError as error:
        _silence_stdout()  # what could not be written would be complained of again at exit
        return _fail(os_trouble(error), 1, debug=debug)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except Exception as error:  # noqa: BLE001  the one place that turns a bug into an exit code
        return _fail(f"internal error, please report it: {type(error).__name__}: {error}", EXIT_INTERNAL, debug=debug)


def _help_instead(error: click.ClickException) -> int:
    with contextlib.suppress(OSError, ValueError):
        print(error.format_message(), file=sys.stderr, flush=True)
    return error.exit_code


def _usage_of(error: click.ClickException) -> str:
    if isinstance(error, click.UsageError) and error.ctx is not None and error.ctx.info_name != "supervisor":
        return f"{error.ctx.command_path}: "
    return ""


def _fail(message: str, code: int, *, debug: bool = False) -> int:
    from supervisor.core.text import printable

    if debug:
        import traceback

        traceback.print_exc()
    try:
        print(f"supervisor: {printable(message)}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass
    return code


def _silence_stdout() -> None:
    """The reader has gone; nothing may complain about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _warn_of_supervisord() -> None:
    """Both projects own a top-level `supervisor`; in one environment the files merge (docs/adr/0005-name.md)."""
    if os.path.exists(os.path.join(os.path.dirname(os.path.dirname(__file__)), "supervisord.py")):
        print(
            "supervisor: warning: supervisord is installed in the same environment; install supervisor-agents with "
            "`uv tool install` or `pipx` instead",
            file=sys.stderr,
        )
