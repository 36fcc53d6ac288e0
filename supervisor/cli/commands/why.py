"""`supervisor why`: the one-paragraph diagnosis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from supervisor.cli.common import complete_agents, complete_asks, json_option, open_context, print_json


def complete_both(ctx: click.Context, param: click.Parameter, incomplete: str) -> Sequence[str]:
    """Agents, and the asks that wait."""
    return [*complete_agents(ctx, param, incomplete), *complete_asks(ctx, param, incomplete)]


@click.command("why", epilog="Examples: supervisor why tests   |   supervisor why perm-3f2a")
@click.argument("agent_id", metavar="ID", shell_complete=complete_both)
@json_option
def command(agent_id: str, as_json: bool) -> None:
    """Explain an agent, or an ask.

    An agent: what it is, how it is judged, since when, on which evidence, what it waits for, and what to do. An ask, by
    its id: where it waits and for whom, or who decided it, or why nobody did.
    """
    from supervisor.cli.seeing import look
    from supervisor.core.errors import NotFound
    from supervisor.core.resolve import resolve
    from supervisor.core.tasks import held_back
    from supervisor.runtime.ask_why import AskWhy
    from supervisor.runtime.task_list import tasks_or_none
    from supervisor.runtime.views import why

    context = open_context(prepare=False)
    seen = look(context)
    asks = AskWhy(context.parts, context.asks, seen.entries)
    try:
        entry = resolve(agent_id, seen.entries)
    except NotFound as problem:
        try:
            ask = asks.ask(agent_id)
        except NotFound:
            raise problem from None
        _tell(ask.why, {"ask": ask.ask, "state": ask.state}, as_json=as_json)
        return
    judged = seen.judgements[entry.entry_id]
    about = {"name": entry.name, "entryId": entry.entry_id, "verdict": judged.verdict, "evidence": judged.evidence}
    held = held_back(entry, tasks_or_none(context))
    notes = [*([held] if held else []), *asks.of_agent(entry)]
    _tell(why(context.parts, entry, seen, notes), about, as_json=as_json)


def _tell(text: str, about: Mapping[str, object], *, as_json: bool) -> None:
    import sys
    import textwrap

    from supervisor.core.text import printable

    text = printable(text)
    if as_json:
        print_json({**about, "why": text})
    else:
        click.echo(textwrap.fill(text, width=100) if sys.stdout.isatty() else text)
