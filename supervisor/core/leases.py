"""Who holds a session of a CLI. The records are the lease: there is no file of its own to go stale.

A session is held from the intent on until its agent is gone; the death of the keeper alone frees nothing. Judged
under the lock of names, so that of two who ask at once one finds the other's intent. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from supervisor.core.entry import Closed, Entry, is_live

Alive = Callable[[Entry], bool | None]
"""Whether the recorded process of an entry lives: True, False for certainly gone, None when it cannot be judged."""


def holds(entry: Entry, alive: bool | None) -> bool:
    """Whether an agent may still be in its session. On doubt it is."""
    if is_live(entry) or alive:
        return True
    if alive is False or entry.generation.process is None:
        return False
    state = entry.state
    return not (isinstance(state, Closed) and state.hand_off.outcome != "unknown" and not state.hand_off.survivors)


def owner_of(session: str, entries: Iterable[Entry], alive: Alive) -> Entry | None:
    """The agent that holds this session of a CLI, whatever profile it was launched by.

    The id alone is compared: two profiles of one CLI (one extends the other) share its sessions.
    """
    named = (e for e in entries if session in sessions_of(e) | _launched_into(e))
    return next((e for e in named if holds(e, alive(e))), None)


def sessions_of(entry: Entry) -> set[str]:
    """The sessions that an agent is or may come to be in."""
    context, generation = entry.agent.resume_context, entry.generation
    known = (context.provider_session_id if context else None, generation.session, generation.resumes)
    return {s for s in known if s}


def _launched_into(entry: Entry) -> set[str]:
    """What may be a session among the arguments of its launch, until it has proven which one it is in."""
    proven = entry.generation.session or entry.generation.resumes
    return set() if proven else _parts(entry.plan.argv)


def _parts(words: Iterable[str]) -> set[str]:
    return {part for word in words for part in (word, word.partition("=")[2])}


def owner_of_words(words: Sequence[str], entries: Sequence[Entry], alive: Alive) -> Entry | None:
    """The agent that holds a session which is named among the arguments of a launch (`-- --resume ID`)."""
    named = _parts(words) & {s for e in entries for s in sessions_of(e)}
    return next((owner for s in sorted(named) if (owner := owner_of(s, entries, alive)) is not None), None)
