"""The tasks' file: private, whole, and never guessed at when it cannot be read."""

import os
from pathlib import Path

import pytest

from supervisor.adapters.task_files import TaskFile
from supervisor.core.errors import BadState


@pytest.fixture
def tasks(tmp_path: Path) -> TaskFile:
    (tmp_path / "locks").mkdir()
    return TaskFile(str(tmp_path), str(tmp_path / "locks"))


def test_what_was_set_is_read_by_another_process(tasks: TaskFile, tmp_path: Path) -> None:
    tasks.set("GOAL-7", "blocked", now=5)
    tasks.set("GOAL-8", "done", now=6)
    again = TaskFile(str(tmp_path), str(tmp_path / "locks"))
    assert [(t.ref, t.status, t.at) for t in again.all()] == [("GOAL-7", "blocked", 5), ("GOAL-8", "done", 6)]


def test_without_a_file_there_are_none(tasks: TaskFile) -> None:
    assert tasks.all() == ()


def test_the_file_is_its_owners_alone(tasks: TaskFile, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        tasks.set("GOAL-7", "blocked", now=5)
    finally:
        os.umask(before)
    assert (tmp_path / "tasks.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("data", [b"", b"{", b'[{"ref":"a"}]', b'[{"ref":"a","status":"lost","at":1}]', b"\xff"])
def test_a_malformed_file_is_an_error_and_stays_as_it_is(tasks: TaskFile, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "tasks.json").write_bytes(data)
    for attempt in (tasks.all, lambda: tasks.set("b", "open", now=1)):
        with pytest.raises(BadState, match="cannot be read"):
            attempt()
    assert (tmp_path / "tasks.json").read_bytes() == data
