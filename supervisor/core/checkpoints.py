"""Checkpoints: how far an agent has come and what it must know again when it is resumed. Pure; kept in the identity."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from supervisor.core.entry import MAX_SUMMARY, Entry, ResumeContext
from supervisor.core.errors import BadInput, Refused
from supervisor.core.text import is_text
from supervisor.core.transitions import known_as

MAX_CHECKPOINT = 200
"""A name or a short phrase."""

MAX_POINTERS = 20
MAX_POINTER = 1_000


def checked(checkpoint: str | None, pointers: Sequence[str], summary: str | None) -> None:
    """Whether these can be kept.

    Raises:
        BadInput: nothing is given, or something is over its bound or holds control characters; names it.
    """
    if checkpoint is None and not pointers and summary is None:
        raise BadInput("there is nothing to keep", hint="Give --checkpoint, --pointer or --summary")
    if len(pointers) > MAX_POINTERS:
        raise BadInput(f"{len(pointers)} pointers are given, at most {MAX_POINTERS} are kept")
    texts = [("--checkpoint", checkpoint, MAX_CHECKPOINT), *(("--pointer", p, MAX_POINTER) for p in pointers)]
    for what, text, limit in texts:
        if text is not None and (not text.strip() or not text.isprintable()):
            raise BadInput(f"{what} {text[:60]!r} is empty or holds control characters")
        _bounded(what, text, limit)
    if summary is not None and (not is_text(summary) or "\0" in summary):
        raise BadInput("--summary is no valid text")
    _bounded("--summary", summary, MAX_SUMMARY)


def _bounded(what: str, text: str | None, limit: int) -> None:
    if text is not None and len(text) > limit:
        raise BadInput(f"{what} has {len(text)} characters, at most {limit} are kept")


def checkpointed(entry: Entry, *, checkpoint: str | None, pointers: Sequence[str], summary: str | None) -> Entry:
    """The entry with what is given kept in its identity; what is not given stays. Pointers are replaced as a whole.

    Raises:
        Refused: the agent cannot be resumed, so nobody would ever read it.
    """
    context = entry.agent.resume_context
    if context is None:
        raise Refused(
            f"{entry.name} cannot be resumed: a checkpoint would never be read",
            hint="Only agents whose profile has argv.resume can keep one",
        )
    kept: ResumeContext = replace(
        context,
        checkpoint=checkpoint if checkpoint is not None else context.checkpoint,
        pointers=tuple(pointers) if pointers else context.pointers,
        summary=summary if summary is not None else context.summary,
    )
    return known_as(entry, replace(entry.agent, resume_context=kept))
