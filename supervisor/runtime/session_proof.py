"""The proof of the session that an agent is in: written by its hook or driver at each session start, for the keeper.

Owns `<home>/proofs/<entry id>.json`. Decides nothing: whether to believe it (the pid is in it) is the keeper's.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from supervisor.adapters.atomic_file import read_bounded, write_atomic
from supervisor.adapters.bells import BellFiles
from supervisor.runtime.targets import read_session

if TYPE_CHECKING:
    from supervisor.core.ports import Clock

_ENTRY = re.compile(r"[0-9a-f]{8,64}\Z")


def write_proof(
    session: str, *, source: str, transcript: str | None, env: Mapping[str, str], pid: int, clock: Clock
) -> str | None:
    """Write it and ring the keeper; what was in the way, if something was. `pid`: the CLI, or what speaks for it."""
    home, entry = env.get("SUPERVISOR_HOME", ""), env.get("SUPERVISOR_ENTRY_ID", "")
    if not os.path.isabs(home) or not _ENTRY.match(entry):
        return "SUPERVISOR_HOME or SUPERVISOR_ENTRY_ID is missing or malformed"
    path = proof_path(home, entry)
    before = proven_session(path)
    body = {
        "sessionId": session,
        "source": source,
        "transcriptPath": transcript,
        "at": clock.wall_ms(),
        "pid": pid,
    }
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(os.path.dirname(path), 0o700)
        write_atomic(path, json.dumps(body, separators=(",", ":")).encode())
    except OSError as error:
        return f"{path} could not be written: {error.strerror}"
    _ring_keeper(home, entry, (env.get("SUPERVISOR_SESSION_ID", ""), before, session))
    return None


def proof_path(home: str, entry: str) -> str:
    """Where the proof of an entry stands."""
    return os.path.join(home, "proofs", f"{entry}.json")


def proven_session(path: str) -> str:
    """The session of an earlier proof; empty when there is none."""
    try:
        raw = json.loads(read_bounded(path, 16 * 1024) or b"{}")
    except (OSError, ValueError, RecursionError):
        return ""
    session = raw.get("sessionId") if isinstance(raw, dict) else None
    return session if isinstance(session, str) else ""


def _ring_keeper(home: str, entry: str, sessions: tuple[str, ...]) -> None:
    """The entry is on record under one of these sessions; without an echo the keeper's own look finds the proof."""
    for session in dict.fromkeys(s for s in sessions if s):
        record = read_session(home, session)
        keeper = record.get("keeper") if record and record.get("entryId") == entry else None
        name = keeper.get("keeperId") if isinstance(keeper, dict) else None
        if isinstance(name, str):
            try:
                BellFiles(os.path.join(home, "run", "bells")).ring(name)
            except (OSError, ValueError):  # no bell, or a name that is none
                pass
            return
