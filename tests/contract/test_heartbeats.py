"""`Heartbeats`: who beats, in memory and in files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from supervisor.adapters.beat_files import BeatFiles
from supervisor.core.entry import KeeperRef
from supervisor.core.ports import Heartbeats
from supervisor.testing import MemoryBeats, make_beat, make_ref

BEAT = make_beat(KeeperRef("0123456789ab", make_ref(200)), beat=1, monotonic_ns=5)
OTHER = make_beat(KeeperRef("ba9876543210", make_ref(201)), beat=1)
ID = BEAT.keeper_id


@pytest.fixture(params=["memory", "files"])
def beats(request: pytest.FixtureRequest, tmp_path: Path) -> Heartbeats:
    return MemoryBeats() if request.param == "memory" else BeatFiles(str(tmp_path))


def test_who_never_beat_has_no_beat(beats: Heartbeats) -> None:
    assert (None, set()) == (beats.read(ID), set(beats.owners()))


def test_a_beat_is_read_as_it_was_made(beats: Heartbeats) -> None:
    beats.beat(BEAT)
    assert beats.read(ID) == BEAT


def test_the_last_beat_counts(beats: Heartbeats) -> None:
    for number in (1, 2, 3):
        beats.beat(replace(BEAT, beat=number))
    assert replace(BEAT, beat=3) == beats.read(ID)


def test_each_keeper_has_its_own(beats: Heartbeats) -> None:
    beats.beat(BEAT)
    beats.beat(OTHER)
    assert (BEAT, OTHER, {200, 201}) == (beats.read(ID), beats.read(OTHER.keeper_id), set(beats.owners()))


def test_a_clean_end_leaves_no_beat(beats: Heartbeats) -> None:
    beats.beat(BEAT)
    beats.beat(OTHER)
    beats.remove(ID)
    assert (None, {201}) == (beats.read(ID), set(beats.owners()))


def test_removing_nothing_is_fine(beats: Heartbeats) -> None:
    beats.remove(ID)
    beats.remove(ID)
    assert beats.read(ID) is None


def test_a_keeper_may_beat_again_after_its_removal(beats: Heartbeats) -> None:
    beats.beat(BEAT)
    beats.remove(ID)
    beats.beat(BEAT)
    assert beats.read(ID) == BEAT


# -- files alone


@pytest.fixture
def files(tmp_path: Path) -> BeatFiles:
    return BeatFiles(str(tmp_path))


def test_a_beat_has_one_width_whatever_its_numbers(files: BeatFiles) -> None:
    sizes = set()
    for number in (0, 1, 10**6, 10**11):
        files.beat(replace(BEAT, beat=number, pid=number % 2**22, start_ticks=number, updated_at=number * 100))
        sizes.add(os.stat(files.path(ID)).st_size)
    assert len(sizes) == 1


def test_a_beat_is_written_in_place(files: BeatFiles) -> None:
    files.beat(BEAT)
    inode = os.stat(files.path(ID)).st_ino
    files.beat(replace(BEAT, beat=2))
    assert inode == os.stat(files.path(ID)).st_ino


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_file_taken_from_under_the_keeper_is_made_anew(how: str, files: BeatFiles, tmp_path: Path) -> None:
    files.beat(BEAT)
    if how == "removed":
        os.unlink(files.path(ID))
    else:
        (tmp_path / "x").write_text("{}")
        os.replace(tmp_path / "x", files.path(ID))
    files.beat(replace(BEAT, beat=2))
    assert replace(BEAT, beat=2) == BeatFiles(str(tmp_path)).read(ID)


def test_a_reader_needs_no_writer(files: BeatFiles, tmp_path: Path) -> None:
    files.beat(BEAT)
    assert BeatFiles(str(tmp_path)).read(ID) == BEAT


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[]", b'{"keeperId":"x"}', b"x" * 5000])
def test_a_malformed_beat_is_no_evidence_of_life(data: bytes, files: BeatFiles) -> None:
    Path(files.path(ID)).write_bytes(data)
    assert (None, set()) == (files.read(ID), set(files.owners()))


def test_a_malformed_beat_harms_no_other(files: BeatFiles) -> None:
    files.beat(OTHER)
    Path(files.path(ID)).write_bytes(b"{")
    assert {201} == set(files.owners())


def test_a_beat_is_its_owners_alone(files: BeatFiles) -> None:
    before = os.umask(0)
    try:
        files.beat(BEAT)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(files.path(ID)).st_mode) == 0o600


def test_a_symlink_is_not_written_through(files: BeatFiles, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    os.symlink(target, files.path(ID))
    with pytest.raises(OSError, match="symbolic link"):
        files.beat(BEAT)
    assert target.read_text() == "mine"


def test_a_missing_folder_has_no_owners_and_says_so_when_beaten(tmp_path: Path) -> None:
    files = BeatFiles(str(tmp_path / "none"))
    assert (set(), None) == (set(files.owners()), files.read(ID))
    with pytest.raises(FileNotFoundError):
        files.beat(BEAT)


def test_a_hundred_beats_hold_one_descriptor(files: BeatFiles) -> None:
    files.beat(BEAT)
    before = set(os.listdir("/proc/self/fd"))
    for number in range(100):
        files.beat(replace(BEAT, beat=number))
    assert before == set(os.listdir("/proc/self/fd"))
    files.remove(ID)
