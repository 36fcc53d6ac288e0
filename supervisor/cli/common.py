"""What commands share: the context, ids, JSON, completion. Renders nothing but JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from supervisor.runtime.compose import Context

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def open_context(*, prepare: bool = True, records: bool = True) -> Context:
    """The context of this process, with a safe state root (made when `prepare`).

    Raises:
        BadState: the state root cannot be used.
        MatrixOff: the command works with `records`, and none are kept.
    """
    from supervisor.runtime.compose import from_environment

    context = from_environment()
    if prepare:
        if records and not context.matrix_on:
            from supervisor.core.errors import MatrixOff

            raise MatrixOff
        context.prepare()
    else:
        context.places.exists()
    return context


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    import msgspec

    from supervisor.core.text import escaped_json

    data = msgspec.json.format(msgspec.json.encode(value), indent=2)
    sys.stdout.write(escaped_json(data.decode()) + "\n")
    sys.stdout.flush()  # before anything is noted as told


def print_json_line(value: Any) -> None:
    """One JSON object per line, flushed: for readers that follow."""
    import msgspec

    from supervisor.core.text import escaped_json

    sys.stdout.write(escaped_json(msgspec.json.encode(value).decode()) + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """A line for people on stdout, whatever is in it: names and words of agents cannot drive the terminal."""
    from supervisor.core.text import printable

    click.echo(printable(text))


def note(message: str) -> None:
    """One line for people on stderr."""
    from supervisor.core.text import printable

    print(f"supervisor: {printable(message)}", file=sys.stderr, flush=True)


def complete_agents(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> Sequence[str]:
    """Agent names for shell completion."""
    try:
        context = open_context(prepare=False)
        return sorted({e.name for e in context.store.list() if e.name.startswith(incomplete)})
    except Exception:  # noqa: BLE001  completion must never print a trace into somebody's prompt
        return []


def complete_asks(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> Sequence[str]:
    """Ids of the asks that wait, for shell completion."""
    try:
        from supervisor.runtime.deciding import Desk

        context = open_context(prepare=False)
        return [
            p.request.id for p in Desk(context.parts, context.asks).pending() if p.request.id.startswith(incomplete)
        ]
    except Exception:  # noqa: BLE001  completion must never print a trace into somebody's prompt
        return []


def complete_profiles(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> Sequence[str]:
    """Profile names for shell completion."""
    try:
        return [f.name for f in open_context(prepare=False).profiles.all() if f.name.startswith(incomplete)]
    except Exception:  # noqa: BLE001  completion must never print a trace into somebody's prompt
        return []


F = TypeVar("F", bound=Callable[..., Any])


def agent_argument(*, many: bool = False, required: bool = True) -> Callable[[F], F]:
    """The `ID` argument: agent name, session id, entry id, or a unique prefix of them."""
    return click.argument(
        "ids" if many else "agent_id",
        metavar="ID..." if many else "ID",
        nargs=-1 if many else 1,
        required=required,
        shell_complete=complete_agents,
    )
