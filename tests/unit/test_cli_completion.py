"""`supervisor completion`: the scripts, and what the shells get from us when they ask by them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.adapters.ask_files import AskFiles
from supervisor.adapters.entry_files import EntryFiles
from supervisor.adapters.places import Places
from supervisor.cli.main import COMMANDS, run
from supervisor.core.ask_wire import build_request, encode_request
from supervisor.core.settings import SETTINGS
from supervisor.testing import make_entry

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def agents(home: Path) -> None:
    """Two agents on record, one of them ended."""
    places = Places(str(home), runtime_dir=None)
    places.prepare()
    store = EntryFiles(places.matrix, places.locks)
    store.create(make_entry("lead"))
    store.create(make_entry("tests", status="closed"))


def complete(line: str, tmp_path: Path) -> list[str]:
    """What bash's function would be told for the words of `line`, the last one unfinished."""
    words = line.split(" ")
    env = {
        **os.environ,
        "_SUPERVISOR_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    argv = [sys.executable, "-P", "-m", "supervisor"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=30, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [row.partition(",")[2] for row in done.stdout.split("\n") if row.startswith("plain,")]


def test_agent_names_are_completed(agents: None, tmp_path: Path) -> None:
    assert complete("supervisor stop ", tmp_path) == ["lead", "tests"]
    assert complete("supervisor stop le", tmp_path) == ["lead"]


@pytest.mark.parametrize("command", ["logs", "attach", "stop", "show", "why", "wait"])
def test_they_are_completed_wherever_an_agent_is_named(agents: None, tmp_path: Path, command: str) -> None:
    assert complete(f"supervisor {command} l", tmp_path) == ["lead"]


def test_asks_that_wait_are_completed(home: Path, tmp_path: Path) -> None:
    places = Places(str(home), runtime_dir=None)
    places.prepare()
    asked = build_request(
        "perm-1", now=1, requester="s-kid", target="s-lead", agent_name="kid", tool="bash", value="ls", cwd="/", ours={}
    )
    AskFiles(places.forwarding).write_request("s-lead", "perm-1", encode_request(asked))
    assert complete("supervisor answer pe", tmp_path) == ["perm-1"]
    assert complete("supervisor asks perm-", tmp_path) == ["perm-1"]
    assert complete("supervisor why pe", tmp_path) == ["perm-1"]


def test_without_a_state_root_nothing_is_offered_and_nothing_made(home: Path, tmp_path: Path) -> None:
    home.rmdir()
    assert complete("supervisor stop ", tmp_path) == []
    assert not home.exists()


def test_a_broken_state_root_offers_nothing_and_says_nothing(home: Path, tmp_path: Path) -> None:
    home.chmod(0o777)
    assert complete("supervisor stop ", tmp_path) == []
    home.chmod(0o700)


def test_commands_are_completed(home: Path, tmp_path: Path) -> None:
    assert set(complete("supervisor ", tmp_path)) == set(COMMANDS)
    assert complete("supervisor comp", tmp_path) == ["completion"]


def test_options_are_completed(home: Path, tmp_path: Path) -> None:
    assert {"--cascade", "--grace", "--json", "--help"} <= set(complete("supervisor stop --", tmp_path))
    assert complete("supervisor logs --fo", tmp_path) == ["--follow"]


def test_profiles_subcommands_and_settings_are_completed(home: Path, tmp_path: Path) -> None:
    assert complete("supervisor profiles show cl", tmp_path) == ["claude", "claude-stdio"]
    assert "trust" in complete("supervisor profiles ", tmp_path)
    assert complete("supervisor settings set process", tmp_path) == [k for k in SETTINGS if k.startswith("process")]


@pytest.mark.parametrize(
    ("shell", "holds"),
    [
        ("bash", "complete -o nosort -F _supervisor_completion supervisor"),
        ("zsh", "#compdef supervisor"),
        ("fish", "complete --no-files --command supervisor"),
    ],
)
def test_each_shell_has_its_script(capsys: Captured, shell: str, holds: str) -> None:
    assert run(["completion", shell]) == 0
    out = capsys.readouterr().out
    assert holds in out
    assert f"_SUPERVISOR_COMPLETE={shell}_complete" in out


def test_printing_a_script_starts_nothing(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """With no program on PATH: click's own way would ask bash for its version."""
    monkeypatch.setenv("PATH", "/nowhere")
    assert run(["completion", "bash"]) == 0
    assert capsys.readouterr().err == ""


def test_the_login_shell_is_the_default(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/zsh")
    assert run(["completion"]) == 0
    assert "#compdef supervisor" in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["/bin/tcsh", ""])
def test_another_login_shell_is_told_what_there_is(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, shell: str
) -> None:
    monkeypatch.setenv("SHELL", shell)
    assert run(["completion"]) == 2
    assert "bash, zsh, fish" in capsys.readouterr().err


def test_an_unknown_shell_is_a_usage_error(capsys: Captured) -> None:
    assert run(["completion", "tcsh"]) == 2


def test_the_help_says_how_to_install_it(capsys: Captured) -> None:
    assert run(["completion", "--help"]) == 0
    out = capsys.readouterr().out
    assert 'eval "$(supervisor completion bash)"' in out
    assert "~/.config/fish/completions/supervisor.fish" in out


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_a_real_bash_completes_by_the_script(agents: None, tmp_path: Path) -> None:
    """The function of the script, called as readline calls it."""
    command = tmp_path / "bin" / "supervisor"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m supervisor "$@"\n')
    command.chmod(0o755)
    script = (
        "source <(supervisor completion bash) && COMP_WORDS=(supervisor stop l) COMP_CWORD=2 && "
        "_supervisor_completion supervisor l stop && printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    env = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=env, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.stdout, done.stderr) == ("lead\n", "")
