"""How the agent CLIs are told of the MCP server."""

from __future__ import annotations

import tomllib

import pytest

from supervisor.core.mcp_clis import (
    CLIS,
    candidates,
    command_line,
    entry_at,
    for_one_launch,
    pi_extension,
    without,
    words_of,
)

COMMAND = ("/opt/py", "-P", "-m", "supervisor", "mcp")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude", ("claude", "mcp", "add", "--scope", "user", "supervisor", "--", *COMMAND)),
        ("codex", ("codex", "mcp", "add", "supervisor", "--", *COMMAND)),
        ("gemini", ("gemini", "mcp", "add", "--scope", "user", "supervisor", "/opt/py", "--", *COMMAND[1:])),
        ("opencode", ("opencode", "mcp", "add", "supervisor", "--", *COMMAND)),
        ("pi", ("pi", "mcp", "add", "supervisor", "--exposure", "direct", "--", *COMMAND)),
    ],
)
def test_each_is_told_by_its_own_command(name: str, expected: tuple[str, ...]) -> None:
    assert command_line(CLIS[name].add, COMMAND) == expected


def test_what_takes_it_back_names_it() -> None:
    assert command_line(CLIS["codex"].remove, ()) == ("codex", "mcp", "remove", "supervisor")


def test_a_file_is_where_the_environment_says() -> None:
    env = {"HOME": "/home/me", "CODEX_HOME": "/elsewhere"}
    assert candidates(CLIS["codex"], env) == ["/elsewhere/config.toml"]
    assert candidates(CLIS["codex"], {"HOME": "/home/me"}) == ["/home/me/.codex/config.toml"]
    assert candidates(CLIS["claude"], {"HOME": "/home/me", "CLAUDE_CONFIG_DIR": "rel"}) == ["/home/me/.claude.json"]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"a": 1, "mcp": {"supervisor": {}, "other": 2}}, {"a": 1, "mcp": {"other": 2}}),
        ({"mcp": {"supervisor": {}}}, {"mcp": {}}),
        ({"mcp": {"other": {}}}, None),
        ({"mcp": 3}, None),
        ({}, None),
        ([], None),
    ],
)
def test_an_entry_is_taken_out_and_the_rest_stays(config: object, expected: object) -> None:
    assert without(config, ("mcp", "supervisor")) == expected


def test_claude_is_told_for_one_launch_by_a_file() -> None:
    words, content = for_one_launch("claude", COMMAND, file="/state/hooks/mcp.json")
    assert words == ("--mcp-config", "/state/hooks/mcp.json")
    assert content == {"mcpServers": {"supervisor": {"command": "/opt/py", "args": list(COMMAND[1:])}}}


def test_codex_is_told_for_one_launch_by_a_value_of_its_configuration() -> None:
    (option, value), content = for_one_launch("codex", ('/o "p" t/py', "mcp"), file="")
    (server,) = tomllib.loads(value)["mcp_servers"].values()
    assert (option, content) == ("-c", {})
    assert server == {"command": '/o "p" t/py', "args": ["mcp"], "tool_timeout_sec": 660, "required": True}


def test_opencode_is_told_for_one_launch_by_a_variable() -> None:
    words, content = for_one_launch("opencode", COMMAND, file="")
    assert words == ()
    assert content["mcp"]["supervisor"] == {"type": "local", "command": list(COMMAND), "enabled": True}


def test_pi_is_told_for_one_launch_by_an_extension() -> None:
    words, content = for_one_launch("pi", ('/o "p" t/py', "mcp"), file="/state/hooks/mcp-pi.js")
    assert words == ("--extension", "/state/hooks/mcp-pi.js")
    server = '{"command": "/o \\"p\\" t/py", "args": ["mcp"], "exposure": "direct", "timeout": 660}'
    assert pi_extension(content).splitlines()[-1] == (
        f'export default (pi) => pi.registerMcpServer("supervisor", {server});'
    )


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "stdio", "command": "/opt/py", "args": list(COMMAND[1:]), "env": {}},
        {"type": "local", "command": list(COMMAND), "enabled": True},
    ],
)
def test_a_server_is_known_by_its_command_line_however_the_cli_writes_it(entry: object) -> None:
    assert words_of(entry_at({"servers": {"supervisor": entry}}, ("servers", "supervisor"))) == COMMAND


@pytest.mark.parametrize("entry", [None, 3, {}, {"command": 7}, {"command": "x", "enabled": False}])
def test_what_is_no_server_or_switched_off_has_no_command_line(entry: object) -> None:
    assert words_of(entry) == ()


@pytest.mark.parametrize("config", [None, [], {}, {"servers": 3}, {"servers": {"other": {}}}])
def test_where_nothing_stands_nothing_is_found(config: object) -> None:
    assert entry_at(config, ("servers", "supervisor")) is None
