"""`supervisor ask`: ask for a permission, as a script or an agent."""

from __future__ import annotations

import sys

import click

from supervisor.cli.common import json_option, note, print_json


@click.command(
    "ask",
    epilog="Example: supervisor ask --tool bash --value 'rm -rf build' && rm -rf build   "
    "(exit codes: 0 allowed, 1 denied, 4 nobody serving)",
)
@click.option("--tool", required=True, help="What is to be used, e.g. bash, write, webfetch.")
@click.option("--value", required=True, help="On what: the command, path or address.")
@click.option("--input", "tool_input", metavar="JSON", help="The whole input of the tool, for people to read.")
@click.option("--to", "explicit", metavar="SESSION", help="Ask this session [default: the parent on record].")
@json_option
def command(tool: str, value: str, tool_input: str | None, explicit: str | None, as_json: bool) -> int:
    """Ask for a permission and wait for the answer.

    Goes to the parent of the agent that runs it. Allowed: exit 0. Denied: exit 1, with the reason. Nobody there to
    decide: exit 4 within about two seconds, with who, since when, and what to do; that is never a user's refusal.
    """
    import json
    import time

    from supervisor.core.errors import EXIT_NOBODY_SERVING, UsageError
    from supervisor.runtime.ask_call import ask
    from supervisor.runtime.compose import from_environment

    parsed = None
    if tool_input is not None:
        try:
            parsed = json.loads(tool_input)
        except (ValueError, RecursionError):
            raise UsageError("--input is no JSON") from None
    context = from_environment()
    env = {**context.env, "SUPERVISOR_HOME": context.places.home}

    def looked(looking: bool) -> None:
        at = time.strftime("%H:%M:%S")
        note(f"being looked at since {at}, the timeout waits" if looking else f"looked at no more since {at}")

    decision = ask(env, tool=tool, value=value, cwd=context.cwd, tool_input=parsed, explicit=explicit, looked=looked)
    if as_json:
        print_json(
            {
                "approved": decision.approved,
                "state": decision.state,
                "reason": decision.reason,
                "code": decision.code,
                "unavailable": decision.unavailable,
                "forSession": decision.for_session,
                "responder": decision.responder,
                "decidedBy": decision.decided_by,
            }
        )
    if not decision.approved:
        note(f"{'nobody decided' if decision.unavailable else 'denied'}: {decision.reason or 'no reason was given'}")
    sys.stdout.flush()
    if decision.approved:
        return 0
    return EXIT_NOBODY_SERVING if decision.unavailable else 1
