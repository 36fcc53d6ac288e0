"""The guide for agents names only what exists, and is short enough for a prompt."""

from __future__ import annotations

import re
import shlex

import click

from supervisor.cli.commands.guide import TEXT
from supervisor.cli.main import cli


def commands() -> list[list[str]]:
    """Every command line of the guide, without its comment."""
    found = re.findall(r"(?:^|: )(?:  )?supervisor ([a-z].*)$", TEXT, re.MULTILINE)
    return [shlex.split(re.split(r"\s{3,}", line)[0]) for line in found]


def test_every_command_and_option_of_the_guide_exists() -> None:
    context = click.Context(cli)
    assert len(commands()) >= 12
    for words in commands():
        command = cli.get_command(context, words[0])
        assert command is not None, words
        if isinstance(command, click.Group):
            command = command.commands[words.pop(1)]
        options = words[1 : words.index("--")] if "--" in words else words[1:]
        known = {o for p in command.params for o in p.opts}
        assert {o for o in options if o.startswith("-")} <= known, words


def test_it_is_short_and_plain() -> None:
    lines = TEXT.splitlines()
    assert len(lines) < 60
    assert max(map(len, lines)) <= 130
    assert TEXT.isascii()


def test_its_examples_are_commands_that_parse() -> None:
    """Names stand for agents; nothing is run."""
    for words in commands():
        command = cli.get_command(click.Context(cli), words[0])
        assert command is not None
        command.make_context(words[0], words[1:], resilient_parsing=True)
