"""The proof of the session that an agent is in: written by its hook or driver at each session start, for the keeper.

Owns `<home>/proofs/<entry id>.json`. Decides nothing: whether to believe it is the keeper's (`core/session_proof.py`).
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from supervisor.adapters.atomic_file import write_atomic
from supervisor.adapters.bells import BellFiles
from supervisor.adapters.proc_stat import read_stat
from supervisor.core.session_proof import MAX_ABOVE, Above, SessionProof, encode_proof
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
    proof = SessionProof(
        session=session,
        source=source,
        transcript=transcript,
        generation=env.get("SUPERVISOR_GENERATION", ""),
        own_session=os.getsid(0),
        above=tuple(above(pid)),
        at=clock.wall_ms(),
    )
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(os.path.dirname(path), 0o700)
        write_atomic(path, encode_proof(proof))
    except OSError as error:
        return f"{path} could not be written: {error.strerror}"
    _ring_keeper(home, entry, env.get("SUPERVISOR_SESSION_ID", ""))
    return None


def proof_path(home: str, entry: str) -> str:
    """Where the proof of an entry stands."""
    return os.path.join(home, "proofs", f"{entry}.json")


def above(pid: int) -> Iterator[Above]:
    """The process and its ancestors, nearest first. Without /proc only the pid is known."""
    for number in range(MAX_ABOVE):
        if pid <= 1:
            return
        fields = read_stat(pid)
        if fields is None:
            if number == 0:
                yield Above(pid, 0, 0)
            return
        yield Above(pid, int(fields[19]), int(fields[3]))
        pid = int(fields[1])


def _ring_keeper(home: str, entry: str, session: str) -> None:
    """Without an echo the keeper's own look finds the proof."""
    record = read_session(home, session) if session else None
    keeper = record.get("keeper") if record and record.get("entryId") == entry else None
    name = keeper.get("keeperId") if isinstance(keeper, dict) else None
    if isinstance(name, str):
        try:
            BellFiles(os.path.join(home, "run", "bells")).ring(name)
        except (OSError, ValueError):  # no bell, or a name that is none
            pass
