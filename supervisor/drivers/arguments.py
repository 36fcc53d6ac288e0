"""The command line of a driver: words in, options out. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

USAGE = (
    "usage: python -m supervisor.drivers KIND [--session-id ID | --resume ID] [--model NAME]\n"
    "       [--add-dir PATH]… [--mcp-server JSON] -- COMMAND…\n"
    "       (reads the prompt on standard input)"
)
_OPTIONS = {"--session-id": "session", "--resume": "resume", "--model": "model", "--mcp-server": "mcp"}


class Options(NamedTuple):
    """What is wanted."""

    kind: str
    argv: tuple[str, ...]
    session: str | None = None
    resume: str | None = None
    model: str | None = None
    paths: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()


class Usage(NamedTuple):
    """Nothing to run: the usage was asked for (`why` is empty), or the command line makes no sense."""

    why: str = ""


def parse(words: Sequence[str], *, kinds: Sequence[str]) -> Options | Usage:
    """Read the command line. Everything after the first `--` is the CLI's."""
    if "--" not in words:
        return Usage() if {"--help", "-h"} & set(words) else Usage("the CLI's command is missing: -- COMMAND…")
    at = list(words).index("--")
    ours, argv = list(words[:at]), tuple(words[at + 1 :])
    found: dict[str, str] = {}
    paths: list[str] = []
    kind = ""
    while ours:
        word = ours.pop(0)
        if word in ("--help", "-h"):
            return Usage()
        if word in _OPTIONS or word == "--add-dir":
            if not ours or not ours[0]:
                return Usage(f"{word} needs a value")
            value = ours.pop(0)
            if word == "--add-dir":
                paths.append(value)
            else:
                found[_OPTIONS[word]] = value
        elif word.startswith("-"):
            return Usage(f"there is no option {word[:60]!r}")
        elif kind:
            return Usage(f"{word[:60]!r} is one word too many")
        else:
            kind = word
    if kind not in kinds:
        return Usage(f"there is no kind {kind[:60]!r} (there are {', '.join(kinds)})")
    if not argv:
        return Usage("the CLI's command is missing: -- COMMAND…")
    if "session" in found and "resume" in found:
        return Usage("--session-id and --resume exclude each other")
    mcp = _words(found.pop("mcp", "[]"))
    if mcp is None:
        return Usage("--mcp-server is no JSON list of words")
    return Options(kind, argv, **found, paths=tuple(paths), mcp=mcp)


def _words(text: str) -> tuple[str, ...] | None:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return tuple(raw) if isinstance(raw, list) and all(isinstance(w, str) for w in raw) else None
