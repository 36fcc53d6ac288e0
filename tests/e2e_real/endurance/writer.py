"""One of many writers of the same records: raises its own counters by compare-and-swap, and may be made to die.

Each landed update is acknowledged in a file of its own, after the store has said that it landed. What the record and
the acknowledgements say must agree in the end, whoever was killed meanwhile.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from supervisor.adapters.entry_files import EntryFiles
from supervisor.core.entry import Entry

DEATHS = ("amid the write", "before the rename", "after the rename")
LOST_A_RECORD = 3  # exit code: a record could not be read, although it is always there


class Orders(NamedTuple):
    """What one writer process is to do. `die`: one of DEATHS and the how-manieth such moment, or empty."""

    folder: str
    locks: str
    writer: str
    keys: list[str]
    updates: int
    acks: str
    die: str = ""
    die_at: int = 0


class Ack(NamedTuple):
    """One landed update: in which record, which revision it became, this writer's counter in it."""

    key: str
    revision: int
    counter: int


def counts(entry: Entry) -> dict[str, int]:
    """How often each writer has updated this record; kept in its summary."""
    found: dict[str, int] = json.loads(entry.task_summary or "{}")
    return found


def acks(path: Path) -> list[Ack]:
    """All acknowledgements of one writer."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [Ack(*json.loads(line)) for line in lines]


def work(orders: Orders) -> int:
    """Go on where an earlier process of this writer has stopped; the exit code."""
    store = EntryFiles(orders.folder, orders.locks)
    told = os.open(orders.acks, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    done = len(acks(Path(orders.acks)))
    if orders.die:
        arm(orders.die, orders.die_at, spare=told)
    for number in range(done, orders.updates):
        ack = update(store, orders.keys[number % len(orders.keys)], orders.writer)
        if ack is None:
            return LOST_A_RECORD
        os.write(told, json.dumps(ack).encode() + b"\n")
        if number % 20 == 0:
            store.sync()
    return LOST_A_RECORD if store.corrupt else 0


def update(store: EntryFiles, key: str, writer: str) -> Ack | None:
    """Raise this writer's counter in one record, however often others are first; None when there is no record."""
    while True:
        entry = store.read(key)
        if entry is None:
            return None
        count = counts(entry).get(writer, 0) + 1
        summary = json.dumps({**counts(entry), writer: count})
        landed = store.replace_if_unchanged(entry, replace(entry, task_summary=summary))
        if isinstance(landed, Entry):
            return Ack(key, landed.revision, count)


def arm(moment: str, number: int, *, spare: int) -> None:
    """Die by SIGKILL at the moment's `number`-th time."""
    left = number

    def now() -> bool:
        nonlocal left
        left -= 1
        return left <= 0

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    write: Callable[[int, Any], int] = os.write
    rename: Callable[..., None] = os.rename

    def torn_write(fd: int, data: Any) -> int:
        if fd != spare and now():
            write(fd, bytes(data)[: len(data) // 2])
            die()
        return write(fd, data)

    def deadly_rename(*names: Any, **options: Any) -> None:
        last = now()
        if last and moment == "before the rename":
            die()
        rename(*names, **options)
        if last:
            die()  # with the lock held, the record new, and nobody told

    if moment == "amid the write":
        os.write = torn_write
    else:
        os.rename = deadly_rename


if __name__ == "__main__":
    sys.exit(work(Orders(*msgspec.json.decode(sys.argv[1]))))
