"""`launch --tmux`: the keeper is the pane's command. A tmux server of the test's own, ended by it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.processes import alive, cmdline, gone, wait_for
from tests.e2e.rig import Supervisor

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture
def server(sv: Supervisor, short_tmp: Path) -> Iterator[dict[str, str | None]]:
    """The environment that leads to a tmux server of this test alone."""
    env: dict[str, str | None] = {"TMUX_TMPDIR": str(short_tmp), "TMUX": None, "TERM": "xterm"}
    yield env
    subprocess.run(["tmux", "kill-server"], env=sv.environment(env), capture_output=True, check=False)


def panes(sv: Supervisor, server: dict[str, str | None]) -> list[str]:
    done = subprocess.run(
        ["tmux", "list-panes", "-a", "-F", "#{pane_id} #{window_name}"],
        env=sv.environment(server),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()


def test_an_agent_in_a_pane_is_recorded_with_it_and_stopped_like_any_other(
    sv: Supervisor, server: dict[str, str | None]
) -> None:
    told = sv.json("launch", "--json", "--tmux", "--name", "a1", "shell", "--", "sleep", "1000", env=server)

    terminal = sv.record("a1")["terminal"]
    assert (terminal["kind"], [f"{terminal['pane']} a1"]) == ("tmux", panes(sv, server))
    assert sv.row("a1")["verdict"] == "alive"
    sv.run("stop", "a1")
    assert gone(told["pid"])
    wait_for(lambda: panes(sv, server) == [], "the pane's end")


def test_neither_prompt_nor_environment_stands_in_a_panes_cmdline(
    sv: Supervisor, server: dict[str, str | None]
) -> None:
    sv.run("launch", "--tmux", "--name", "a1", "--env", "GIVEN=hush", "demo", "--", "SLEEP: 1000", env=server)

    assert "SLEEP" not in " ".join(cmdline(sv.keeper("a1")))
    assert "hush" not in " ".join(cmdline(sv.keeper("a1")))
    assert list((sv.home / "requests").iterdir()) == []
    sv.run("stop", "a1")


def test_a_name_is_nothing_that_tmux_or_a_shell_would_run(sv: Supervisor, server: dict[str, str | None]) -> None:
    marker = sv.work / "ran"
    words = ("sh", "-c", "sleep 1000", "#{pane_id}", f"$(touch {marker})", "; touch ran")
    sv.run("launch", "--tmux", "--name", "a.1-x", "shell", "--", *words, env=server)

    assert cmdline(sv.pid("a.1-x"))[-3:] == list(words[-3:])
    assert not marker.exists()
    sv.run("stop", "a.1-x")


def test_a_killed_pane_ends_its_agent_and_the_end_is_on_record(sv: Supervisor, server: dict[str, str | None]) -> None:
    told = sv.json("launch", "--json", "--tmux", "--name", "a1", "shell", "--", "sleep", "1000", env=server)
    assert alive(told["pid"])

    subprocess.run(["tmux", "kill-server"], env=sv.environment(server), capture_output=True, check=True)

    wait_for(lambda: gone(told["pid"]), "its end")
    assert sv.ended("a1")["signal"] == "HUP"


def test_a_pane_that_cannot_start_its_agent_says_why(sv: Supervisor, server: dict[str, str | None]) -> None:
    done = sv.run("launch", "--tmux", "--name", "a1", "shell", "--", "no-such-program", env=server, code=1)

    assert "no-such-program was not found" in done.err
    wait_for(lambda: not sv.traces(), "nothing left of it")
