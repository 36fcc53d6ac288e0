"""Records to bytes and back: nothing is lost, neither what we know nor what we do not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from supervisor.adapters.codec import Unreadable, decode_entry, encode_entry
from supervisor.core.entry import Entry
from tests.property.strategies import entries, text

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
unknown = st.dictionaries(st.from_regex(r"x[A-Z][a-z]{1,6}", fullmatch=True), json_values, min_size=1, max_size=3)
PLACES = [(), ("agent",), ("generation",), ("keeper", "process", "machine"), ("plan",), ("output",), ("terminal",)]


def at(record: dict[str, Any], place: tuple[str, ...]) -> dict[str, Any]:
    for key in place:
        record = record[key]
    return record


@given(entries)
def test_an_entry_survives_the_round_trip(entry: Entry) -> None:
    assert entry == decode_entry(encode_entry(entry))


@given(entries)
def test_writing_twice_writes_the_same(entry: Entry) -> None:
    assert encode_entry(entry) == encode_entry(decode_entry(encode_entry(entry)))


@given(entries, entries)
def test_what_is_written_over_another_record_is_read_back(old: Entry, new: Entry) -> None:
    assert new == decode_entry(encode_entry(new, over=encode_entry(old)))


@given(entries, unknown, st.sampled_from(PLACES))
def test_unknown_fields_survive_any_rewrite(entry: Entry, extra: dict[str, Any], place: tuple[str, ...]) -> None:
    record = json.loads(encode_entry(entry))
    at(record, place).update(extra)
    after = replace(entry, heartbeat_at=1, revision=entry.revision + 1)
    written = json.loads(encode_entry(after, over=json.dumps(record).encode()))
    assert extra == {k: v for k, v in at(written, place).items() if k in extra}


@given(entries, unknown, st.sampled_from(PLACES))
def test_unknown_fields_do_not_disturb_what_we_know(
    entry: Entry, extra: dict[str, Any], place: tuple[str, ...]
) -> None:
    record = json.loads(encode_entry(entry))
    at(record, place).update(extra)
    assert entry == decode_entry(json.dumps(record).encode())


@given(entries, st.data())
def test_a_truncated_record_is_unreadable_never_something_else(entry: Entry, data: st.DataObject) -> None:
    whole = encode_entry(entry)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(Unreadable):
        decode_entry(whole[:cut])


@given(st.binary(max_size=200))
def test_garbage_is_unreadable(raw: bytes) -> None:
    with pytest.raises(Unreadable):
        decode_entry(raw)
