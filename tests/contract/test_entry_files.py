"""What only files have: modes, temp files, corrupt and newer records, unknown fields, old records."""

from __future__ import annotations

import json
import os
import resource
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from supervisor.adapters.codec import encode_entry
from supervisor.adapters.entry_files import EntryFiles
from supervisor.core.entry import Death, Entry, ParentRef, Running, Status
from supervisor.core.ports import Conflict
from supervisor.core.rules import Rule
from supervisor.runtime.record import Record
from supervisor.testing import STATUSES, make_entry, make_plan

ENTRY = make_entry()
OTHER = make_entry("tests")
OLD_RECORDS = Path(__file__).parents[1] / "data" / "v1"


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    (tmp_path / "locks").mkdir()
    (tmp_path / "matrix").mkdir()
    return tmp_path / "matrix"


def open_store(matrix: Path) -> EntryFiles:
    return EntryFiles(str(matrix), str(matrix.parent / "locks"))


@pytest.fixture
def store(matrix: Path) -> EntryFiles:
    return open_store(matrix)


def file_of(matrix: Path, entry: Entry = ENTRY) -> Path:
    return matrix / f"{entry.key}.json"


def names(matrix: Path) -> list[str]:
    return sorted(os.listdir(matrix))


def raw(entry: Entry = ENTRY) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(encode_entry(entry))
    return decoded


# -- modes and left-overs


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_records_and_locks_are_the_owners_alone_under_any_umask(umask: int, store: EntryFiles, matrix: Path) -> None:
    store.create(ENTRY)
    store.replace_if_unchanged(ENTRY, ENTRY)
    files = [file_of(matrix), *(matrix.parent / "locks").iterdir()]
    assert {0o600} == {stat.S_IMODE(f.stat().st_mode) for f in files}


def test_no_temp_file_is_left(store: EntryFiles, matrix: Path) -> None:
    store.create(ENTRY)
    store.replace_if_unchanged(ENTRY, ENTRY)
    assert [f"{ENTRY.key}.json"] == names(matrix)


def test_no_temp_file_is_left_by_a_write_that_fails_in_its_midst(store: EntryFiles, matrix: Path) -> None:
    store.create(ENTRY)
    before = file_of(matrix).read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            store.replace_if_unchanged(ENTRY, replace(ENTRY, want="down"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert ([f"{ENTRY.key}.json"], before) == (names(matrix), file_of(matrix).read_bytes())


def test_a_temp_file_of_another_is_no_entry(store: EntryFiles, matrix: Path) -> None:
    (matrix / f".{ENTRY.key}.json.77.0.tmp").write_bytes(encode_entry(ENTRY))
    assert list(store.list()) == []


def test_an_odd_session_id_stays_within_the_folder(store: EntryFiles, matrix: Path) -> None:
    odd = replace(ENTRY, session_id="../../escape")
    store.create(odd)
    assert (["master-..%2F..%2Fescape.json"], odd) == (names(matrix), store.read(odd.key))


def test_the_bounded_set_of_locks_does_not_grow_with_entries(store: EntryFiles, matrix: Path) -> None:
    for number in range(60):
        store.create(make_entry(f"n{number}"))
    assert len(list((matrix.parent / "locks").iterdir())) <= 16


def test_no_descriptor_is_left_open(store: EntryFiles) -> None:
    store.create(ENTRY)
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(3):
        store.read(ENTRY.key)
        store.list()
        store.create(ENTRY)
        store.sync()
    assert before == set(os.listdir("/proc/self/fd"))


def test_a_record_is_readable_json(store: EntryFiles, matrix: Path) -> None:
    store.create(ENTRY)
    text = file_of(matrix).read_text()
    assert ("\n" in text, json.loads(text)["sessionId"]) == (True, "session-lead")


# -- corrupt records

CORRUPT = {
    "empty": b"",
    "truncated": encode_entry(ENTRY)[:-40],
    "garbage": b"\x00\xff\xfe garbage",
    "not an object": b"[1, 2]",
    "wrong type": json.dumps({**raw(), "startedAt": "yesterday"}).encode(),
    "unknown status": json.dumps({**raw(), "state": {"status": "paused", "since": 1}}).encode(),
    "missing field": json.dumps({k: v for k, v in raw().items() if k != "plan"}).encode(),
    "not utf-8": encode_entry(ENTRY).replace(b'"here"', b'"\xe9"'),
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("data", CORRUPT.values(), ids=CORRUPT.keys())
def test_a_corrupt_record_is_set_aside_and_harms_no_other(data: bytes, store: EntryFiles, matrix: Path) -> None:
    store.create(OTHER)
    file_of(matrix).write_bytes(data)
    found = list(store.list())
    assert ([OTHER], [f"{ENTRY.key}.json.corrupt", f"{OTHER.key}.json"]) == (found, names(matrix))


def test_a_corrupt_record_is_reported_once(store: EntryFiles, matrix: Path) -> None:
    file_of(matrix).write_bytes(b"{")
    for _ in range(3):
        store.list(), store.read(ENTRY.key)
    assert [str(file_of(matrix))] == [path for path, _ in store.corrupt]


def test_what_was_set_aside_is_kept_as_it_was(store: EntryFiles, matrix: Path) -> None:
    file_of(matrix).write_bytes(b"{ evidence")
    store.read(ENTRY.key)
    assert (matrix / f"{ENTRY.key}.json.corrupt").read_bytes() == b"{ evidence"


def test_a_corrupt_record_reads_as_absent_and_can_be_registered_anew(store: EntryFiles, matrix: Path) -> None:
    file_of(matrix).write_bytes(b"{")
    assert (store.create(ENTRY), store.read(ENTRY.key)) == (None, ENTRY)


def test_a_corrupt_record_is_not_replaced_by_a_change(store: EntryFiles, matrix: Path) -> None:
    file_of(matrix).write_bytes(b"{")
    assert Conflict(None) == store.replace_if_unchanged(ENTRY, ENTRY)


@pytest.mark.parametrize("kind", ["folder", "symlink", "huge"])
def test_what_is_no_record_file_harms_no_other(kind: str, store: EntryFiles, matrix: Path) -> None:
    store.create(OTHER)
    if kind == "folder":
        file_of(matrix).mkdir()
    elif kind == "symlink":
        file_of(matrix).symlink_to(file_of(matrix, OTHER))
    else:
        file_of(matrix).write_bytes(b" " * (1024 * 1024 + 1))
    assert (list(store.list()), len(store.corrupt)) == ([OTHER], 1)


def test_a_missing_folder_has_no_entries(tmp_path: Path) -> None:
    assert list(EntryFiles(str(tmp_path / "none"), str(tmp_path)).list()) == []


# -- newer versions

NEWER = [
    {**raw(), "schema": 2},
    {**raw(), "schema": 2, "state": {"status": "hibernating", "since": 1}},
    {"schema": 9, "everything": "else"},
]


@pytest.mark.parametrize("record", NEWER)
def test_a_record_of_a_newer_schema_is_left_where_it_is(
    record: dict[str, Any], store: EntryFiles, matrix: Path
) -> None:
    data = json.dumps(record).encode()
    file_of(matrix).write_bytes(data)
    found = (list(store.list()), store.read(ENTRY.key), store.remove_if_unchanged(ENTRY))
    assert ([], None, False, data) == (*found, file_of(matrix).read_bytes())


@pytest.mark.parametrize("record", NEWER)
def test_a_record_of_a_newer_schema_is_not_overwritten_by_a_change(
    record: dict[str, Any], store: EntryFiles, matrix: Path
) -> None:
    data = json.dumps(record).encode()
    file_of(matrix).write_bytes(data)
    assert (Conflict(None), data) == (store.replace_if_unchanged(ENTRY, ENTRY), file_of(matrix).read_bytes())


@pytest.mark.parametrize("record", NEWER)
def test_a_record_of_a_newer_schema_is_not_overwritten_by_a_registration(
    record: dict[str, Any], store: EntryFiles, matrix: Path
) -> None:
    data = json.dumps(record).encode()
    file_of(matrix).write_bytes(data)
    store.create(ENTRY)
    assert data == file_of(matrix).read_bytes()


def write(matrix: Path, record: dict[str, Any]) -> None:
    file_of(matrix).write_text(json.dumps(record))


def rewritten(matrix: Path, after: Entry | None = None) -> dict[str, Any]:
    """The record once it was read and written by this version."""
    store = open_store(matrix)
    entry = store.read(ENTRY.key)
    assert entry is not None
    landed = store.replace_if_unchanged(entry, after or replace(entry, heartbeat_at=entry.heartbeat_at + 1))
    assert isinstance(landed, Entry)
    decoded: dict[str, Any] = json.loads(file_of(matrix).read_text())
    return decoded


def test_unknown_fields_survive_a_rewrite(matrix: Path) -> None:
    write(matrix, {**raw(), "lease": {"holder": "x", "until": [1, None, 2.5]}, "colour": "red"})
    after = rewritten(matrix)
    assert (after["lease"], after["colour"]) == ({"holder": "x", "until": [1, None, 2.5]}, "red")


@pytest.mark.parametrize(
    "path",
    [
        ("agent",),
        ("generation",),
        ("generation", "process"),
        ("generation", "process", "machine"),
        ("generation", "process", "key"),
        ("keeper",),
        ("keeper", "process", "key"),
        ("plan",),
        ("plan", "restart"),
        ("terminal",),
        ("output",),
        ("state",),
        ("parent",),
    ],
)
def test_unknown_nested_fields_survive_a_rewrite(path: tuple[str, ...], matrix: Path) -> None:
    record = raw(replace(ENTRY, parent=ParentRef(session_id="session-boss")))
    at = record
    for key in path:
        at = at[key]
    at["colour"] = {"hue": 7}
    write(matrix, record)
    found = rewritten(matrix)
    for key in path:
        found = found[key]
    assert found["colour"] == {"hue": 7}


def test_unknown_fields_of_a_death_survive_the_next_one(matrix: Path) -> None:
    death = Death(at=1, boot_id="boot-1", monotonic_ns=1, code=1)
    record = raw(replace(ENTRY, deaths=(death,)))
    record["deaths"][0]["core"] = "/cores/1"
    write(matrix, record)
    after = rewritten(matrix, replace(ENTRY, deaths=(death, replace(death, at=2))))
    assert after["deaths"][0].get("core") == "/cores/1"


def test_an_unknown_field_of_a_recorded_rule_makes_no_record_corrupt(matrix: Path) -> None:
    record = raw(replace(ENTRY, plan=make_plan(asks_rules=(Rule(action="deny", tool="Bash"),))))
    record["plan"]["asksRules"][0]["until"] = 1
    write(matrix, record)
    found = open_store(matrix).read(ENTRY.key)
    assert found is not None
    assert (found.plan.asks_rules[0].action, found.plan.asks_rules[0].tool) == ("deny", "Bash")


def test_a_state_that_has_passed_takes_its_unknown_fields_along(matrix: Path) -> None:
    record = raw()
    record["state"]["mood"] = "calm"
    write(matrix, record)
    closed = replace(make_entry(status="closed"), entry_id=ENTRY.entry_id)
    assert "mood" not in rewritten(matrix, closed)["state"]


def test_a_variable_that_is_no_longer_set_does_not_come_back(matrix: Path) -> None:
    write(matrix, raw(replace(ENTRY, plan=make_plan(env_set={"OLD": "1"}, env_link={"OLD": "1"}))))
    after = rewritten(matrix, replace(ENTRY, plan=make_plan(env_set={"NEW": "1"})))
    assert (after["plan"]["envSet"], after["plan"]["envLink"]) == ({"NEW": "1"}, {})


# -- old records


@pytest.mark.parametrize("status", STATUSES)
def test_a_record_of_version_1_still_loads(
    status: Status, store: EntryFiles, matrix: Path, update_golden: bool
) -> None:
    old = OLD_RECORDS / f"{status}.json"
    if update_golden and not old.exists():
        old.write_bytes(encode_entry(make_entry(status=status)))
    file_of(matrix).write_bytes(old.read_bytes())
    found = store.read(ENTRY.key)
    assert found is not None
    assert (status, "session-lead") == (found.status, found.session_id)


def test_a_full_record_of_version_1_still_loads_field_by_field(store: EntryFiles, matrix: Path) -> None:
    file_of(matrix).write_bytes((OLD_RECORDS / "full.json").read_bytes())
    found = store.read(ENTRY.key)
    assert found is not None
    assert (7, Running(since=11, ready_at=12), "down", 250, "T-1", ("KEY",), "p-1", "tmux", ["KILL"]) == (
        found.revision,
        found.state,
        found.want,
        found.stop_grace_ms,
        found.task_ref,
        found.plan.env_given,
        found.agent.resume_context and found.agent.resume_context.provider_session_id,
        found.terminal.kind,
        [d.signal for d in found.deaths if d.signal],
    )


def test_a_wish_that_meets_the_renewal_of_the_heartbeat_is_taken_in_and_counted(tmp_path: Path) -> None:
    """The keeper's own write would hide that the file has changed: nobody would look at it again."""
    (tmp_path / "m").mkdir()
    (tmp_path / "l").mkdir()
    ours, theirs = (EntryFiles(str(tmp_path / "m"), str(tmp_path / "l")) for _ in range(2))
    entry = make_entry()
    ours.create(entry)
    record = Record(entry, ours)
    read = theirs.read(entry.key)
    assert read is not None
    theirs.replace_if_unchanged(read, replace(read, want="down"))
    record.touch(entry.heartbeat_at + 1)
    assert (record.entry.want, record.taken, list(ours.changed([record.entry]))) == ("down", 1, [])


# -- stop wishes


def wished(store: EntryFiles) -> Entry:
    store.create(ENTRY)
    wanted = store.want_down(ENTRY, grace_ms=None)
    assert isinstance(wanted, Entry)
    return wanted


def test_a_wish_leaves_the_record_as_it_is_and_the_next_write_takes_it_in(store: EntryFiles, matrix: Path) -> None:
    wanted = wished(store)
    assert [f"{ENTRY.key}.down", f"{ENTRY.key}.json"] == names(matrix)
    assert file_of(matrix).read_bytes() == encode_entry(ENTRY)
    assert stat.S_IMODE((matrix / f"{ENTRY.key}.down").stat().st_mode) == 0o600
    store.replace_if_unchanged(wanted, wanted)
    assert [f"{ENTRY.key}.json"] == names(matrix)


def test_a_wish_that_its_record_has_outlived_says_nothing(store: EntryFiles, matrix: Path) -> None:
    """A writer was killed between the new record and the removal of the wish."""
    wanted = wished(store)
    wish = (matrix / f"{ENTRY.key}.down").read_bytes()
    store.replace_if_unchanged(wanted, replace(wanted, want="up"))
    (matrix / f"{ENTRY.key}.down").write_bytes(wish)
    reader = open_store(matrix)
    found = reader.read(ENTRY.key)
    assert found is not None
    assert (found.want, found.revision) == ("up", 3)
    assert isinstance(reader.replace_if_unchanged(found, found), Entry)
    assert [f"{ENTRY.key}.json"] == names(matrix)


def test_a_torn_wish_is_none(store: EntryFiles, matrix: Path) -> None:
    wished(store)
    (matrix / f"{ENTRY.key}.down").write_bytes(b'{"entryId": "entr')
    assert (store.read(ENTRY.key), list(open_store(matrix).list())) == (ENTRY, [ENTRY])
    assert isinstance(store.want_down(ENTRY, grace_ms=None), Entry)


def test_a_wish_for_a_record_that_was_set_aside_is_not_for_the_next_one(store: EntryFiles, matrix: Path) -> None:
    wished(store)
    file_of(matrix).write_bytes(b"{ evidence")
    assert store.read(ENTRY.key) is None
    store.create(ENTRY)
    assert open_store(matrix).read(ENTRY.key) == ENTRY


def test_a_wish_in_the_same_instant_as_the_record_is_seen(store: EntryFiles, matrix: Path) -> None:
    """The file system's clock is coarse: the record's time moves even where its clock does not."""
    store.create(ENTRY)
    open_store(matrix).want_down(ENTRY, grace_ms=None)
    assert [ENTRY.key] == list(store.changed([ENTRY]))


def test_a_folder_that_is_removed_is_told_from_one_that_is_moved_away(matrix: Path, store: EntryFiles) -> None:
    store.create(ENTRY)
    before = store.removed()
    away = matrix.with_name("away")
    matrix.rename(away)
    moved = store.removed()
    away.rename(matrix)
    shutil.rmtree(matrix)
    removed = store.removed()
    matrix.mkdir()
    anew = store.removed()
    store.create(OTHER)
    shutil.rmtree(matrix)
    assert (before, moved, removed, anew, store.removed()) == (False, False, True, False, True)
