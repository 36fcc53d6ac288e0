"""Proof that an agent is up, and which session it is: its first output, its session file, the id it prints.

Owns nothing but the times of its looks; reads transcripts and session files, never writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace

from supervisor.core import transitions
from supervisor.core.entry import Entry, Running
from supervisor.core.errors import BadInput
from supervisor.core.ids import session_id
from supervisor.core.liveness import Now
from supervisor.core.timing import CAPTURE_TIMEOUT_MS, MS, TICK_MS
from supervisor.runtime.parts import Parts

LOOK_MS = TICK_MS // 5
"""How often an unproven agent is looked at; only for the seconds until it is up."""

_CLOCK_GRAIN_MS = 20
"""File times come from a coarser clock (a kernel tick) than ours."""


class Proof:
    """Looks for one agent's proof."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._began: int | None = None

    def due(self, entry: Entry) -> bool:
        """Whether there is still something to learn."""
        if not isinstance(entry.state, Running):
            return False
        return entry.state.ready_at is None or self._lacks_id(entry) or self._lacks_file(entry)

    def look(self, entry: Entry, env: Mapping[str, str], now: Now) -> Callable[[Entry], Entry] | None:
        """What was learned, as a move of the entry; None when nothing new."""
        if self._began is None:
            self._began = now.monotonic_ns
        head = b""
        if entry.output.transcript and (entry.plan.ready == "output" or self._lacks_id(entry)):
            head = self._parts.transcripts.head(entry.output.transcript)
        found_id = captured(head, entry.plan.capture_key) if self._lacks_id(entry) else None
        file = self._parts.session_files.find(entry.plan.session_files, env) if self._lacks_file(entry) else None
        proven = (entry.plan.ready == "output" and bool(head)) or self._wrote_session(entry, file)
        if not (found_id or file or (proven and _unready(entry))):
            return None

        def move(current: Entry) -> Entry:
            context = current.agent.resume_context
            if context and (found_id or file):
                context = replace(
                    context,
                    provider_session_id=found_id or context.provider_session_id,
                    session_file=file or context.session_file,
                )
                current = replace(current, agent=replace(current.agent, resume_context=context))
            return transitions.ready(current, now=now.wall_ms) if proven else current

        return move

    def _wrote_session(self, entry: Entry, found: str | None) -> bool:
        """The session file exists, and is this generation's work: an earlier one's proves nothing about a restart."""
        context = entry.agent.resume_context
        file = found or (context.session_file if context else None)
        if entry.plan.ready != "session_file" or file is None or not isinstance(entry.state, Running):
            return False
        return not entry.deaths or self._parts.session_files.modified_ms(file) >= entry.state.since - _CLOCK_GRAIN_MS

    def next_look(self, entry: Entry, now: Now) -> int | None:
        """When to look again: often at first, then at every tick, and not for ever."""
        if not self.due(entry):
            return None
        waited = (now.monotonic_ns - (self._began or now.monotonic_ns)) / MS
        if not _unready(entry) and waited > CAPTURE_TIMEOUT_MS:
            return None
        return now.monotonic_ns + (LOOK_MS if waited < 40 * TICK_MS else TICK_MS) * MS

    def known_session(self, entry: Entry) -> str | None:
        """The session that the CLI knows already (its file was seen, or it printed the id), so that it is resumed."""
        context = entry.agent.resume_context
        if context is None or not (context.session_file or entry.plan.capture_key):
            return None
        return context.provider_session_id

    def prompt(self, path: str | None) -> str:
        """The prompt's text, for a CLI that takes it on its command line."""
        if path is None:
            return ""
        with open(path, "rb") as file:
            return file.read().decode(errors="surrogateescape")

    def _lacks_id(self, entry: Entry) -> bool:
        context = entry.agent.resume_context
        return bool(entry.plan.capture_key and context and context.provider_session_id is None)

    def _lacks_file(self, entry: Entry) -> bool:
        """Also a CLI that cannot resume may prove itself up by its session file."""
        context = entry.agent.resume_context
        if context is None:
            return entry.plan.ready == "session_file" and _unready(entry)
        return bool(entry.plan.session_files and context.session_file is None)


def _unready(entry: Entry) -> bool:
    return isinstance(entry.state, Running) and entry.state.ready_at is None


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
