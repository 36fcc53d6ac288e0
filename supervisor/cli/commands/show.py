"""`supervisor show`: everything recorded about one agent."""

from __future__ import annotations

import click

from supervisor.cli.common import agent_argument, json_option, open_context, print_json, say


@click.command("show", epilog="Example: supervisor show lead --json")
@agent_argument()
@json_option
def command(agent_id: str, as_json: bool) -> None:
    """Show everything recorded about an agent, with its verdict and its keeper's last heartbeat."""
    import msgspec

    from supervisor.cli.seeing import look
    from supervisor.core.resolve import resolve

    context = open_context(prepare=False)
    seen = look(context)
    entry = resolve(agent_id, seen.entries)
    judged = seen.judgements[entry.entry_id]
    record = {
        "verdict": {"verdict": judged.verdict, "evidence": judged.evidence, "keeperGone": judged.keeper_gone},
        "heartbeat": seen.beats.get(entry.keeper.keeper_id) or context.parts.beats.read(entry.keeper.keeper_id),
        "record": context.store.path(entry.key),
        "entry": entry,
    }
    if as_json:
        print_json(record)
        return
    for line in _lines(msgspec.to_builtins(record), ""):
        say(line)


def _lines(value: object, path: str) -> list[str]:
    """`a.b.c  value`, one leaf a line."""
    if isinstance(value, dict) and value:
        return [line for key, inner in value.items() for line in _lines(inner, f"{path}.{key}" if path else str(key))]
    if isinstance(value, list | tuple) and value and isinstance(value[0], dict):
        return [line for number, inner in enumerate(value) for line in _lines(inner, f"{path}[{number}]")]
    text = (
        "-"
        if value in (None, {}, [], ())
        else " ".join(map(str, value))
        if isinstance(value, list | tuple)
        else str(value)
    )
    return [f"{path:<40} {text}"]
