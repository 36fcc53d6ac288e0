"""Run by the installed project's own Python: makes many records, or times the conditional replace. Prints JSON.

`clone HOME COUNT LIVE` (pids of real processes on stdin; a record that is there is the model), or `replace HOME COUNT`.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
import uuid
from pathlib import Path

from msgspec.structs import replace

from supervisor.adapters.codec import decode_entry, encode_entry
from supervisor.adapters.entry_files import EntryFiles
from supervisor.adapters.places import Places
from supervisor.adapters.process_table import system_process_table
from supervisor.core.entry import Closed, Entry, HandOff
from supervisor.core.identity import ProcessRef


def model(places: Places) -> Entry:
    """A real record of this state root."""
    path = next(Path(places.matrix).glob("*.json"))
    return decode_entry(path.read_bytes())


def clone(places: Places, count: int, live: int) -> None:
    """`count` records with ids of their own; the first `live` of them run, each behind a real process."""
    first = model(places)
    assert first.generation.process is not None
    table = system_process_table(places.host_id())
    keys = [key for pid in json.load(sys.stdin) if (key := table.identify(pid))]
    now = int(time.time() * 1000)
    ended = Closed(since=now, hand_off=HandOff(outcome="exited", cause="ended", observed_at=now, code=0, success=True))
    for number in range(count):
        entry_id = uuid.uuid4().hex[:12]
        process = ProcessRef(first.generation.process.machine, keys[number % len(keys)])
        entry = replace(
            first,
            entry_id=entry_id,
            session_id=str(uuid.uuid4()),
            name=f"clone-{number}",
            agent=replace(first.agent, agent_id=str(uuid.uuid4())),
            generation=replace(first.generation, nonce=uuid.uuid4().hex[:16], process=process),
            state=first.state if number < live else ended,
            output=replace(first.output, transcript=os.path.join(places.transcripts, f"{entry_id}.log")),
        )
        with open(os.path.join(places.matrix, f"{entry.key}.json"), "xb") as file:
            file.write(encode_entry(entry))


def conditional_replaces(places: Places, count: int) -> dict[str, list[float]]:
    """Milliseconds of each replace with its sync, and of the bare system calls on the same file system beside it."""
    store = EntryFiles(places.matrix, places.locks)
    entry = replace(model(places), session_id=str(uuid.uuid4()), entry_id=uuid.uuid4().hex[:12])
    assert store.create(entry) is None
    store.sync()
    ours, bare = [], []
    data = encode_entry(entry)
    for number in range(count):
        began = time.perf_counter()
        written = store.replace_if_unchanged(entry, replace(entry, heartbeat_at=number))
        store.sync()
        ours.append((time.perf_counter() - began) * 1000)
        assert isinstance(written, Entry)
        entry = written
        bare.append(_bare(places.matrix, data))
    assert store.remove_if_unchanged(entry)
    return {"ours": ours, "bare": bare}


def _bare(folder: str, data: bytes) -> float:
    path = os.path.join(folder, ".bare")
    began = time.perf_counter()
    fd = os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(fd, data)
    os.fsync(fd)
    os.close(fd)
    os.rename(f"{path}.tmp", path)
    fd = os.open(folder, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    return (time.perf_counter() - began) * 1000


def main() -> None:
    """See the module."""
    what, home, count, *more = sys.argv[1:]
    places = Places(home, runtime_dir=None)
    if what == "clone":
        return clone(places, int(count), int(more[0]))
    found = conditional_replaces(places, int(count))
    found["p50"] = [statistics.median(found["ours"]), statistics.median(found["bare"])]
    return json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
