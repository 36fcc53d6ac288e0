"""`--help` and a piped `ps` stay light: neither imports what only long-lived or rarely used parts need."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from supervisor.adapters.entry_files import EntryFiles
from supervisor.adapters.places import Places
from supervisor.core.entry import AgentIdentity, Entry, Generation, KeeperRef, Running
from supervisor.core.identity import Machine, ProcessKey, ProcessRef
from supervisor.core.launch_plan import LaunchPlan

HEAVY = frozenset({"asyncio", "loguru", "watchdog", "rich", "textual", "mcp", "psutil", "pydantic"})
ROOT = Path(__file__).parents[2]


def imported(home: Path, *words: str) -> tuple[set[str], str]:
    """Every module that one command imports, and what it printed."""
    done = subprocess.run(
        [sys.executable, "-P", "-X", "importtime", "-m", "supervisor", *words],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "SUPERVISOR_HOME": str(home), "PYTHONPATH": str(ROOT)},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}, done.stdout


def heavy(modules: set[str]) -> set[str]:
    """Those of the heavy list, however deep."""
    return {m for m in modules if m.partition(".")[0] in HEAVY}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A state root with one record of an agent that is long gone."""
    home = tmp_path / "state"
    places = Places(str(home), runtime_dir=None)
    places.prepare()
    gone = ProcessRef(Machine(places.host_id(), "another-boot", 1), ProcessKey(2**22 - 1, 1))
    now = int(time.time() * 1000)
    entry = Entry(
        entry_id="e1",
        session_id="s1",
        name="worker-1",
        role="master",
        agent=AgentIdentity(agent_id="a1"),
        generation=Generation(nonce="n1", process=gone),
        keeper=KeeperRef("k1", gone),
        state=Running(since=now, ready_at=now),
        plan=LaunchPlan(profile="shell", argv=("sleep",), cwd="/"),
        hostname="here",
        started_at=now,
        heartbeat_at=now,
    )
    assert EntryFiles(places.matrix, places.locks).create(entry) is None
    return home


def test_help_imports_nothing_heavy_and_no_command(home: Path) -> None:
    modules, printed = imported(home, "--help")
    assert "Usage:" in printed
    assert heavy(modules) == set()
    assert {m for m in modules if m.startswith("supervisor.cli.commands.")} == set()


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["table", "json"])
def test_a_piped_ps_imports_nothing_heavy(home: Path, options: tuple[str, ...]) -> None:
    modules, printed = imported(home, "ps", *options)
    assert "worker-1" in printed
    assert "supervisor.runtime.scan" in modules  # it has really looked
    assert heavy(modules) == set()
