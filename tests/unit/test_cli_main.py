"""The command line as a whole: what it says without a command."""

from __future__ import annotations

import pytest

from supervisor.cli.main import run


@pytest.mark.parametrize("words", [[], ["settings"], ["profiles"], ["task"]])
def test_without_a_command_the_help_is_told_as_it_is(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = run(words)
    told = capsys.readouterr()
    assert (told.out + told.err).startswith("Usage: supervisor")
    assert code in (0, 2)  # click before 8.2 takes it for a question
