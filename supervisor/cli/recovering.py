"""What is said of a recovery, and the questions that it asks. Decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from supervisor.cli.common import note, print_json_line

if TYPE_CHECKING:
    from supervisor.core.recovery import Found
    from supervisor.runtime.compose import Context
    from supervisor.runtime.recovering import Event, Recovery


def say(event: Event) -> None:
    """One line for people; trouble goes to standard error."""
    from supervisor.core.text import printable

    if event.event in ("failed", "fenced", "unconfirmed"):
        note(line_of(event))
    else:
        click.echo(printable(line_of(event)))


def line_of(event: Event) -> str:
    """An event in words."""
    todo = f". {event.hint}" if event.hint else ""
    return {
        "handed_off": f"{event.name}: {event.why}",
        "adopted": f"{event.name}: adopted",
        "resumed": f"{event.name}: resumed",
        "released": f"{event.name}: asked to clean up and end",
        "offered": f"{event.name}: {_state(event)}, {event.why}; {event.command}",
        "left": f"{event.name}: left as it is",
        "dropped": f"{event.name}: offered no more (supervisor resume {event.name} brings it back)",
        "failed": f"{event.name} was not resumed: {event.why}",
        "unconfirmed": f"{event.name} runs in its pane, but {event.why}; see: supervisor why {event.name}",
        "fenced": f"{event.name} is not recovered: {event.why} [{event.fence}]{todo}",
    }[event.event]


def _state(event: Event) -> str:
    return "lives without a parent" if event.kind == "live" else "can be resumed"


def say_json(event: Event) -> None:
    """One JSON object per line."""
    print_json_line(event)


def exit_code(events: Sequence[Event]) -> int:
    """1 when something failed or has not confirmed its session, else 5 when a fence stopped something, else 0."""
    from supervisor.core.errors import EXIT_DONE, EXIT_FENCED, EXIT_REFUSED

    kinds = {e.event for e in events}
    return EXIT_REFUSED if kinds & {"failed", "unconfirmed"} else EXIT_FENCED if "fenced" in kinds else EXIT_DONE


def offer_all(
    context: Context, recovery: Recovery, others: Sequence[Found], *, later: list[Found] | None = None
) -> None:
    """One question after the other, each about what is still so; an empty line leaves the agent as it is.

    `later` takes what is to be below a session that is only about to start.

    Raises:
        Fenced: the session in whose name is asked has ended meanwhile.
        click.Abort: the input has ended, or Ctrl-C.
    """
    from supervisor.core.text import printable
    from supervisor.runtime.recovering import recover_own
    from supervisor.runtime.scan import scan

    total = len(others)
    for number, found in enumerate(others, start=1):
        fresh = _again(found, scan(context.parts), recovery)
        if fresh is None:
            continue  # it was recovered meanwhile, perhaps by its own parent that has just been resumed
        _show(fresh, f"{number} of {total}")
        choice = _ask(fresh, adopts=later is not None or recovery.active is not None)
        if choice == "q":
            return
        if later is not None and (choice == "a" or (choice == "r" and fresh.entry.parent is not None)):
            later.append(fresh)
            click.echo(printable(f"{fresh.entry.name}: seen to as soon as the agent runs"))
            continue
        before = len(recovery.resumed)
        _carry_out(recovery, choice, fresh)
        for resumed in recovery.resumed[before:]:
            recovery.events += recover_own(context, resumed, say)


def _carry_out(recovery: Recovery, choice: str, found: Found) -> None:
    act = {
        "r": recovery.resume,
        "d": recovery.drop,
        "a": recovery.adopt,
        "c": recovery.release,
        "l": recovery.leave,
    }
    act[choice](found)


def _again(found: Found, seen: object, recovery: Recovery) -> Found | None:
    from supervisor.core.recovery import find
    from supervisor.runtime.scan import Scan

    assert isinstance(seen, Scan)
    now = find(seen.entries, seen.judgements, active=recovery.active, tasks=())
    return next((f for f in now if f.entry.entry_id == found.entry.entry_id), None)


def _show(found: Found, which: str) -> None:
    from supervisor.core.text import printable

    entry = found.entry
    context = entry.agent.resume_context
    facts = [
        ("agent", f"{entry.name} ({entry.plan.profile}), {'lives' if found.kind == 'live' else 'dead'}, {which}"),
        ("why", found.evidence),
        ("task", " ".join(t for t in (entry.task_ref, entry.task_summary) if t)),
        ("folder", entry.plan.cwd),
        ("checkpoint", context.checkpoint if context else None),
    ]
    click.echo()
    for label, value in facts:
        if value:
            click.echo(printable(f"{label:<11}{value}"))


def _ask(found: Found, *, adopts: bool) -> str:
    """`r`esume, `d`rop, `a`dopt, `c`lean up, `l`eave or `q`: leave all."""
    choices = {"l": "leave", "q": "leave all"}
    if found.kind == "dead" and found.fence is None:
        choices = {"r": "resume in the background", "d": "drop", **choices}
    elif found.kind == "live":
        choices = {"c": "clean up", **choices}
        if adopts:
            choices = {"a": "adopt", **choices}
    if found.fence is not None:
        click.echo(f"{'cannot':<11}{found.fence.why}")
    prompt = ", ".join(f"[{key}] {what}" for key, what in choices.items())
    return str(click.prompt(prompt, type=click.Choice(list(choices)), default="l", show_choices=False))
