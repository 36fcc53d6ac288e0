"""What every test gets: an environment free of ours, a mark of its own, and nobody left running at its end."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

LINUX = os.path.isdir("/proc/self")
MARK = "SUPERVISOR_TEST_MARK"
SETTLE_SECONDS = 5.0  # what an ending keeper may take on a busy machine; nobody left means no wait


def pytest_configure() -> None:
    """A shell that runs us in the background has SIGINT ignored, and every command of a test would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files in tests/data anew")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with real processes get a second try on a busy machine; pytest lists each that needed it (`-ra`)."""
    for item in items:
        if {"e2e", "e2e_real"} & set(item.path.parts):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(autouse=True)
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """No SUPERVISOR_* variable from outside, and nobody left whose environment bears this test's mark.

    Agents do not inherit SUPERVISOR_* variables; they are found by the mark in the path of `home`.
    """
    for name in [n for n in os.environ if n.startswith("SUPERVISOR_")]:
        monkeypatch.delenv(name)
    mark = uuid.uuid4().hex[:16]
    monkeypatch.setenv(MARK, mark)
    forks = _forks()
    yield mark
    left = _after_settling(mark) if forks is None or forks != _forks() else []
    if left:
        named = [f"pid {pid} ({_command(pid)})" for pid in left]
        _end(mark)
        pytest.fail(f"left running by this test: {', '.join(named)}")


@pytest.fixture
def home(tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A safe state root of this test's own, with no configuration and no runtime directory of the user's."""
    root = tmp_path / f"home-{mark}"
    config = tmp_path / "config"
    root.mkdir(mode=0o700)
    config.mkdir(mode=0o700)
    monkeypatch.setenv("SUPERVISOR_HOME", str(root))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    return root


def _forks() -> int | None:
    """How many processes the machine has started since its boot: while it stays the same, nobody can be left."""
    if not LINUX:
        return None
    counts = [line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("processes ")]
    return int(counts[0].split()[1]) if counts else None


def _after_settling(mark: str) -> list[int]:
    """Those left once whoever is on its way out is gone, and whoever is in the midst of an exec can be told.

    Nobody is left when two looks in a row found nobody: the first may just have missed a child whose parent ended.
    """
    deadline = time.monotonic() + SETTLE_SECONDS
    clean = 0
    while clean < 2 and time.monotonic() < deadline:
        if _bearers(mark, undecided=True):
            clean = 0
            time.sleep(0.005)
        else:
            clean += 1
    return _bearers(mark) if clean < 2 else []


def _end(mark: str) -> None:
    """Kill the bearers by pid until none is left; one that is started meanwhile is found by the next look."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while (left := _bearers(mark)) and time.monotonic() < deadline:
        for pid in left:
            _kill_bearer(pid, mark)
        time.sleep(0.01)


def _kill_bearer(pid: int, mark: str) -> None:
    try:
        held = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except OSError:
        return
    try:
        if not _bears(pid, mark):  # compared after the pidfd was opened: a reused pid is spared
            return
        if held is None:
            os.kill(pid, signal.SIGKILL)
        else:
            signal.pidfd_send_signal(held, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        if held is not None:
            os.close(held)


def _bearers(mark: str, *, undecided: bool = False) -> list[int]:
    if LINUX:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    else:
        import psutil

        pids = psutil.pids()
    return [pid for pid in pids if pid != os.getpid() and _bears(pid, mark, undecided=undecided)]


def _bears(pid: int, mark: str, *, undecided: bool = False) -> bool:
    """Whether its environment holds the mark; `undecided` is the answer for a process that is just being exec'ed."""
    if not LINUX:
        return _bears_elsewhere(pid, mark)
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
        return mark.encode() in environ or (undecided and not environ and _in_exec(pid))
    except OSError:  # gone, or another user's
        return False


def _in_exec(pid: int) -> bool:
    """No environment, and neither a zombie nor a kernel thread."""
    state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    return state not in "ZX" and parent not in ("0", "2")


def _bears_elsewhere(pid: int, mark: str) -> bool:
    import psutil

    try:
        return any(mark in value for value in psutil.Process(pid).environ().values())
    except (psutil.Error, OSError):
        return False


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "gone meanwhile"
