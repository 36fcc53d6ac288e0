"""The command line as a whole: what it says without a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.cli.main import run


@pytest.mark.parametrize("words", [[], ["settings"], ["profiles"], ["task"]])
def test_without_a_command_the_help_is_told_as_it_is(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = run(words)
    told = capsys.readouterr()
    assert (told.out + told.err).startswith("Usage: supervisor")
    assert code in (0, 2)  # click before 8.2 takes it for a question


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["task", "set", "G-7"], "task set: Missing argument '{open|blocked|done}'. Choose from: open, blocked, done"),
        (["resume", "x", "--tmux-socket", "s"], "--tmux-socket names the server of --tmux. Give both, or none"),
        (["launch", "demo", "--tmux-socket", "s"], "--tmux-socket names the server of --tmux. Give both, or none"),
        (["up", "--tmux-socket", "s"], "--tmux-socket names the server of --tmux. Give both, or none"),
    ],
)
def test_a_misuse_is_told_in_one_line(
    words: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SUPERVISOR_HOME", str(tmp_path / "home"))
    assert run(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("supervisor: ") and told in line
    assert not (tmp_path / "home").exists()
