"""Signals into a fake process table. Owns the log of what was sent and of what was refused."""

from __future__ import annotations

from msgspec import Struct

from supervisor.core.identity import ProcessKey, same_process
from supervisor.testing.processes import INIT, FakeProcessTable


class Sent(Struct, frozen=True):
    """One signal to one process."""

    key: ProcessKey
    signal: int


class FakeSignals:
    """`Signals`. `me` is the pid of the process that sends: never a target."""

    def __init__(self, processes: FakeProcessTable, *, me: int) -> None:
        self._processes = processes
        self._me = me
        self.sent: list[Sent] = []
        self.refused: list[Sent] = []

    def send(self, key: ProcessKey, signal: int) -> bool:
        """Deliver it if the identity still matches; False when gone, another's now, or ourselves."""
        seen = self._processes.probe(key.pid)
        forbidden = key.pid in (0, INIT, self._me)
        if forbidden or not isinstance(seen, ProcessKey) or not same_process(key, seen):
            self.refused.append(Sent(key, signal))
            return False
        self.sent.append(Sent(key, signal))
        self._processes.deliver(key.pid, signal)
        return True

    def to(self, pid: int) -> list[int]:
        """The signals that have reached one pid, in order."""
        return [s.signal for s in self.sent if s.key.pid == pid]
