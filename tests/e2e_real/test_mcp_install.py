"""`supervisor mcp install` into the real CLIs: each says itself that it has the server, and nothing else is changed."""

import json
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.mcp_clis import CLIS, entry_at, words_of
from tests.e2e_real.rig import COMMAND_SECONDS, Rig

pytestmark = pytest.mark.real

OTHER = {"command": "/usr/bin/true", "args": ["--mine"]}
LOOKS = {
    "claude": (("mcp", "get", "supervisor"), "Connected"),
    "codex": (("mcp", "list", "--json"), '"enabled": true'),  # it connects to none to list them
    "gemini": (("mcp", "list"), "(stdio) - Connected"),
    "opencode": (("mcp", "list"), "connected"),
    "pi": (("mcp", "list"), "supervisor: connected, 9 tools (direct"),
}
"""How each CLI is asked what it has, and what it then says of ours."""


def settings_of_a_user(rig: Rig, cli: str) -> Path:
    """The file of the CLI, with settings and a server that are none of ours."""
    if cli == "codex":
        file = Path(rig.env["CODEX_HOME"]) / "config.toml"
        file.write_text(
            '# mine\npersonality = "friendly"\n' + file.read_text() + '\n[mcp_servers.other]\ncommand = "x"\n'
        )
        return file
    if cli == "claude":  # its first command rewrites what an earlier version has left
        say(rig, cli, "mcp", "add", "--scope", "user", "other", "--", "true")
        return Path(rig.env["CLAUDE_CONFIG_DIR"]) / ".claude.json"
    home = Path(rig.env["HOME"])
    file, ours = {
        "gemini": (home / ".gemini" / "settings.json", {"ui": {"hideTips": True}, "mcpServers": {"other": OTHER}}),
        "opencode": (
            rig.config / "opencode" / "opencode.json",
            {"username": "me", "mcp": {"other": {"type": "local", "command": ["true"], "enabled": False}}},
        ),
        "pi": (
            Path(rig.env["PI_CODING_AGENT_DIR"]) / "mcp.json",
            {"mcpServers": {"other": {**OTHER, "enabled": False}}},
        ),
    }[cli]
    before = json.loads(file.read_text()) if file.exists() else {}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(before | ours, indent=2))
    return file


def content(file: Path) -> Any:
    return tomllib.loads(file.read_text()) if file.suffix == ".toml" else json.loads(file.read_text())


def say(rig: Rig, cli: str, *words: str) -> str:
    """Give the CLI itself a command; what it says."""
    done = subprocess.run(
        [cli, *words],
        env=rig.env | {"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        cwd=rig.cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    return (done.stdout + done.stderr).decode()


@pytest.mark.parametrize("cli", list(CLIS))
def test_each_cli_has_the_server_once_it_is_installed_and_all_else_as_it_was(
    rig: Rig, record_property: Callable[[str, object], None], cli: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_property("cli", cli)
    monkeypatch.setenv("PATH", rig.env["PATH"])
    file = settings_of_a_user(rig, cli)
    before, text = content(file), file.read_text()
    path = CLIS[cli].path

    def others() -> Any:
        """What was there before, as it is now."""
        now = content(file)
        servers = {name: s for name, s in now[path[0]].items() if name != "supervisor"}
        return {key: now.get(key) for key in before} | {path[0]: servers}

    assert rig.run("mcp", "install", cli).code == 0
    assert file.read_text() == text, "it is only shown"

    done = rig.run("mcp", "install", cli, "--yes", "--json").data

    words = words_of(entry_at(content(file), path))
    assert words == tuple(done["commands"][-1][-len(words) :]) or cli == "gemini"
    assert words[-1] == "mcp"
    assert others() == before
    assert [Path(b).read_text() for b in done["backups"]] == [text]
    said = say(rig, cli, *LOOKS[cli][0])
    assert LOOKS[cli][1] in said, said

    text = file.read_text()
    again = rig.run("mcp", "install", cli, "--yes", "--json").data
    assert (again["commands"], again["there"], again["backups"]) == ([], str(file), [])
    assert file.read_text() == text

    file.write_text(text.replace(words[0], "/earlier/supervisor"))
    assert rig.run("mcp", "install", cli, "--yes").code == 0
    assert words_of(entry_at(content(file), path)) == words, "supervisor has moved"

    assert rig.run("mcp", "uninstall", cli, "--yes").code == 0
    assert entry_at(content(file), path) is None
    assert others() == before
    assert words[0] not in say(rig, cli, *LOOKS[cli][0])
    nothing = rig.run("mcp", "uninstall", cli, "--yes")
    assert (nothing.code, "knows no MCP server" in nothing.err) == (3, True)
    if cli == "codex":
        assert "# mine" in file.read_text()
    rig.assert_no_process_left()
