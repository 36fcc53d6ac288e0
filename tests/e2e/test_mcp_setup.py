"""`mcp install` and `uninstall`: shown first, backed up, done by the CLI's own command, or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.rig import Supervisor


@pytest.fixture
def path(sv: Supervisor) -> dict[str, str]:
    """A PATH on which each CLI notes what it was told."""
    for name in ("claude", "opencode"):
        sv.script(name, f'for w; do printf "%s\\n" "$w"; done > {sv.work}/{name}.told; [ ! -e {sv.work}/broken ] || '
                  "{ echo 'it exists already' >&2; exit 1; }")  # fmt: skip
    return {"PATH": f"{sv.work}:{sv.env['PATH']}"}


def home_file(sv: Supervisor, name: str, text: str) -> Path:
    file = Path(sv.env["HOME"]) / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_an_install_is_only_shown_until_it_is_wanted_and_backs_up_the_file(
    sv: Supervisor, path: dict[str, str]
) -> None:
    home_file(sv, ".claude.json", '{"secret": 1}')

    shown = sv.run("mcp", "install", "claude", env=path).out
    assert "would run:" in shown
    assert f"may change: {sv.env['HOME']}/.claude.json" in shown
    assert "to do it, add --yes" in shown
    assert not (sv.work / "claude.told").exists()

    done = sv.json("mcp", "install", "claude", "--yes", env=path)
    told = (sv.work / "claude.told").read_text().split("\n")
    assert told[:6] == ["mcp", "add", "--scope", "user", "supervisor", "--"]
    assert told[-2] == "mcp"
    (backup,) = done["backups"]
    assert Path(backup).read_text() == '{"secret": 1}'
    assert os.stat(backup).st_mode & 0o777 == 0o600


def test_what_stands_there_already_is_left_and_what_differs_is_replaced(sv: Supervisor, path: dict[str, str]) -> None:
    there = {"mcpServers": {"supervisor": {"command": "/earlier/supervisor", "args": ["mcp"]}}}
    file = home_file(sv, ".claude.json", json.dumps(there))
    sv.script("claude", f'echo "$2" >> {sv.work}/claude.told')

    done = sv.json("mcp", "install", "claude", "--yes", env=path)

    assert (sv.work / "claude.told").read_text().split() == ["remove", "add"]
    words = done["commands"][-1]
    entry = {"command": words[words.index("--") + 1], "args": words[words.index("--") + 2 :]}
    file.write_text(json.dumps({"mcpServers": {"supervisor": entry}}))
    assert "is told of it already" in sv.run("mcp", "install", "claude", "--yes", env=path).out
    assert (sv.work / "claude.told").read_text().split() == ["remove", "add"]


def test_what_the_cli_says_is_told(sv: Supervisor, path: dict[str, str]) -> None:
    (sv.work / "broken").touch()
    done = sv.run("mcp", "install", "claude", "--yes", env=path, code=1)
    assert "claude did not do it: it exists already" in done.err


def test_a_cli_that_is_not_there_is_named(sv: Supervisor) -> None:
    empty = {"PATH": str(sv.root)}
    assert "gemini was not found on PATH" in sv.run("mcp", "install", "gemini", env=empty, code=1).err


def test_an_entry_in_a_plain_file_is_taken_out_and_the_rest_stays(sv: Supervisor, path: dict[str, str]) -> None:
    config = {"theme": "dark", "mcp": {"supervisor": {"type": "local"}, "other": {}}}
    file = home_file(sv, "dot/opencode.json", json.dumps(config))
    link = Path(sv.env["XDG_CONFIG_HOME"]) / "opencode" / "opencode.json"
    link.parent.mkdir()
    link.symlink_to(file)

    assert "would rewrite" in sv.run("mcp", "uninstall", "opencode", env=path).out
    assert json.loads(file.read_text()) == config
    sv.run("mcp", "uninstall", "opencode", "--yes", env=path)

    assert json.loads(file.read_text()) == {"theme": "dark", "mcp": {"other": {}}}
    assert link.is_symlink()
    assert "knows no MCP server" in sv.run("mcp", "uninstall", "opencode", "--yes", env=path, code=3).err


def test_a_file_with_comments_is_left_as_it_is(sv: Supervisor, path: dict[str, str]) -> None:
    text = '{\n  // mine\n  "mcp": {"supervisor": {}},\n}'
    file = Path(sv.env["XDG_CONFIG_HOME"]) / "opencode" / "opencode.jsonc"
    file.parent.mkdir()
    file.write_text(text)
    done = sv.run("mcp", "uninstall", "opencode", "--yes", env=path, code=1)
    assert "Take mcp.supervisor out of it by hand" in done.err
    assert file.read_text() == text


def test_without_the_extra_the_server_says_how_to_get_it(sv: Supervisor) -> None:
    program = (
        "import sys, importlib.util as u; f = u.find_spec; "
        "u.find_spec = lambda name, *a: None if name == 'mcp' else f(name, *a); "
        "from supervisor.cli.main import run; sys.exit(run(['mcp']))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], env=sv.environment(), capture_output=True, text=True)
    assert done.returncode == 1
    assert "uv tool install 'supervisor-agents[mcp]'" in done.stderr


def test_tools_for_one_launch_touch_no_file_of_the_users(sv: Supervisor, path: dict[str, str]) -> None:
    """The same for all profiles that know a way; the others say what to do."""
    plan = sv.json("launch", "--dry-run", "--detach", "--mcp", "claude", "--", "hi", env=path)["plan"]
    file = plan["argv"][plan["argv"].index("--mcp-config") + 1]
    assert file == f"{sv.home}/hooks/mcp.json"
    assert json.loads(Path(file).read_text())["mcpServers"]["supervisor"]["args"][-1] == "mcp"

    mine = {"OPENCODE_CONFIG_CONTENT": '{"theme": "x", "mcp": {"other": {}}}'}
    plan = sv.json("launch", "--dry-run", "--detach", "--mcp", "opencode", "--", "hi", env=path | mine)["plan"]
    assert "OPENCODE_CONFIG_CONTENT" in plan["envGiven"]
    broken = {"OPENCODE_CONFIG_CONTENT": "[]"}
    sv.run("launch", "--dry-run", "--detach", "--mcp", "opencode", "--", "hi", env=path | broken, code=1)

    sv.script("gemini", "true")
    plan = sv.json("launch", "--dry-run", "--detach", "--mcp", "gemini", "--", "hi", env=path)["plan"]
    assert json.loads(plan["argv"][plan["argv"].index("--mcp-server") + 1])[-1] == "mcp"
    assert "--mcp-server" not in " ".join(
        sv.json("launch", "--dry-run", "--detach", "gemini", "--", "hi", env=path)["plan"]["argv"]
    )
    done = sv.run("launch", "--tmux", "--mcp", "gemini", env=path, code=1)
    assert "Use --detach, or once for all sessions: supervisor mcp install gemini" in done.err
    sv.script("pi", "true")
    plan = sv.json("launch", "--dry-run", "--mcp", "pi", "--", "hi", env=path)["plan"]
    file = plan["argv"][plan["argv"].index("--extension") + 1]
    assert "registerMcpServer" in Path(file).read_text()
    done = sv.run("launch", "--detach", "--mcp", "shell", "--", "true", code=1)
    assert "profile shell cannot be given the tools for one launch" in done.err
    assert "put `supervisor guide` into its prompt" in done.err
    assert list(Path(sv.env["HOME"]).iterdir()) == []
