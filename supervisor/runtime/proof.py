"""Proof that an agent is up, and in which session: its first output, its session file, the id it prints, its hook.

Owns nothing but the times of its looks; reads transcripts and session files, never writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from supervisor.core import transitions
from supervisor.core.entry import Entry, Running, grace_of, unconfirmed
from supervisor.core.errors import BadInput
from supervisor.core.ids import session_id
from supervisor.core.liveness import Now
from supervisor.core.timing import CAPTURE_TIMEOUT_MS, MS, TICK_MS
from supervisor.runtime.parts import Parts
from supervisor.runtime.proof_reader import ProofReader

LOOK_MS = TICK_MS // 5
"""How often an unproven agent is looked at; only for the seconds until it is up."""

_CLOCK_GRAIN_MS = 20
"""File times come from a coarser clock (a kernel tick) than ours."""


class Proof:
    """Looks for one agent's proof."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._told = ProofReader(parts)
        self._began: int | None = None

    def due(self, entry: Entry) -> bool:
        """Whether there is still something to learn. An orphan goes on telling which session it is in."""
        if not isinstance(entry.state, Running) and grace_of(entry) is None:
            return False
        return _unready(entry) or self._lacks_session(entry) or self._lacks_file(entry) or self.stirred(entry)

    def stirred(self, entry: Entry) -> bool:
        """Whether a hook or driver has told of a session since the last look."""
        return self._told.stirred(entry)

    def look(self, entry: Entry, env: Mapping[str, str], now: Now) -> Callable[[Entry], Entry] | None:
        """What was learned, as a move of the entry; None when nothing new."""
        if self._began is None:
            self._began = now.monotonic_ns
        head = b""
        if entry.output.transcript and (entry.plan.ready == "output" or self._lacks_session(entry)):
            head = self._parts.transcripts.head(entry.output.transcript, entry.generation.output_from)
        told = self._told.take(entry)
        said = captured(head, entry.plan.capture_key) if self._lacks_session(entry) else None
        session, file = (told.session, told.transcript) if told else (said, None)
        after = transitions.in_session(entry, session, file) if session else entry
        if self._lacks_file(after):
            file = self._find(after, env)
        wrote = self._wrote_session(after, file)
        proven = (entry.plan.ready == "output" and bool(head)) or wrote
        proven = proven or (entry.plan.ready == "session" and after.generation.session is not None)
        says = entry.plan.capture_key and entry.output.transcript
        if wrote and not (says or entry.generation.session):
            session = _stored(entry)  # it says nothing itself: that it writes into the file of this id is its proof
        if not (session or file or (proven and _unready(entry))):
            return None

        def move(current: Entry) -> Entry:
            if session:
                current = transitions.in_session(current, session, file)
            elif file:
                current = transitions.kept_in(current, file)
            return transitions.ready(current, now=now.wall_ms) if proven else current

        return move

    def _find(self, entry: Entry, env: Mapping[str, str]) -> str | None:
        session = _stored(entry) if entry.agent.resume_context else entry.session_id
        return self._parts.session_files.find(entry.plan.session_files, env, session)

    def _wrote_session(self, entry: Entry, found: str | None) -> bool:
        """The session file exists, and is this generation's work: an earlier one's proves nothing about a restart."""
        context = entry.agent.resume_context
        file = found or (context.session_file if context else None)
        shown = entry.plan.ready == "session_file" or (unconfirmed(entry) and not entry.output.transcript)
        if not shown or file is None or not isinstance(entry.state, Running):
            return False
        modified = self._parts.session_files.modified_ms(file)  # 0: a hook tells of it before it is there
        again = bool(entry.deaths or entry.generation.resumes)
        return modified > 0 and (not again or modified >= entry.state.since - _CLOCK_GRAIN_MS)

    def next_look(self, entry: Entry, now: Now) -> int | None:
        """When to look again: often at first, then at every tick, and not for ever."""
        if not self.due(entry):
            return None
        waited = self.waited_ms(now)
        if not _unready(entry) and waited > CAPTURE_TIMEOUT_MS:
            return None
        return now.monotonic_ns + (LOOK_MS if waited < 40 * TICK_MS else TICK_MS) * MS

    def waited_ms(self, now: Now) -> float:
        """Since the first look."""
        return (now.monotonic_ns - self._began) / MS if self._began is not None else 0.0

    def known_session(self, entry: Entry) -> str | None:
        """The session that the CLI knows already (it has proven to be in it, or its file was seen): it is resumed."""
        context = entry.agent.resume_context
        known = entry.generation.session or entry.generation.resumes or (context and context.session_file)
        return _stored(entry) if known else None

    def output_size(self, entry: Entry) -> int:
        """Where the output of the generation that is about to start will begin."""
        transcript = entry.output.transcript
        return (self._parts.transcripts.size(transcript) or 0) if transcript else 0

    def _lacks_session(self, entry: Entry) -> bool:
        """Its output tells, and has not yet."""
        return bool(entry.plan.capture_key and entry.output.transcript and entry.generation.session is None)

    def _lacks_file(self, entry: Entry) -> bool:
        """Also a CLI that cannot resume may prove itself up by its session file."""
        context = entry.agent.resume_context
        if context is None:
            return entry.plan.ready == "session_file" and _unready(entry)
        return bool(entry.plan.session_files and context.session_file is None)


def _unready(entry: Entry) -> bool:
    return isinstance(entry.state, Running) and entry.state.ready_at is None


def _stored(entry: Entry) -> str | None:
    """The CLI's session on record."""
    return entry.agent.resume_context.provider_session_id if entry.agent.resume_context else None


def captured(head: bytes, key: str | None) -> str | None:
    """The session id in the first JSON line that has `key`; hostile or malformed ids are not taken."""
    if key is None:
        return None
    for line in head.split(b"\n")[:-1]:
        try:
            raw = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        value = raw.get(key) if isinstance(raw, dict) else None
        if isinstance(value, str):
            try:
                return session_id(value)
            except BadInput:
                return None
    return None
