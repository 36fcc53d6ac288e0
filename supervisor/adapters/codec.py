"""Records ↔ bytes. Strict about what we know, and what we do not know survives a rewrite. Owns no file."""

from __future__ import annotations

from typing import Any

import msgspec

from supervisor.core.entry import SCHEMA, Entry

_decoder = msgspec.json.Decoder(Entry)


class Unreadable(Exception):
    """The bytes are no entry. `newer`: written by a later version, so it is not to be set aside."""

    def __init__(self, reason: str, *, newer: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.newer = newer


def decode_entry(data: bytes) -> Entry:
    """The entry.

    Raises:
        Unreadable: truncated, garbage, wrong types, or of a newer schema.
    """
    try:
        entry = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(str(error), newer=_schema_of(data) > SCHEMA) from None
    if entry.schema > SCHEMA:
        raise Unreadable(f"schema {entry.schema} is newer than {SCHEMA}", newer=True)
    return entry


def encode_entry(entry: Entry, *, over: bytes | None = None) -> bytes:
    """Readable JSON. Fields of `over` (the record being replaced) that this version does not know are kept."""
    if over is None:
        return msgspec.json.format(msgspec.json.encode(entry), indent=1)
    new = msgspec.to_builtins(entry)
    return msgspec.json.format(msgspec.json.encode(_keep_unknown(msgspec.json.decode(over), new)), indent=1)


def _keep_unknown(old: Any, new: dict[str, Any]) -> dict[str, Any]:
    """Known fields are always encoded, so a key only in `old` is unknown; another variant of a union keeps nothing."""
    if not isinstance(old, dict) or old.get("status") != new.get("status"):
        return new
    for key, value in old.items():
        if key not in new:
            new[key] = value
        elif isinstance(new[key], list | tuple) and isinstance(value, list):
            new[key] = [_keep_of(value, item) for item in new[key]]
        elif isinstance(new[key], dict) and key not in ("envSet", "envLink"):
            new[key] = _keep_unknown(value, new[key])
    return new


def _keep_of(old: list[Any], item: Any) -> Any:
    """An item of a list keeps the unknown fields of the old item that says the same otherwise."""
    if not isinstance(item, dict):
        return item
    same = (o for o in old if isinstance(o, dict) and all(o.get(k) == v for k, v in item.items()))
    return _keep_unknown(next(same, None), item)


def _schema_of(data: bytes) -> int:
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0
    schema = raw.get("schema") if isinstance(raw, dict) else None
    return schema if isinstance(schema, int) else 0
