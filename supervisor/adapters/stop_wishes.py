"""Stop wishes: `KEY.down` beside a record, so that a hundred agents are wanted down without a hundred new records.

To every reader a wish is the next revision of the record that it was made for; the next write of the record takes it
in. Writers hold the entry's lock.
"""

from __future__ import annotations

import contextlib
import os

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from supervisor.adapters.atomic_file import read_bounded, write_atomic
from supervisor.core import transitions
from supervisor.core.entry import Entry

SUFFIX = ".down"


class StopWish(Struct, frozen=True, kw_only=True, rename="camel"):
    """Which record it was made for, and how long (ms) its agent may take to end by itself."""

    entry_id: str
    nonce: str
    revision: int
    grace_ms: int | None = None


_decoder = msgspec.json.Decoder(StopWish)


def is_for(wish: StopWish | None, revision: int, entry_id: str, nonce: str) -> bool:
    """Whether the record with this identity is the one it was made for: later ones have taken it in already."""
    return wish is not None and (wish.revision, wish.entry_id, wish.nonce) == (revision, entry_id, nonce)


def applied(entry: Entry, wish: StopWish | None) -> Entry:
    """The record as readers are to see it."""
    if wish is None or not is_for(wish, entry.revision, entry.entry_id, entry.generation.nonce):
        return entry
    return replace(transitions.wanted_down(entry, grace_ms=wish.grace_ms), revision=entry.revision + 1)


def read_wish(record: str) -> StopWish | None:
    """The wish beside this record; one that cannot be read is none.

    Raises:
        OSError: it could not be looked for.
    """
    data = read_bounded(_path(record))
    try:
        return None if data is None else _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def write_wish(record: str, entry: Entry, grace_ms: int | None) -> None:
    """Lay one beside the record, then give the record another time, so that who looks at that reads it again.

    Raises:
        OSError: no wish was made.
    """
    wish = StopWish(entry_id=entry.entry_id, nonce=entry.generation.nonce, revision=entry.revision, grace_ms=grace_ms)
    write_atomic(_path(record), msgspec.json.encode(wish))
    seen = os.stat(record, follow_symlinks=False)
    os.utime(record, ns=(seen.st_atime_ns, seen.st_mtime_ns + 1), follow_symlinks=False)


def drop_wish(record: str) -> None:
    """Remove it, when there is one."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_path(record))


def _path(record: str) -> str:
    return record.removesuffix(".json") + SUFFIX
