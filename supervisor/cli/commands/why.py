"""`supervisor why`: the one-paragraph diagnosis."""

from __future__ import annotations

import click

from supervisor.cli.common import agent_argument, json_option, open_context, print_json


@click.command("why", epilog="Example: supervisor why tests")
@agent_argument()
@json_option
def command(agent_id: str, as_json: bool) -> None:
    """Explain an agent: what it is, how it is judged, since when, on which evidence, and what to do."""
    from supervisor.cli.seeing import look
    from supervisor.core.resolve import resolve
    from supervisor.core.text import printable
    from supervisor.runtime.views import why

    context = open_context(prepare=False)
    seen = look(context)
    entry = resolve(agent_id, seen.entries)
    text = printable(why(context.parts, entry, seen))
    if as_json:
        judged = seen.judgements[entry.entry_id]
        print_json(
            {"name": entry.name, "entryId": entry.entry_id, "verdict": judged.verdict, "evidence": judged.evidence,
             "why": text}
        )  # fmt: skip
        return
    import sys
    import textwrap

    click.echo(textwrap.fill(text, width=100) if sys.stdout.isatty() else text)
