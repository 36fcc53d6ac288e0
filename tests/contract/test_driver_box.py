"""What a running driver is told: taken once, in order, by whoever is there; a sender learns that nobody is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from supervisor.adapters.driver_box import DriverBox, Request, entries

ENTRY = "b03a054629d3"
MORE = Request("prompt", "more")


@pytest.fixture
def box(tmp_path: Path) -> DriverBox:
    return DriverBox(str(tmp_path), ENTRY)


def test_what_is_put_rings_and_is_taken_once_in_order(box: DriverBox) -> None:
    fd = box.listen()
    long = Request("prompt", 'é "quoted" \n' * 100_000)

    assert box.put(MORE, now_ns=1) is not None
    assert box.put(long, now_ns=2) is not None
    assert box.put(Request("interrupt"), now_ns=3) is not None

    assert os.read(fd, 16) == b"!!!"
    assert box.take() == [MORE, long, Request("interrupt")]
    assert box.take() == []
    os.close(fd)


def test_nobody_there_is_told_and_leaves_nothing(box: DriverBox, tmp_path: Path) -> None:
    assert box.put(MORE, now_ns=1) is None
    os.close(box.listen())  # a driver that was killed leaves its bell
    assert box.put(MORE, now_ns=1) is None
    assert sorted(p.name for p in (tmp_path / "drivers" / ENTRY).iterdir()) == ["bell"]


def test_either_the_driver_has_it_or_its_sender(box: DriverBox) -> None:
    fd = box.listen()
    first, second = box.put(MORE, now_ns=1), box.put(MORE, now_ns=2)
    assert first and second

    assert box.take_back(first)
    assert box.take() == [MORE]
    assert not box.is_put(second)
    assert not box.take_back(second)
    os.close(fd)


def test_leaving_takes_the_last_and_closing_takes_nothing(box: DriverBox, tmp_path: Path) -> None:
    first = box.listen()
    name = box.put(MORE, now_ns=1)
    assert name is not None

    box.close()
    assert box.is_put(name), "its sender takes it back"
    assert not box.ring()
    second = box.listen()
    assert box.leave() == [MORE]
    box.close()
    assert list((tmp_path / "drivers").iterdir()) == []
    os.close(first)
    os.close(second)


def test_malformed_requests_are_dropped(box: DriverBox, tmp_path: Path) -> None:
    fd = box.listen()
    folder = tmp_path / "drivers" / ENTRY
    for number, body in enumerate((b"", b"{", b"[]", b'{"do":"kill"}', b'{"do":"prompt","text":7}', b"[" * 100_000)):
        (folder / f"{number:020d}-0123abcd.json").write_bytes(body)
    (folder / "other").write_text("kept")

    assert box.take() == []
    assert sorted(p.name for p in folder.iterdir()) == ["bell", "other"]
    os.close(fd)


def test_it_is_the_owners_alone(box: DriverBox, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        fd = box.listen()
        name = box.put(MORE, now_ns=1)
    finally:
        os.umask(before)
    assert name is not None
    folder = tmp_path / "drivers" / ENTRY
    modes = {p.name: stat.S_IMODE(p.lstat().st_mode) for p in (folder, *folder.iterdir())}
    assert modes == {ENTRY: 0o700, "bell": 0o600, name: 0o600}
    os.close(fd)


@pytest.mark.parametrize("entry", ["", "..", "../x", "abc", "ABCDEF012345", "b03a054629d3/.."])
def test_what_is_no_entry_id_leads_nowhere(tmp_path: Path, entry: str) -> None:
    with pytest.raises(ValueError):
        DriverBox(str(tmp_path), entry)


def test_boxes_are_found_and_removed(box: DriverBox, tmp_path: Path) -> None:
    assert list(entries(str(tmp_path))) == []
    os.close(box.listen())
    (tmp_path / "drivers" / "not-an-entry").mkdir()

    assert list(entries(str(tmp_path))) == [ENTRY]
    box.remove()
    assert list(entries(str(tmp_path))) == []
