"""`supervisor answer`: allow or deny one ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from supervisor.cli.common import complete_asks, json_option, note, open_context, print_json, say

if TYPE_CHECKING:
    from supervisor.runtime.deciding import Outcome


@click.command("answer", epilog="Example: supervisor answer perm-3f2a deny --reason 'not on a Friday'")
@click.argument("ask_id", metavar="ASK", shell_complete=complete_asks)
@click.argument("decision", type=click.Choice(["allow", "deny"]))
@click.option("--reason", metavar="TEXT", help="Goes to the agent with a denial.")
@click.option("--remember", type=click.Choice(["child", "session"]), help="Allow the same for this child, or for all.")
@click.option("--nonce", help="Answer only the ask that was seen (from asks --json).")
@json_option
def command(
    ask_id: str, decision: str, reason: str | None, remember: str | None, nonce: str | None, as_json: bool
) -> int:
    """Allow or deny an ask, by its id or a unique prefix. The first answer stands; a late one changes nothing.

    Called from inside an agent it is that agent that answers: asks of its descendants only, and no more than it may do.
    """
    from supervisor.core.errors import NotFound
    from supervisor.core.text import one_line
    from supervisor.runtime.agent_answers import calling_agent, check_authority
    from supervisor.runtime.ask_why import AskWhy
    from supervisor.runtime.deciding import Desk, Outcome, person

    context = open_context()
    desk = Desk(context.parts, context.asks)
    entries = context.store.list()
    try:
        item = desk.find(ask_id)
    except NotFound:
        ended = AskWhy(context.parts, context.asks, entries).ask(ask_id)  # one that nobody ever asked stays not found
        late = Outcome("already_answered" if ended.state in ("allowed", "denied") else "gone", ended.why)
        return _not_answered(ended.ask, late, as_json=as_json)
    caller = calling_agent(context, entries)
    if caller is not None:
        check_authority(context, caller, item, approve=decision == "allow", remember=bool(remember), entries=entries)
    outcome = desk.answer(
        item,
        approved=decision == "allow",
        reason=reason,
        remember=remember,  # type: ignore[arg-type]  # the option's choice
        nonce=nonce,
        who=caller.name if caller else person(),
        agent=caller is not None,
    )
    if outcome.what != "applied":
        return _not_answered(item.request.id, outcome, as_json=as_json)
    if as_json:
        print_json({"ask": item.request.id, "result": outcome.what, "detail": outcome.detail})
    else:
        done = "allowed" if decision == "allow" else "denied"
        ask = item.request
        what = f"{one_line(ask.agent_name, 40)} {one_line(ask.surface or '-', 40)} {one_line(ask.value or '', 100)}"
        say(f"{done}: {what}")
    return 0


def _not_answered(ask: str, outcome: Outcome, *, as_json: bool) -> int:
    if as_json:
        print_json({"ask": ask, "result": outcome.what, "detail": outcome.detail})
    note(f"{ask} was not answered: {outcome.detail}")
    return 1
