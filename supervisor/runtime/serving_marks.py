"""The serving heartbeats of a keeper's sessions: written while somebody can decide, removed at a clean end.

Owns the marks; the `serving/` folder itself is never removed.
"""

from __future__ import annotations

import os

from supervisor.adapters.atomic_file import read_bounded
from supervisor.core.answering import Mode, Presence, serves
from supervisor.core.entry import KeeperRef
from supervisor.core.liveness import Now
from supervisor.core.serving import ServingBeat, encode_beat, parse_beat
from supervisor.core.timing import MS
from supervisor.runtime.ask_facts import AskFacts, AskParts
from supervisor.runtime.logs import warn

_MAX_MARK = 4096
"""Bytes of a mark, a pi's as well: it is a small record."""


class ServingMarks:
    """Which sessions serve."""

    def __init__(self, asks: AskParts, keeper: KeeperRef, facts: AskFacts) -> None:
        self._asks = asks
        self._keeper = keeper
        self._facts = facts
        self._serving: set[str] = set()
        self._pruned: set[str] = set()

    def is_serving(self, session_id: str) -> bool:
        """Whether the mark is up."""
        return session_id in self._serving

    def serve(self, session_id: str, mode: Mode, presence: Presence, now: Now) -> bool:
        """Renew the mark, or take it down when nobody can decide any more; whether it is up."""
        if not serves(mode, presence):
            self.stop(session_id, now)
            return False
        try:
            self._asks.files.beat(session_id, encode_beat(serving_beat(session_id, self._keeper, now)))
        except OSError as error:
            warn("the serving heartbeat could not be written", session=session_id, why=str(error))
            return self.is_serving(session_id)
        if session_id not in self._serving:
            self._serving.add(session_id)
            self._asks.review.append("serving_started", {"session": session_id, "mode": mode}, at=now.wall_ms)
            self._prune(session_id, now)
        return True

    def stop(self, session_id: str, now: Now) -> None:
        """Take the mark down, once."""
        if session_id in self._serving:
            self._serving.remove(session_id)
            self._asks.files.stop_serving(session_id)
            self._asks.review.append("serving_stopped", {"session": session_id}, at=now.wall_ms)

    def _prune(self, session_id: str, now: Now) -> None:
        """At a session's first mark: marks of dead servers, temp files of dead writers, answers that nobody fetched.

        A stale mark may come back and stays.
        """
        if session_id in self._pruned:
            return
        self._pruned.add(session_id)
        for path in self._asks.files.serving_files():
            try:
                beat = parse_beat(read_bounded(path, _MAX_MARK) or b"")
                if beat is None or self._facts.judge(beat, now).state == "dead_pid":
                    os.unlink(path)
            except OSError:
                continue
        self._asks.files.sweep_temps(session_id, self._facts.alive)
        old = now.wall_ms - self._asks.settings().timeout_ms  # whoever waited for it has given up by then
        self._asks.files.sweep_responses(session_id, before_ns=old * MS)


def serving_beat(session_id: str, keeper: KeeperRef, now: Now) -> ServingBeat:
    """A mark of a process as of now: it serves the session, attends it, or looks at the ask of that id."""
    key, machine = keeper.process.key, now.machine
    return ServingBeat(
        session_id=session_id,
        pid=key.pid,
        updated_at=now.wall_ms,
        start_ticks=key.start_ticks,
        boot_id=machine.boot_id,
        host_id=machine.host_id,
        pid_namespace=machine.pid_namespace,
        monotonic_ns=now.monotonic_ns,
        keeper_id=keeper.keeper_id,
    )
