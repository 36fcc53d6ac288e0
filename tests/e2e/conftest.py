"""A supervisor of its own for each test; whatever is left of it at the end is ended, and fails the test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.rig import Supervisor

MakeSupervisor = Callable[..., Supervisor]


@pytest.fixture
def exit_watch() -> str:
    """How ends are learned; tests that are parametrised over it override this."""
    return "kernel"


@pytest.fixture
def short_tmp() -> Iterator[Path]:
    """A folder with a short path: names of FIFOs and sockets have limits."""
    folder = Path(tempfile.mkdtemp(prefix="sv", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def make_sv(short_tmp: Path, exit_watch: str) -> Iterator[MakeSupervisor]:
    with ExitStack() as ends:

        def make(name: str = "a") -> Supervisor:
            made = Supervisor(short_tmp / name, exit_watch=exit_watch)
            ends.callback(made.close)
            return made

        yield make


@pytest.fixture
def sv(make_sv: MakeSupervisor) -> Supervisor:
    return make_sv()
