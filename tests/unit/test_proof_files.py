"""One look at the folder tells whether any agent's proof may be new."""

from __future__ import annotations

import os
from pathlib import Path

from supervisor.adapters.proof_files import ProofFiles


def at(folder: Path, seconds: int) -> None:
    """What a write at that time does to the folder."""
    os.utime(folder, (seconds, seconds))


def test_a_folder_that_nobody_wrote_to_does_not_stir(tmp_path: Path) -> None:
    at(tmp_path, 100)
    files = ProofFiles(str(tmp_path))
    assert files.stirred()  # the first look knows nothing
    assert [files.stirred() for _ in range(3)] == [False, False, False]


def test_each_change_stirs_and_once_more_for_what_came_within_the_same_tick(tmp_path: Path) -> None:
    at(tmp_path, 100)
    files = ProofFiles(str(tmp_path))
    files.stirred()
    at(tmp_path, 200)
    assert [files.stirred() for _ in range(4)] == [True, True, False, False]


def test_a_folder_that_is_not_there_yet_stirs_when_it_comes(tmp_path: Path) -> None:
    files = ProofFiles(str(tmp_path / "proofs"))
    files.stirred()
    assert not files.stirred()
    (tmp_path / "proofs").mkdir()
    assert files.stirred()
