"""How each agent CLI is told of our MCP server: its own command for that, and the files it keeps it in. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

OPENCODE_CONTENT = "OPENCODE_CONFIG_CONTENT"
"""opencode's variable with a whole configuration, merged into that of its files."""

NAME = "supervisor"
"""What the server is called in every CLI."""


class McpCli(Struct, frozen=True, kw_only=True):
    """One CLI. `{name}` and `{command}` (several words) stand for the server's; `files` begin with `$VARIABLE` or `~`.

    `remove` is empty where the CLI has no such command: then the entry at `path` of its JSON file is taken out.
    """

    name: str
    add: tuple[str, ...]
    remove: tuple[str, ...] = ()
    files: tuple[str, ...]
    path: tuple[str, ...] = ()


CLIS: Mapping[str, McpCli] = {
    c.name: c
    for c in (
        McpCli(
            name="claude",
            add=("claude", "mcp", "add", "--scope", "user", "{name}", "--", "{command}"),
            remove=("claude", "mcp", "remove", "--scope", "user", "{name}"),
            files=("$CLAUDE_CONFIG_DIR/.claude.json", "~/.claude.json"),
        ),
        McpCli(
            name="codex",
            add=("codex", "mcp", "add", "{name}", "--", "{command}"),
            remove=("codex", "mcp", "remove", "{name}"),
            files=("$CODEX_HOME/config.toml", "~/.codex/config.toml"),
        ),
        McpCli(
            name="gemini",
            add=("gemini", "mcp", "add", "--scope", "user", "{name}", "{program}", "--", "{arguments}"),
            remove=("gemini", "mcp", "remove", "--scope", "user", "{name}"),
            files=("$GEMINI_CLI_HOME/.gemini/settings.json", "~/.gemini/settings.json"),
        ),
        McpCli(
            name="opencode",
            add=("opencode", "mcp", "add", "{name}", "--", "{command}"),
            files=(
                "$XDG_CONFIG_HOME/opencode/opencode.jsonc",
                "$XDG_CONFIG_HOME/opencode/opencode.json",
                "~/.config/opencode/opencode.jsonc",
                "~/.config/opencode/opencode.json",
            ),
            path=("mcp", NAME),
        ),
    )
}


def command_line(template: Sequence[str], command: Sequence[str]) -> tuple[str, ...]:
    """The words of a CLI's own command for a server that is started by `command`."""
    parts = {"{name}": (NAME,), "{command}": command, "{program}": command[:1], "{arguments}": command[1:]}
    return tuple(word for token in template for word in parts.get(token, (token,)))


def for_one_launch(how: str, command: Sequence[str], *, file: str) -> tuple[tuple[str, ...], dict[str, Any]]:
    """How one launch is told of it, nothing of the user's touched: the CLI's words; what `file` or a variable holds.

    `how` is the profile's `mcp`. claude reads the file; codex takes a value of its configuration; opencode reads
    `OPENCODE_CONFIG_CONTENT`, in which our part is merged with what is there.
    """
    server = {"command": command[0], "args": list(command[1:])}
    if how == "claude":
        return ("--mcp-config", file), {"mcpServers": {NAME: server}}
    if how == "codex":
        # a JSON string, and a list of them, is a TOML one. By default a wait would be ended after 60 s, and the first
        # turn would not wait for the server and have no tools
        values = f"command={_json(server['command'])},args={_json(server['args'])},tool_timeout_sec=660,required=true"
        return ("-c", f"mcp_servers.{NAME}={{{values}}}"), {}
    return (), {"mcp": {NAME: {"type": "local", "command": list(command), "enabled": True}}}


def _json(value: Any) -> str:
    import json

    return json.dumps(value)


def candidates(cli: McpCli, env: Mapping[str, str]) -> list[str]:
    """The files that the CLI may keep it in, in its own order; those of an unset variable are not among them."""
    out = []
    for file in cli.files:
        variable, _, rest = file.partition("/")
        base = env.get("HOME") if variable == "~" else env.get(variable[1:])
        if base and base.startswith("/"):
            out.append(f"{base}/{rest}")
    return out


def without(config: Any, path: Sequence[str]) -> Any | None:
    """A JSON document without what stands at `path`; None when nothing stands there."""
    if not path or not isinstance(config, dict) or path[0] not in config:
        return None
    if len(path) == 1:
        return {k: v for k, v in config.items() if k != path[0]}
    inner = without(config[path[0]], path[1:])
    return None if inner is None else {**config, path[0]: inner}
