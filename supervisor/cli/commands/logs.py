"""`supervisor logs`: show an agent's transcript."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import click

from supervisor.cli.common import agent_argument, open_context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from supervisor.core.entry import Entry
    from supervisor.runtime.compose import Context

LINES = 40


@click.command("logs", epilog="Example: supervisor logs -f -n 100 lead")
@agent_argument()
@click.option("--follow", "-f", "follow", is_flag=True, help="Go on until the agent has ended.")
@click.option("--lines", "-n", type=click.IntRange(0), help=f"The last N lines first [default: {LINES}].")
@click.option("--all", "-a", "whole", is_flag=True, help="The whole transcript first.")
def command(agent_id: str, follow: bool, lines: int | None, whole: bool) -> int:
    """Show an agent's transcript: what it wrote to standard output and standard error.

    The bytes come as they are, but on a terminal everything beyond colours is made visible, so that an agent's output
    cannot drive your terminal. Following ends by itself with the agent.
    """
    from supervisor.core.errors import UsageError
    from supervisor.core.resolve import resolve

    if whole and lines is not None:
        raise UsageError("--all and --lines exclude each other")
    context = open_context(prepare=False)
    entry = resolve(agent_id, context.store.list())
    path = entry.output.transcript
    if path is None:
        _no_transcript(entry)
    if not follow:
        _must_exist(entry, path)
    wanted = None if whole else LINES if lines is None else lines
    try:
        _show(_chunks(context, entry, path, wanted, follow=follow))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _forget_stdout()
    return 0


def _chunks(context: Context, entry: Entry, path: str, lines: int | None, *, follow: bool) -> Iterator[bytes]:
    """The wanted part, then what comes."""
    from supervisor.adapters.transcripts import tail_lines
    from supervisor.cli.following import Reader, size_of
    from supervisor.cli.following import follow as follow_on

    offset = 0
    if lines is None:
        reader, end = Reader(path, 0), size_of(path)
        while offset < end and (data := reader.read()):  # up to here: an agent that never stops must not keep us
            offset += len(data)
            yield data
    else:
        data, offset = tail_lines(path, lines)
        yield data
    if follow:
        yield from follow_on(context, entry, path, offset)


def _show(chunks: Iterator[bytes]) -> None:
    """Raises BrokenPipeError: the reader has gone."""
    import sys

    from supervisor.cli.harmless import Harmless

    harmless = Harmless() if sys.stdout.isatty() else None
    try:
        for data in chunks:
            if not data:
                _check_reader()
            elif harmless:
                sys.stdout.write(harmless.feed(data))
            else:
                sys.stdout.buffer.write(data)
            sys.stdout.flush()
    finally:
        if harmless:
            sys.stdout.write(harmless.end())
            sys.stdout.flush()


def _check_reader() -> None:
    """A closed pipe shows only when something is written: an agent that is silent for hours must not keep us."""
    import select
    import sys

    try:
        fd = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    poll = select.poll()
    poll.register(fd, 0)
    if any(events & select.POLLERR for _, events in poll.poll(0)):
        raise BrokenPipeError


def _forget_stdout() -> None:
    """Nothing may complain about it at exit."""
    import os
    import sys

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _must_exist(entry: Entry, path: str) -> None:
    import os.path

    from supervisor.core.errors import Refused

    if not os.path.lexists(path) and entry.status != "starting":
        raise Refused(f"the transcript of {entry.name} is gone: {path}", hint=f"See: supervisor show {entry.name}")


def _no_transcript(entry: Entry) -> NoReturn:
    from supervisor.core.errors import Refused

    name = entry.name
    if entry.terminal.kind == "tmux":
        where, hint = f"its output is in tmux pane {entry.terminal.pane}", f"Go there: supervisor attach {name}"
    elif entry.enrolled:
        where, hint = "it was enrolled while it ran", "Its output is where it was started"
    else:
        pid = entry.keeper.process.key.pid
        where = f"it ran in the foreground, its output is on that terminal (its keeper is pid {pid})"
        hint = "Launch with --detach to keep a transcript"
    raise Refused(f"{name} has no transcript: {where}", hint=hint)
