"""Every command line that a page shows can be typed: the command exists, and has the options that it is shown with."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from supervisor.cli.main import cli
from tests.unit.test_docs import PAGES, ROOT, options, page

BLOCK = re.compile(r"^ *```(?:console|sh|text)$(.*?)^ *```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`(supervisor [^`]+)`")
CALL = re.compile(r"^\s*(?:\$ )?(supervisor(?: .*|$))")
END = {"--", "&&", "||", ";", "|", ">", "<", "#", "&"}
NO_CALLS = ("supervisor [", "supervisor keeper ")
"""A line of usage, and the title of a keeper's process."""
LAST = re.compile(r"[;)]$")


def shown(text: str) -> Iterator[str]:
    """The calls in blocks of code that are typed, each on one line, and those in the text."""
    blocks = BLOCK.findall(text)
    for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
        if found := CALL.search(line):
            yield found[1]
    yield from (re.sub(r"\s+", " ", span) for span in SPAN.findall(BLOCK.sub("", text)))


def words(call: str) -> list[str]:
    """Ours, up to where the agent's or the shell's begin. An open quote goes on in the next line."""
    try:
        split = shlex.split(call, comments=True)
    except ValueError:
        split = shlex.split(call[: re.search(r"['\"]", call).start()])  # type: ignore[union-attr]
    ours = next((n for n, word in enumerate(split) if word in END or word.startswith(("2>", ">"))), len(split))
    return [LAST.sub("", word) for word in split[1:ours]]


def problem(call: str) -> str | None:
    """What is wrong with it."""
    context, command = click.Context(cli), cli
    rest = words(call)
    while rest and isinstance(command, click.Group) and not rest[0].startswith("-"):
        found = command.get_command(context, rest[0])
        if found is None:
            return f"there is no command {rest[0]}"
        command, rest = found, rest[1:]  # type: ignore[assignment]
    given = {word.partition("=")[0] for word in rest if word.startswith("-") and word != "-"}
    unknown = given - options(command) - {"--help", "--version", "--debug"}
    return f"it has no {', '.join(sorted(unknown))}" if unknown else None


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_that_a_page_shows_can_be_typed(path: Path) -> None:
    calls = (call for call in shown(page(path)) if not call.startswith(NO_CALLS))
    wrong = {call: why for call in calls if (why := problem(call))}
    assert not wrong


def test_a_command_or_option_that_does_not_exist_is_noticed() -> None:
    bad = ["supervisor lanch demo", "supervisor launch demo --detatch", "supervisor profiles shwo"]
    assert [problem(call) is None for call in [*bad, "supervisor launch demo --detach -- --not-ours"]] == [
        False
    ] * 3 + [True]


def test_calls_are_found_in_blocks_and_in_the_text() -> None:
    calls = list(shown("a `supervisor ps` b\n```console\n$ supervisor wait a && supervisor ps\nps\n```\n"))
    assert calls == ["supervisor wait a && supervisor ps", "supervisor ps"]
