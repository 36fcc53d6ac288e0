"""Hears what an agent's hook or driver says about its session, and believes it or not. Owns the stamp of the last look.

They write at each start of a session: the first, and every change inside (clear, resume, fork).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor.core.entry import Entry
from supervisor.runtime.logs import warn
from supervisor.runtime.parts import Parts

if TYPE_CHECKING:
    from supervisor.core.session_proof import SessionProof


class ProofReader:
    """The word of one agent's hook or driver."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._stamp = 0

    def stirred(self, entry: Entry) -> bool:
        """Whether there is something new: a stat."""
        return self._parts.proofs.stamp(entry.entry_id) != self._stamp

    def take(self, entry: Entry) -> SessionProof | None:
        """What it has written since, if that is of the process which the entry names."""
        ref = entry.generation.process
        if not self.stirred(entry) or ref is None:
            return None
        from supervisor.core.session_proof import believed, parse_proof

        self._stamp = self._parts.proofs.stamp(entry.entry_id)  # before the read: a later one is seen next time
        proof = parse_proof(self._parts.proofs.read(entry.entry_id))
        if proof is None:
            warn("what was written about its session cannot be read", agent=entry.name)
            return None
        if proof.generation != entry.generation.nonce:
            return None  # an earlier generation's, still lying there
        if not believed(proof, nonce=entry.generation.nonce, pid=ref.key.pid, start_ticks=ref.key.start_ticks):
            warn("another process than the agent's tells of a session, it is not believed", agent=entry.name)
            return None
        return proof
