"""What Codex asks for, as a tool use that can be judged whole. Pure."""

from __future__ import annotations

import os.path
import shlex
from collections.abc import Mapping
from typing import Any

from supervisor.core.text import one_line
from supervisor.runtime.tool_use import PermissionAsk, Unclear, tool_use

_SHELL_FOLDERS = ("/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
"""A model may name any program as its shell: one that lies elsewhere is shown."""


def command_ask(params: Mapping[str, Any]) -> PermissionAsk | Unclear:
    """A command; input to a running one, hosts of the network and the like cannot be judged by what is told."""
    if params.get("kind", "command") != "command" or params.get("networkApprovalContext") is not None:
        return Unclear(f"codex asks for {one_line(str(params.get('kind')), 60)}, not for a command alone")
    command = params.get("command")
    if not isinstance(command, str):
        return Unclear("codex names no command")
    given = {"command": unwrapped(command), "reason": params.get("reason")}
    if given["command"] != command:
        given["commandLine"] = command
    return tool_use("Bash", given, params.get("cwd"))


def change_ask(changes: Any, params: Mapping[str, Any], *, cwd: str) -> PermissionAsk | Unclear:
    """One changed file is an edit of it; several are shown whole, so that no rule about one covers all."""
    paths = paths_of(changes)
    if not paths:
        return Unclear("codex names no files that it wants to change")
    given = {"changes": changes, "grantRoot": params.get("grantRoot"), "reason": params.get("reason")}
    if len(paths) == 1 and params.get("grantRoot") is None:
        return tool_use("Edit", {"file_path": paths[0], **given}, cwd)
    return tool_use("apply_patch", given, cwd)


def unwrapped(command: str) -> str:
    """`/bin/bash -lc 'touch MARK'` → `touch MARK`: exactly what its shell is given; anything else stays as it is."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    folder, name = os.path.split(words[0]) if len(words) == 3 else ("", "")
    shell = name in ("bash", "sh", "zsh") and folder in _SHELL_FOLDERS and words[1] in ("-lc", "-c")
    return words[2] if shell and words[2].strip() else command


def paths_of(changes: Any) -> list[str]:
    """The files of a change; nothing when any of them cannot be named."""
    if not isinstance(changes, list) or not all(
        isinstance(c, dict) and isinstance(c.get("path"), str) for c in changes
    ):
        return []
    moved = [text_of(c["kind"], "move_path") for c in changes if isinstance(c.get("kind"), dict)]
    return [c["path"] for c in changes] + [path for path in moved if path]


def text_of(source: Mapping[str, Any], key: str) -> str:
    """A field that is a text; empty when it is none."""
    value = source.get(key)
    return value if isinstance(value, str) else ""
