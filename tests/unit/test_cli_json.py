"""Every command that prints data has `--json`; those that have none are named here, each with the reason."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from supervisor.cli.main import cli, run

WITHOUT = {
    "attach": "gives the terminal to tmux",
    "checkpoint": "prints nothing",
    "completion": "prints a script for a shell",
    "guide": "prints text for a prompt",
    "interrupt": "prints no data, only a note",
    "logs": "prints an agent's bytes as they are",
    "mcp": "speaks MCP on its output",
    "profiles": "a group",
    "profiles schema": "prints JSON anyhow",
    "send": "prints no data, only a note",
    "settings": "a group",
    "task": "a group",
    "task set": "prints nothing",
}


def walk(command: click.Command, context: click.Context, called: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command and what is below it, by the words that call it."""
    if called:
        yield called, command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from walk(inner, context, f"{called} {name}".strip())


def test_every_command_that_prints_data_prints_it_as_json_too() -> None:
    without = [name for name, c in walk(cli, click.Context(cli)) if not any("--json" in p.opts for p in c.params)]
    assert sorted(without) == sorted(WITHOUT)


def test_a_setting_that_was_set_is_told_as_data(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["settings", "set", "limits.max_depth", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"key": "limits.max_depth", "value": 3, "origin": str(home / "settings.toml")}


def test_a_new_profile_and_a_trusted_one_are_told_as_data(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    monkeypatch.chdir(project)
    path = project / ".supervisor" / "launch_profiles" / "mine.toml"

    assert run(["profiles", "init", "mine", "--project", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"name": "mine", "origin": "project", "path": str(path)}
    assert run(["profiles", "trust", "mine", "--json"]) == 0
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    assert json.loads(capsys.readouterr().out) == {"name": "mine", "path": str(path), "sha256": sha256}
