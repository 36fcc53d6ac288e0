"""The command line of the hook."""

from __future__ import annotations

import pytest

from supervisor.hook.arguments import DEADLINES, Options, Usage, parse


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["claude"], Options("claude", 86_000)),
        (["codex"], Options("codex", 580)),
        (["claude", "--deadline", "5"], Options("claude", 5)),
        (["--deadline=0.5", "codex"], Options("codex", 0.5)),
    ],
)
def test_a_good_command_line_names_the_cli_and_its_deadline(words: list[str], expected: Options) -> None:
    assert parse(words) == expected


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["claude", "--help"]])
def test_help_is_no_error_but_runs_nothing(words: list[str]) -> None:
    assert parse(words) == Usage()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "missing"),
        ([""], "missing"),
        (["gemini"], "'gemini'"),
        (["claude", "codex"], "one word too many"),
        (["claude", "--dead", "5"], "no option"),
        (["claude", "--deadline"], "number of seconds"),
        (["claude", "--deadline", "0"], "above 0"),
        (["claude", "--deadline", "-1"], "above 0"),
        (["claude", "--deadline", "nan"], "above 0"),
        (["claude", "--deadline", "inf"], "above 0"),
        (["claude", "--deadline=soon"], "above 0"),
    ],
)
def test_a_bad_command_line_is_said_to_be_one(words: list[str], why: str) -> None:
    found = parse(words)
    assert isinstance(found, Usage)
    assert why in found.why


def test_each_default_deadline_is_under_the_hook_timeout_of_its_cli() -> None:
    assert DEADLINES["claude"] < 86_400
    assert DEADLINES["codex"] < 600
