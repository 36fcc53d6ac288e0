"""The demo agent's command line: words in, options out.

Owns nothing. Never reads the environment, a file or the terminal, and never exits: the caller does.
"""

from typing import NamedTuple

USAGE = "usage: python -P -m supervisor.demo [--session-id ID | --resume ID] [--model M] [--interactive] [-- PROMPT]"

_WITH_VALUE = ("--session-id", "--resume", "--model")


class Options(NamedTuple):
    session_id: str | None = None
    resume: str | None = None
    model: str | None = None
    interactive: bool = False
    prompt: str | None = None  # None: none on the command line, read it from stdin


class Help(NamedTuple):
    """The user asked how it is used."""


class Misused(NamedTuple):
    why: str


def parse(words: list[str]) -> Options | Help | Misused:
    """Read the words of the command line; everything after the first `--` is the prompt."""
    end = words.index("--") if "--" in words else len(words)
    prompt = " ".join(words[end + 1 :]) if words[end + 1 :] else None
    given: dict[str, str] = {}
    interactive = False
    rest = words[:end]
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name in ("-h", "--help") and not equals:
            return Help()
        if name == "--interactive" and not equals:
            interactive = True
            continue
        if name not in _WITH_VALUE:
            return Misused(f"{name!r} is no option; a prompt goes after --")
        if name in given:
            return Misused(f"{name} is given twice")
        if not equals:
            if not rest or rest[0].startswith("--"):  # `--name=--odd` still can say such a value
                return Misused(f"{name} needs a value")
            value = rest.pop(0)
        given[name] = value
    if "--session-id" in given and "--resume" in given:
        return Misused("--session-id starts a conversation and --resume goes on with one: give one of them")
    return Options(
        session_id=given.get("--session-id"),
        resume=given.get("--resume"),
        model=given.get("--model"),
        interactive=interactive,
        prompt=prompt,
    )
