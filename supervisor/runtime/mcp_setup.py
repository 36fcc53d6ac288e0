"""The use case of telling an agent CLI of our MCP server, or of taking that back. Files are backed up first.

The CLI writes its own configuration where it has a command for that, so that comments and order stay. Owns
`<home>/backups`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import tomllib
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from supervisor.adapters.atomic_file import make_private, read_bounded, write_atomic
from supervisor.adapters.spawn import run, which
from supervisor.core.errors import BadInput, NotFound, Refused
from supervisor.core.mcp_clis import (
    CLIS,
    FILES,
    McpCli,
    candidates,
    command_line,
    entry_at,
    for_one_launch,
    pi_extension,
    without,
    words_of,
)
from supervisor.core.opencode_config import VARIABLE
from supervisor.core.text import printable
from supervisor.runtime.agent_request import AgentRequest
from supervisor.runtime.compose import Context

_CLI_S = 120.0  # a first start reads hundreds of megabytes
_MAX_CONFIG = 16 * 1024 * 1024


class Setup(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is to be done: the CLI's own commands, or else the file that is rewritten without our entry.

    `there`: the file in which exactly this stands already, so that nothing is to be done. `files`: those that exist and
    are backed up.
    """

    cli: str
    commands: tuple[tuple[str, ...], ...] = ()
    rewrites: str | None = None
    files: tuple[str, ...] = ()
    there: str | None = None


def server_command(context: Context) -> tuple[str, ...]:
    """How a CLI starts our server: the program beside our interpreter, else the interpreter itself."""
    script = os.path.join(os.path.dirname(context.python), "supervisor")
    return (script, "mcp") if os.access(script, os.X_OK) else context.self_argv("mcp")


def require_extra(context: Context) -> None:
    """Whether the server can run.

    Raises:
        Refused: the extra is not installed, with the command that does it.
    """
    if find_spec("mcp") is None:
        raise Refused(
            "the MCP server needs the extra `mcp`, which is not installed",
            hint="Run: uv tool install 'supervisor-agents[mcp]', or: "
            f"{shlex.quote(context.python)} -m pip install 'supervisor-agents[mcp]'",
        )


def with_tools(context: Context, request: AgentRequest) -> AgentRequest:
    """The request with what tells the CLI of our server for this launch alone.

    Raises:
        BadInput: its profile knows no way, or a variable that would be merged holds no JSON. Refused: no extra.
    """
    require_extra(context)
    profile = context.profiles.load(request.profile)
    if profile.mcp == "none":
        hint = "An agent with a shell can launch without: put `supervisor guide` into its prompt"
        raise BadInput(f"profile {profile.name} cannot be given the tools for one launch", hint=hint)
    if profile.mcp == "acp":
        if profile.driver is None or request.mode != "headless":
            once = f", or once for all sessions: supervisor mcp install {profile.name}" if profile.name in CLIS else ""
            hint = f"Use --detach{once}"
            raise BadInput(f"profile {profile.name} can be given the tools in the background only", hint=hint)
        return replace(request, mcp_server=json.dumps(server_command(context)))
    file = os.path.join(context.places.hooks, FILES.get(profile.mcp, ""))
    words, content = for_one_launch(profile.mcp, server_command(context), file=file)
    env = dict(request.env)
    if profile.mcp in FILES:
        data = (pi_extension(content) if profile.mcp == "pi" else json.dumps(content, indent=2)).encode()
        if read_bounded(file) != data:
            write_atomic(file, data)
    elif profile.mcp == "opencode":
        env[VARIABLE] = _merged(env.get(VARIABLE) or context.env.get(VARIABLE), content)
    return replace(request, words=(*words, *request.words), env=env)


def _merged(there: str | None, content: dict[str, Any]) -> str:
    try:
        config = json.loads(there) if there else {}
        config["mcp"] = {**config.get("mcp", {}), **content["mcp"]}
    except (ValueError, TypeError, AttributeError):
        raise BadInput(f"{VARIABLE} holds no configuration that could be added to") from None
    return json.dumps(config)


def plan_install(context: Context, name: str) -> Setup:
    """What `install` would do.

    Raises:
        Refused: the CLI is not installed.
    """
    cli, words = CLIS[name], server_command(context)
    files = _existing(context, cli)
    before = {file: words_of(entry) for file, entry in _entries(cli, files).items() if entry is not None}
    there = next((file for file, found in before.items() if found == words), None)
    if there is not None:
        return Setup(cli=name, there=there)
    templates = [cli.add] if cli.replaces or not before else [cli.remove, cli.add]
    return Setup(cli=name, commands=tuple(_found(context, command_line(t, words)) for t in templates), files=files)


def plan_uninstall(context: Context, name: str) -> Setup:
    """What `uninstall` would do.

    Raises:
        Refused: the CLI is not installed, or its file has comments that would be lost. NotFound: nothing is there.
    """
    cli = CLIS[name]
    files = _existing(context, cli)
    known = _entries(cli, files)
    if set(known) == set(files) and all(entry is None for entry in known.values()):
        raise NotFound(f"{name} knows no MCP server of supervisor", hint="Nothing is to be done")
    if cli.remove:
        return Setup(cli=name, commands=(_found(context, command_line(cli.remove, ())),), files=files)
    for file in files:
        if _rewritten(file, cli) is not None:
            return Setup(cli=name, rewrites=file, files=files)
    raise NotFound(f"{name} knows no MCP server of supervisor", hint="Nothing is to be done")


def carry_out(context: Context, setup: Setup) -> list[str]:
    """Back up, then do it; the backups' paths.

    Raises:
        Refused: the CLI says no, with its own words. OSError: a file could not be written; nothing was changed then.
    """
    backups = [_back_up(context, setup.cli, file) for file in setup.files]
    if setup.rewrites is not None:
        content = _rewritten(setup.rewrites, CLIS[setup.cli])
        if content is not None:
            real = os.path.realpath(setup.rewrites)  # a link into somebody's dotfiles stays one
            mode = os.stat(real).st_mode & 0o777
            write_atomic(real, content)
            os.chmod(real, mode)
        return backups
    for command in setup.commands:
        _run(context, setup.cli, command)
    return backups


def _run(context: Context, cli: str, command: Sequence[str]) -> None:
    try:
        code, out, err = run(command, env=context.env, timeout=_CLI_S)
    except OSError as error:
        raise Refused(f"{cli} did not do it: {error}") from None
    if code != 0:
        said = printable((err or out).strip())[-500:] or f"it ended with {code}"
        raise Refused(f"{cli} did not do it: {said}", hint=f"Look with: {cli} mcp list")


def _found(context: Context, words: Sequence[str]) -> tuple[str, ...]:
    program = which(words[0], path=context.env.get("PATH", ""), cwd=context.cwd)
    if program is None:
        raise Refused(f"{words[0]} was not found on PATH", hint="Install it, or correct PATH")
    return (program, *words[1:])


def _existing(context: Context, cli: McpCli) -> tuple[str, ...]:
    return tuple(f for f in candidates(cli, context.env) if os.path.isfile(f))


def _entries(cli: McpCli, files: Sequence[str]) -> dict[str, Any]:
    """What each file has of our server, None for nothing; one that cannot be read (comments) is left out."""
    out: dict[str, Any] = {}
    for file in files:
        text = (read_bounded(os.path.realpath(file), _MAX_CONFIG) or b"").decode(errors="replace")
        with contextlib.suppress(ValueError):
            out[file] = entry_at((tomllib if file.endswith(".toml") else json).loads(text), cli.path)
    return out


def _rewritten(file: str, cli: McpCli) -> bytes | None:
    """The file without our entry, None when it has none. Raises Refused: it is not plain JSON."""
    data = read_bounded(os.path.realpath(file), _MAX_CONFIG) or b""
    try:
        config = without(json.loads(data), cli.path)
    except ValueError:
        if cli.path[-1].encode() not in data:
            return None
        where = ".".join(cli.path)
        raise Refused(f"{file} has comments, which would be lost", hint=f"Take {where} out of it by hand") from None
    return None if config is None else json.dumps(config, indent=2, ensure_ascii=False).encode() + b"\n"


def _back_up(context: Context, cli: str, file: str) -> str:
    """Owner-only, beside other backups: a configuration may hold secrets."""
    folder = os.path.join(context.places.home, "backups")
    make_private(folder)
    copy = os.path.join(folder, f"{cli}-{context.clock.wall_ms()}-{os.path.basename(file).lstrip('.')}")
    write_atomic(copy, read_bounded(os.path.realpath(file), _MAX_CONFIG) or b"")
    return copy
