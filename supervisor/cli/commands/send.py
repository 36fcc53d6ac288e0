"""`supervisor send`: give a running agent its next prompt."""

from __future__ import annotations

import click

from supervisor.cli.common import agent_argument, note, open_context


@click.command("send", epilog="Example: supervisor send tests -- 'and now the docs'")
@agent_argument()
@click.argument("words", nargs=-1, metavar="[-- PROMPT...]")
@click.option("--prompt-file", metavar="FILE", help="Read the prompt from a file, - for standard input.")
def command(agent_id: str, words: tuple[str, ...], prompt_file: str | None) -> int:
    """Give a running agent its next prompt: another turn in the same session, after the one that runs.

    For agents whose CLI a driver of ours speaks to; `supervisor profiles show` says which.
    """
    from supervisor.cli.prompt_file import read_prompt
    from supervisor.core.errors import UsageError
    from supervisor.core.resolve import resolve
    from supervisor.runtime.driving import follow_up

    if bool(words) == (prompt_file is not None):
        raise UsageError("give the prompt after --, or with --prompt-file")
    text = " ".join(words) if prompt_file is None else read_prompt(prompt_file).decode(errors="replace")
    context = open_context(prepare=False)
    entry = resolve(agent_id, context.store.list())
    follow_up(context, entry, text)
    note(f"{entry.name} has it")
    return 0
