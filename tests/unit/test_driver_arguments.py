"""The command line of a driver."""

from __future__ import annotations

import pytest

from supervisor.drivers.arguments import Options, Usage, parse

KINDS = ("codex", "claude")


def test_everything_after_the_first_dashes_is_the_clis() -> None:
    parsed = parse(
        [
            "codex",
            "--model",
            "m",
            "--add-dir",
            "/a",
            "--add-dir",
            "/b",
            "--",
            "codex",
            "app-server",
            "--",
            "--resume",
            "x",
        ],
        kinds=KINDS,
    )

    assert parsed == Options("codex", ("codex", "app-server", "--", "--resume", "x"), model="m", paths=("/a", "/b"))


def test_a_session_is_chosen_or_resumed() -> None:
    assert parse(["claude", "--session-id", "s", "--", "claude"], kinds=KINDS) == Options(
        "claude", ("claude",), session="s"
    )
    assert parse(["claude", "--resume", "s", "--", "claude"], kinds=KINDS) == Options("claude", ("claude",), resume="s")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "command is missing"),
        (["codex"], "command is missing"),
        (["codex", "--"], "command is missing"),
        (["--", "codex"], "no kind ''"),
        (["vim", "--", "vim"], "no kind 'vim'"),
        (["codex", "more", "--", "codex"], "one word too many"),
        (["codex", "--nothing", "--", "codex"], "no option '--nothing'"),
        (["codex", "--resume", "--", "codex"], "--resume needs a value"),
        (["codex", "--resume", "", "--", "codex"], "--resume needs a value"),
        (["codex", "--resume", "a", "--session-id", "b", "--", "codex"], "exclude each other"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(words: list[str], why: str) -> None:
    parsed = parse(words, kinds=KINDS)

    assert isinstance(parsed, Usage)
    assert why in parsed.why


def test_help_is_no_mistake_and_the_clis_own_help_is_its_own() -> None:
    assert parse(["--help"], kinds=KINDS) == Usage()
    assert isinstance(parse(["codex", "--", "codex", "--help"], kinds=KINDS), Options)


def test_the_command_of_the_mcp_server_is_a_list_of_words() -> None:
    options = parse(["codex", "--mcp-server", '["/opt/s", "mcp"]', "--", "cli"], kinds=KINDS)
    assert isinstance(options, Options)
    assert options.mcp == ("/opt/s", "mcp")


@pytest.mark.parametrize("raw", ["", "mcp", "{}", '"x"', "[1]", "[" * 100_000])
def test_anything_else_is_none(raw: str) -> None:
    assert isinstance(parse(["codex", "--mcp-server", raw, "--", "cli"], kinds=KINDS), Usage)
