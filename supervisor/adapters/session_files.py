"""Finding a CLI's own session file by the patterns of its profile. Reads folder listings only."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping

_FIELD = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)|\{session_id(?::([1-9][0-9]?))?\}")
"""A variable, or the session (`{session_id:8}`: its first 8 characters)."""


class SystemSessionFiles:
    """Expands `$VAR` and `~` by the agent's environment, `{session_id}` by the session, `*` by the file system."""

    def find(self, patterns: tuple[str, ...], env: Mapping[str, str], session: str | None) -> str | None:
        """The first existing file; a pattern with an unset variable, or without the session it names, is skipped."""
        for pattern in patterns:
            path = expand(pattern, env, session)
            if path is None:
                continue
            found = sorted(glob.glob(path)) if "*" in path else [path] if os.path.exists(path) else []
            if found:
                return found[-1]
        return None

    def modified_ms(self, path: str) -> int:
        """When it was last written (epoch ms); 0 when it is gone."""
        try:
            return os.stat(path).st_mtime_ns // 1_000_000
        except OSError:
            return 0


def expand(pattern: str, env: Mapping[str, str], session: str | None) -> str | None:
    """The pattern with session and variables filled in (what they hold is no pattern); None when one is unset."""
    if pattern.startswith("~/"):
        pattern = "$HOME" + pattern[1:]
    missing = False

    def value(match: re.Match[str]) -> str:
        nonlocal missing
        of_variable, length = match.groups()
        found = env.get(of_variable) if of_variable else (session or "")[: int(length) if length else None]
        missing = missing or not found
        return glob.escape(found or "") if "*" in pattern else found or ""

    expanded = _FIELD.sub(value, pattern)
    return None if missing else expanded
