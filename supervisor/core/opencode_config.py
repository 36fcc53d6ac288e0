"""opencode's configuration for one launch: what it must ask for, and what we add to what the user gives. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

VARIABLE = "OPENCODE_CONFIG_CONTENT"
"""opencode's variable with a whole configuration, merged into that of its files."""

ASKED = {"bash": "ask", "edit": "ask", "webfetch": "ask", "external_directory": "ask"}
"""What is asked for where opencode's own default is to run it."""


def with_plugin(url: str) -> str:
    """What has opencode ask, and load our plugin."""
    return json.dumps({"plugin": [url], "permission": ASKED}, separators=(",", ":"))


def merged(given: str | None, ours: Mapping[str, Any]) -> dict[str, Any] | None:
    """Our configuration below what the user gives for this launch; None when that cannot be read.

    Permissions count one by one, and plugins are all loaded.
    """
    if not given or not given.strip():
        return dict(ours)
    try:
        theirs = json.loads(given)
    except (ValueError, RecursionError):
        return None
    if not isinstance(theirs, dict):
        return None
    out = {**ours, **theirs}
    permission, plugins = theirs.get("permission", {}), theirs.get("plugin", [])
    if isinstance(permission, dict) and "permission" in ours:
        out["permission"] = {**ours["permission"], **permission}
    if isinstance(plugins, list) and "plugin" in ours:
        out["plugin"] = [*(p for p in plugins if p not in ours["plugin"]), *ours["plugin"]]
    return out


def joined(given: str | None, ours: str) -> str:
    """The same as texts. What cannot be read stays: opencode says itself what is wrong with it."""
    both = merged(given, json.loads(ours))
    return given or "" if both is None else json.dumps(both)
