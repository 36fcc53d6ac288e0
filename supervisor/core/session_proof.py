"""What a hook or driver writes when its CLI starts a session, and whether it is believed. Pure, stdlib only."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from supervisor.core.errors import BadInput
from supervisor.core.ids import session_id

MAX_PROOF = 16 * 1024
"""Bytes; a longer file is none of ours."""

MAX_ABOVE = 8
"""Ancestors that are noted: the CLI, a wrapper, a shell between it and us."""

MAX_PATH = 4096


class Above(NamedTuple):
    """The writer or an ancestor. `start_ticks` and `session` (of the kernel, not of the CLI) are 0 if not known."""

    pid: int
    start_ticks: int
    session: int


class SessionProof(NamedTuple):
    """The CLI is in `session` from now on. `generation` is the nonce in the writer's environment.

    `above`: a driver itself, or who started the hook, then its ancestors; `own_session`: the writer's, of the kernel.
    """

    session: str
    source: str
    transcript: str | None
    generation: str
    own_session: int
    above: tuple[Above, ...]
    at: int = 0


def encode_proof(proof: SessionProof) -> bytes:
    """As it is written."""
    body = {
        "sessionId": proof.session,
        "source": proof.source,
        "transcriptPath": proof.transcript,
        "generation": proof.generation,
        "ownSession": proof.own_session,
        "above": [list(one) for one in proof.above],
        "at": proof.at,
    }
    return json.dumps(body, separators=(",", ":")).encode()


def parse_proof(data: bytes) -> SessionProof | None:
    """As it was written; None for anything else."""
    try:
        raw = json.loads(data)
        above = tuple(Above(*map(_whole, one)) for one in raw["above"])
        proof = SessionProof(
            session=session_id(raw["sessionId"]),
            source=str(raw.get("source"))[:64],
            transcript=_path(raw.get("transcriptPath")),
            generation=str(raw["generation"]),
            own_session=_whole(raw["ownSession"]),
            above=above[:MAX_ABOVE],
            at=_whole(raw.get("at", 0)),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, BadInput):
        return None
    return proof


def believed(proof: SessionProof, *, nonce: str, pid: int, start_ticks: int) -> bool:
    """Whether it was written for this generation, by this very process (a driver) or a hook that it had started.

    Between the two there may be a shell (in the hook's session) and, below a wrapper, the real CLI (in the agent's).
    Something of a third session is a tool: what runs below that is another CLI, and not this agent.
    """
    if not proof.generation or proof.generation != nonce:
        return False
    at = next((i for i, one in enumerate(proof.above) if _is(one, pid, start_ticks)), None)
    if at is None:
        return False
    near = {proof.own_session, proof.above[at].session}
    return all(one.session in near for one in proof.above[:at])


def _is(seen: Above, pid: int, start_ticks: int) -> bool:
    """Without start ticks (no /proc) the pid stands alone; the nonce beside it is what tells generations apart."""
    return seen.pid == pid and seen.start_ticks in (start_ticks, 0)


def _path(value: Any) -> str | None:
    """A path as a CLI tells it; one that nobody could print or open is none."""
    if not isinstance(value, str) or not value.startswith("/") or len(value) > MAX_PATH or not value.isprintable():
        return None
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError("no whole number")
    return value
