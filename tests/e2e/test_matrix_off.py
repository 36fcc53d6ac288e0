"""`processMatrix.enabled = false`: agents are launched, and not one byte is written below the state root."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.processes import wait_for
from tests.e2e.rig import Supervisor

REFUSED = 7


@pytest.fixture
def off(sv: Supervisor) -> Supervisor:
    """Switched off by the user's own settings: the state root need not exist for that."""
    folder = sv.config / "supervisor-agents"
    folder.mkdir()
    (folder / "settings.toml").write_text("[processMatrix]\nenabled = false\n")
    return sv


def test_an_agent_runs_on_the_terminal_and_its_code_is_passed_on(off: Supervisor) -> None:
    done = off.run("launch", "shell", "--", "sh", "-c", "env | grep ^SUPERVISOR_; echo ran; exit 7", code=7)
    assert done.out == "ran\n"
    assert "the process matrix is off" in done.err
    assert not off.home.exists()


def test_a_prompt_reaches_it_although_no_file_holds_it(off: Supervisor) -> None:
    done = off.run("launch", "demo", "--prompt-file", "-", input=b"RUN: echo $((6*7))")
    assert "42" in done.out
    assert not off.home.exists()


def test_one_in_the_background_is_told_by_its_pid(off: Supervisor) -> None:
    mark = off.work / "ran"
    told = json.loads(off.run("launch", "--detach", "--json", "shell", "--", "touch", mark).out)
    assert (told["name"], told["status"]) == ("shell", "unrecorded")
    wait_for(mark.exists, "what the agent does")
    off.run("launch", "--wait", "exit", "shell", "--", "sh", "-c", "kill -TERM $$", code=143)
    assert not off.home.exists()


@pytest.mark.parametrize(
    "words",
    [("up",), ("stop", "x"), ("down",), ("reconcile",), ("resume", "x"), ("adopt", "x"), ("inbox",), ("watch",)]
    + [
        ("launch", "--tmux", "shell", "--", "true"),
        ("launch", "--detach", "--mcp", "claude"),
        ("enroll", "--pid", "2"),
    ],
)
def test_what_needs_records_is_refused_and_says_how_to_switch_it_on(off: Supervisor, words: tuple[str, ...]) -> None:
    done = off.run(*words, code=REFUSED)
    assert "supervisor settings set processMatrix.enabled true" in done.err
    assert not off.home.exists()


@pytest.mark.parametrize("words", [("ps",), ("tree",), ("orphans",), ("settings", "show"), ("guide",)])
def test_what_only_reads_writes_nothing(off: Supervisor, words: tuple[str, ...]) -> None:
    off.run(*words)
    assert not off.home.exists()


def test_it_can_be_switched_on_again(off: Supervisor) -> None:
    off.run("settings", "set", "processMatrix.enabled", "true")
    off.run("launch", "--detach", "--name", "a", "shell", "--", "true")
    assert off.json("ps", "--all")[0]["name"] == "a"


def test_a_bad_value_names_key_and_bounds(sv: Supervisor, tmp_path: Path) -> None:
    done = sv.run("settings", "set", "processMatrix.enabled", "perhaps", code=1)
    assert "processMatrix.enabled = 'perhaps'" in done.err
    assert "true or false" in done.err
