"""The command line of the hook: words in, options out. Pure; argparse would cost a third of the whole run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from supervisor.core.hook_settings import DEADLINES, MAX_DEADLINE

USAGE = f"usage: supervisor-hook {{{'|'.join(DEADLINES)}}} [--deadline SECONDS]   (reads a hook event as JSON on stdin)"


class Options(NamedTuple):
    """Which CLI runs us, and by when (seconds from our start) it has an answer."""

    cli: str
    deadline: float


class Usage(NamedTuple):
    """Nothing to run: the usage was asked for (`why` is empty), or the command line makes no sense."""

    why: str = ""


def parse(words: Sequence[str]) -> Options | Usage:
    """Read the command line."""
    if any(word in ("--help", "-h") for word in words):
        return Usage()
    cli, deadline = "", 0.0
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, given = word.partition("=")
        if name == "--deadline":
            if not equals and not rest:
                return Usage("--deadline takes a number of seconds")
            seconds = _seconds(given if equals else rest.pop(0))
            if seconds is None:
                return Usage(f"--deadline takes a number of seconds above 0, at most {MAX_DEADLINE:.0f}")
            deadline = seconds
        elif word.startswith("-"):
            return Usage(f"there is no option {word[:60]!r}")
        elif cli:
            return Usage(f"{word[:60]!r} is one word too many")
        else:
            cli = word
    if cli not in DEADLINES:
        return Usage(f"there is no CLI {cli[:60]!r}" if cli else "the CLI is missing")
    return Options(cli, deadline or DEADLINES[cli])


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 < seconds <= MAX_DEADLINE else None  # false for nan too
