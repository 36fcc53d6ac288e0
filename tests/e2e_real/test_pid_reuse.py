"""P3: pids forced to be used again, in a pid namespace of their own; the scenarios are in `endurance/pid_reuse.py`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e_real.endurance.pid_reuse import SCENARIOS
from tests.e2e_real.rig import Rig

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

REPOSITORY = Path(__file__).resolve().parents[2]


NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


@pytest.fixture(scope="module", autouse=True)
def next_pid_can_be_chosen() -> None:
    """Needs rights for a pid namespace, and a kernel with checkpoint/restore."""
    try:
        tried = subprocess.run(
            [*NAMESPACE, "sh", "-c", "echo 99 > /proc/sys/kernel/ns_last_pid"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    if tried.returncode != 0:
        pytest.skip(f"the next pid can't be chosen here (root?): {tried.stderr.strip()}")


def reuse(rig: Rig, scenario: str) -> Any:
    """The facts of one scenario of `endurance/pid_reuse.py`, run in a pid namespace of its own."""
    assert scenario in SCENARIOS
    argv = [*NAMESPACE, sys.executable, "-m", "tests.e2e_real.endurance.pid_reuse", scenario, str(rig.tmp)]
    done = subprocess.run(argv, cwd=REPOSITORY, env=rig.env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_no_signal_reaches_a_newcomer_on_a_reused_pid(bare: Rig) -> None:
    cases = reuse(bare, "one-signal")

    assert {name: case["heard"] for name, case in cases.items() if case["heard"]} == {}
    assert [name for name, case in cases.items() if case["sent"]] == []
    assert len(cases) >= 9


def test_a_keeper_that_slept_spares_a_newcomer_on_its_agents_pid(bare: Rig) -> None:
    facts = reuse(bare, "agents-pid-while-its-keeper-sleeps")

    assert facts["heard"] == []
    assert (facts["code"], facts["status"]) == (0, "closed")


def test_a_newcomer_on_a_dead_agents_pid_is_seen_and_spared(bare: Rig) -> None:
    facts = reuse(bare, "agents-pid-without-a-keeper")

    assert facts["heard"] == []
    assert facts["verdict"] == "dead_pid"
    assert "now belongs to another process" in facts["evidence"]
    assert facts["codes"] == [0, 0, 0]


def test_a_newcomer_on_a_dead_keepers_pid_is_no_keeper(bare: Rig) -> None:
    facts = reuse(bare, "keepers-pid")

    assert facts["heard"] == []
    assert facts["verdict"] == "stale"
    assert facts["reattached"] == ["alive", True, True]
    assert (facts["code"], facts["agent"]) == (0, False)


def test_a_tool_on_a_dead_keepers_pid_ends_with_its_agent(bare: Rig) -> None:
    facts = reuse(bare, "tool-on-a-keepers-pid")

    assert (facts["code"], facts["agent"]) == (0, False)
    assert not facts["tool"], "stop said that nothing was left"
