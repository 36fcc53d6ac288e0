"""Which fault hits whom: a sequence that depends on the seed and the roles alone, so that a run can be replayed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

FAULTS = {
    "kill agent": 26,
    "kill keeper": 12,
    "kill both": 6,
    "stop agent": 8,
    "stop keeper": 8,
    "cont": 16,
    "kill command": 6,
    "stop command": 4,
    "truncate entry": 2,
    "truncate heartbeat": 3,
    "truncate ask": 4,
    "clock": 4,
}
"""How often each kind is drawn, relative to the others."""
COMMANDS = {"resume": 34, "launch": 30, "adopt": 14, "recover": 9, "reconcile": 9, "release": 4}
CLOCKS = (0, 2_000, -2_000, 90_000, -90_000, 7_200_000, -7_200_000, 39_600_000, -39_600_000)
"""Offsets in ms, less than a day apart: no record grows old by them."""


class Fault(NamedTuple):
    """One fault, and the command that races it."""

    number: int
    kind: str
    who: str
    dice: float
    command: str
    on: str
    other: str


def roles(parents: int = 10, workers: int = 40) -> list[str]:
    """A root, parents, workers."""
    return ["root", *(f"p{i}" for i in range(parents)), *(f"w{i}" for i in range(workers))]


def plan(seed: int, names: Sequence[str]) -> Iterator[Fault]:
    """Faults without end."""
    draw = random.Random(seed)
    number = 0
    while True:
        number += 1
        yield Fault(
            number,
            draw.choices(list(FAULTS), list(FAULTS.values()))[0],
            draw.choice(names),
            draw.random(),
            draw.choices(list(COMMANDS), list(COMMANDS.values()))[0],
            draw.choice(names),
            draw.choice([n for n in names if not n.startswith("w")]),
        )
