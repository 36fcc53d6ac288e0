"""Public fakes of the ports: in memory, driven by the test, and held to the same contract tests as the real adapters.

They know only `supervisor.core`. Nothing here starts a process, reads a clock or touches a file.
"""

from supervisor.testing.bells import MemoryBells
from supervisor.testing.builders import (
    MACHINE,
    STATUSES,
    make_beat,
    make_entry,
    make_hand_off,
    make_plan,
    make_ref,
    make_state,
)
from supervisor.testing.clock import FakeClock
from supervisor.testing.exit_watch import FakeExitWatch
from supervisor.testing.files import FakeSessionFiles, MemoryProofs, MemoryTranscripts
from supervisor.testing.heartbeats import MemoryBeats
from supervisor.testing.processes import FakeProcess, FakeProcessTable
from supervisor.testing.signals import FakeSignals, Sent
from supervisor.testing.spawner import FakeSpawner
from supervisor.testing.store import MemoryStore

__all__ = [
    "MACHINE",
    "STATUSES",
    "FakeClock",
    "FakeExitWatch",
    "FakeProcess",
    "FakeProcessTable",
    "FakeSessionFiles",
    "FakeSignals",
    "FakeSpawner",
    "MemoryBeats",
    "MemoryBells",
    "MemoryProofs",
    "MemoryStore",
    "MemoryTranscripts",
    "Sent",
    "make_beat",
    "make_entry",
    "make_hand_off",
    "make_plan",
    "make_ref",
    "make_state",
]
