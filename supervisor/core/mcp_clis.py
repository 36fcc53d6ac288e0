"""How each agent CLI is told of our MCP server: its own command for that, and the files it keeps it in. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

NAME = "supervisor"
"""What the server is called in every CLI."""


class McpCli(Struct, frozen=True, kw_only=True):
    """One CLI. `{name}` and `{command}` (several words) stand for the server's; `files` begin with `$VARIABLE` or `~`.

    `path`: where in a file the server stands. `remove` is empty where the CLI has no such command: then the entry is
    taken out of its JSON file. `replaces`: whether `add` takes the place of what is there, or must be preceded by it.
    """

    name: str
    add: tuple[str, ...]
    remove: tuple[str, ...] = ()
    files: tuple[str, ...]
    path: tuple[str, ...]
    replaces: bool = True


CLIS: Mapping[str, McpCli] = {
    c.name: c
    for c in (
        McpCli(
            name="claude",
            add=("claude", "mcp", "add", "--scope", "user", "{name}", "--", "{command}"),
            remove=("claude", "mcp", "remove", "--scope", "user", "{name}"),
            files=("$CLAUDE_CONFIG_DIR/.claude.json", "~/.claude.json"),
            path=("mcpServers", NAME),
            replaces=False,
        ),
        McpCli(
            name="codex",
            add=("codex", "mcp", "add", "{name}", "--", "{command}"),
            remove=("codex", "mcp", "remove", "{name}"),
            files=("$CODEX_HOME/config.toml", "~/.codex/config.toml"),
            path=("mcp_servers", NAME),
        ),
        McpCli(
            name="gemini",
            add=("gemini", "mcp", "add", "--scope", "user", "{name}", "{program}", "--", "{arguments}"),
            remove=("gemini", "mcp", "remove", "--scope", "user", "{name}"),
            files=("$GEMINI_CLI_HOME/.gemini/settings.json", "~/.gemini/settings.json"),
            path=("mcpServers", NAME),
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
        McpCli(
            name="pi",
            add=("pi", "mcp", "add", "{name}", "--exposure", "direct", "--", "{command}"),
            remove=("pi", "mcp", "remove", "{name}"),
            files=("$PI_CODING_AGENT_DIR/mcp.json", "~/.pi/agent/mcp.json"),
            path=("mcpServers", NAME),
        ),
    )
}


def command_line(template: Sequence[str], command: Sequence[str]) -> tuple[str, ...]:
    """The words of a CLI's own command for a server that is started by `command`."""
    parts = {"{name}": (NAME,), "{command}": command, "{program}": command[:1], "{arguments}": command[1:]}
    return tuple(word for token in template for word in parts.get(token, (token,)))


FILES: Mapping[str, str] = {"claude": "mcp.json", "pi": "mcp-pi.js"}
"""What the file of ours is called that is named to the CLI for one launch, by the profile's `mcp`."""


def for_one_launch(how: str, command: Sequence[str], *, file: str) -> tuple[tuple[str, ...], dict[str, Any]]:
    """How one launch is told of it, nothing of the user's touched: the CLI's words; what `file` or a variable holds.

    `how` is the profile's `mcp`. claude reads the file; pi loads it as an extension (see `pi_extension`); codex takes a
    value of its configuration; opencode reads `OPENCODE_CONFIG_CONTENT`, where our part is merged with what is there.
    """
    server = {"command": command[0], "args": list(command[1:])}
    if how == "claude":
        return ("--mcp-config", file), {"mcpServers": {NAME: server}}
    if how == "pi":
        # direct: its model is told of the tools themselves, and its first turn waits for the server. By default a wait
        # would be ended after 60 s
        return ("--extension", file), {**server, "exposure": "direct", "timeout": 660}
    if how == "codex":
        # a JSON string, and a list of them, is a TOML one. By default a wait would be ended after 60 s, and the first
        # turn would not wait for the server and have no tools
        values = f"command={_json(server['command'])},args={_json(server['args'])},tool_timeout_sec=660,required=true"
        return ("-c", f"mcp_servers.{NAME}={{{values}}}"), {}
    return (), {"mcp": {NAME: {"type": "local", "command": list(command), "enabled": True}}}


def pi_extension(server: Mapping[str, Any]) -> str:
    """An extension of pi that adds the server to its session."""
    return (
        "// The tools of supervisor, for one session of pi. Written by supervisor launch --mcp.\n"
        f"export default (pi) => pi.registerMcpServer({_json(NAME)}, {_json(server)});\n"
    )


def _json(value: Any) -> str:
    import json

    return json.dumps(value)


def candidates(cli: McpCli, env: Mapping[str, str]) -> list[str]:
    """The files that the CLI may keep it in, in its order: below the folder of its variable if set, else at home."""
    found: dict[bool, list[str]] = {False: [], True: []}
    for file in cli.files:
        variable, _, rest = file.partition("/")
        base = env.get("HOME") if variable == "~" else env.get(variable[1:])
        if base and base.startswith("/"):
            found[variable == "~"].append(f"{base}/{rest}")
    return found[False] or found[True]


def entry_at(config: Any, path: Sequence[str]) -> Any:
    """What stands at `path` of a document; None when nothing does."""
    for key in path:
        config = config.get(key) if isinstance(config, Mapping) else None
    return config


def words_of(entry: Any) -> tuple[str, ...]:
    """The command line of a server as the CLIs' files have it; empty where there is none, or it is switched off."""
    if not isinstance(entry, Mapping) or entry.get("enabled") is False or entry.get("disabled") is True:
        return ()
    command = entry.get("command")
    words = command if isinstance(command, list) else [command, *(entry.get("args") or ())]
    return tuple(w for w in words if isinstance(w, str))


def without(config: Any, path: Sequence[str]) -> Any | None:
    """A JSON document without what stands at `path`; None when nothing stands there."""
    if not path or not isinstance(config, dict) or path[0] not in config:
        return None
    if len(path) == 1:
        return {k: v for k, v in config.items() if k != path[0]}
    inner = without(config[path[0]], path[1:])
    return None if inner is None else {**config, path[0]: inner}
