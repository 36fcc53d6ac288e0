"""What makes a CLI call the hook, without editing a user's files: texts for its command line. Pure.

Forms, keys and the trust of Codex are those that were verified on the real CLIs. Owns no file.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

DEADLINES: Mapping[str, float] = {"claude": 86_000, "codex": 580, "opencode": 86_000}
"""Seconds a hook waits at most by default: well under the CLI's own hook timeout, whose outcome differs by CLI."""

MAX_DEADLINE = 30 * 86_400.0
TIMEOUT_S = 86_400
"""A day: the wait for a person is bounded by the ask's own timeout, not by the CLI."""

START_TIMEOUT_S = 60
"""A session start is only written down."""

CODEX_KEYS = ("/<session-flags>/config.toml:permission_request:0:0", "/<session-flags>/config.toml:session_start:0:0")
"""Under which Codex looks up the trust in hooks that were given by `-c`."""


def claude_settings(shim: Sequence[str], timeout_s: int = TIMEOUT_S) -> dict[str, Any]:
    """For `claude --settings`: asks and session starts go to `shim` (the command that is `supervisor-hook`).

    In the exec form (`command` and `args`): behind a shell the hook would outlive its own timeout.
    """
    command, *words = _checked(shim)
    hook = {"type": "command", "command": command}
    args = [*words, "claude"]
    asking = {**hook, "args": [*args, *_deadline("claude", timeout_s)], "timeout": timeout_s}
    return {
        "disableAllHooks": False,  # a user's `true` would silence ours too
        "hooks": {
            "PermissionRequest": [{"matcher": "*", "hooks": [asking]}],
            "SessionStart": [{"hooks": [{**hook, "args": args}]}],
        },
    }


def codex_hooks(shim: Sequence[str], timeout_s: int = TIMEOUT_S) -> dict[str, str]:
    """For one `codex -c` each: asks and session starts go to `shim`. Codex has a shell run it, so words are quoted."""
    asking = shlex.join([*_checked(shim), "codex", *_deadline("codex", timeout_s)])
    starting = shlex.join([*shim, "codex"])
    return {
        "hook_ask": _codex_hook("PermissionRequest", asking, timeout_s),
        "hook_start": _codex_hook("SessionStart", starting, START_TIMEOUT_S),
    }


def codex_trust(hashes: Mapping[str, str]) -> str:
    """For a further `codex -c`: the trust in those hooks, by key what `hooks/list` calls the `currentHash`.

    An inline table: a dotted key would break at the dots of the keys.
    """
    inner = ",".join(f"{_quoted(key)}={{trusted_hash={_quoted(value)}}}" for key, value in hashes.items())
    return f"hooks.state={{{inner}}}"


def codex_hashes(answer: Any) -> dict[str, str] | None:
    """The hashes of both hooks in a result of `hooks/list`; None when one is not there."""
    try:
        listed = {h["key"]: h["currentHash"] for one in answer["data"] for h in one["hooks"]}
        found = {key: listed[key] for key in CODEX_KEYS}
    except (KeyError, TypeError):
        return None
    return found if all(isinstance(value, str) and value for value in found.values()) else None


def _codex_hook(event: str, command: str, timeout_s: int) -> str:
    return f'hooks.{event}=[{{hooks=[{{type="command",command={_quoted(command)},timeout={timeout_s}}}]}}]'


def _deadline(cli: str, timeout_s: int) -> list[str]:
    """Well before the CLI's own timeout, because what that means differs by CLI."""
    if timeout_s < 2:
        raise ValueError(f"a hook timeout of {timeout_s} s is none")
    seconds = timeout_s - min(400, -(-timeout_s // 10))
    return [] if seconds == DEADLINES[cli] else ["--deadline", str(min(seconds, int(MAX_DEADLINE)))]


def _checked(shim: Sequence[str]) -> Sequence[str]:
    if isinstance(shim, str) or not shim or not all(shim) or any("\0" in word for word in shim):
        raise ValueError(f"{shim!r} is no command")
    return shim


def _quoted(text: str) -> str:
    """A TOML basic string.

    Raises:
        ValueError: undecodable bytes cannot be written in TOML.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{text!r} is no valid text") from None
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
