"""What a CLI wants to use a tool on, as it is asked: whole, or refused. Pure.

Strict, because what is asked here is what runs afterwards: anything that is not exactly understood is `Unclear`, and
that is answered by a denial.
"""

from __future__ import annotations

import json
import os.path
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from supervisor.core.ask_wire import approval_pattern

MAX_VALUE = 112 * 1024
"""Bytes as JSON. A longer command is refused, not cut: a rule or a person would judge a part, and the whole would run.

A request repeats the value six times; with the input below it stays under the wire's bound (a test holds that).
"""

MAX_SHOWN = 256 * 1024
"""Bytes as JSON of a tool's input that go along for people to read, beside the value, which is always whole."""

MAX_PATH = 4096

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}\Z")
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_TOOLS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "bash": ("bash", ("command",)),
    "read": ("read", ("file_path",)),
    "write": ("write", ("file_path",)),
    "edit": ("edit", ("file_path",)),
    "multiedit": ("edit", ("file_path",)),
    "notebookedit": ("edit", ("notebook_path", "file_path")),
    "webfetch": ("webfetch", ("url",)),
}
"""A CLI's tool in lower case → our name for it, and where in its input stands what it is used on."""


class PermissionAsk(NamedTuple):
    """The CLI asks whether a tool may be used. `session` and `transcript` are the CLI's own, None when not told."""

    tool: str
    value: str
    cwd: str
    tool_name: str
    tool_input: Mapping[str, Any]
    session: str | None = None
    transcript: str | None = None

    @property
    def shown(self) -> Any:
        """The input for people to read, cut where it is long."""
        size = _size(self.tool_input)
        if size <= MAX_SHOWN:
            return self.tool_input
        cut = {name: _cut(value) for name, value in self.tool_input.items()}
        return cut if _size(cut) <= MAX_SHOWN else f"[left out: {size} bytes]"


class Unclear(NamedTuple):
    """Not understood."""

    why: str


def tool_use(name: Any, given: Any, cwd: Any) -> PermissionAsk | Unclear:
    """One use of a tool, `given` its input, in the folder `cwd`."""
    try:
        return _checked(name, given, cwd)
    except RecursionError:
        return Unclear("its input is nested too deeply")


def _checked(name: Any, given: Any, cwd: Any) -> PermissionAsk | Unclear:
    if not isinstance(name, str) or not is_name(name):
        return Unclear("the request names no tool")
    if not isinstance(given, dict):
        return Unclear(f"the input of {name} is missing or no object")
    if not isinstance(cwd, str) or not 0 < len(cwd) <= MAX_PATH:
        return Unclear("the working directory is missing or malformed")
    tool, keys = _TOOLS.get(name.lower(), (name if name.startswith("mcp__") else name.lower(), ()))
    value = _value(given, keys, cwd)
    if isinstance(value, Unclear):
        return Unclear(f"{name}: {value.why}")
    problems = {"value": unfit(value), "working directory": unfit(cwd), "input": _no_text(_compact(given))}
    for what, problem in problems.items():
        if problem:
            return Unclear(f"the {what} of {name} {problem}")
    if (size := _size(approval_pattern(value))) > MAX_VALUE:
        limit = f"it is {size} bytes long, at most {MAX_VALUE} can be judged whole"
        return Unclear(f"{name}: {limit}; put it into a file and ask for that")
    return PermissionAsk(tool, value, cwd, name, given)


def _value(given: Mapping[str, Any], keys: tuple[str, ...], cwd: str) -> str | Unclear:
    """What the tool is used on: its command, path or address, else its whole input."""
    if not keys:
        return _compact(given)
    key = next((k for k in keys if k in given), keys[0])
    value = given.get(key)
    if not isinstance(value, str) or not value.strip():
        return Unclear(f"its {key} is missing or no text")
    if not key.endswith("_path") or value.startswith("~"):
        return value
    if os.path.isabs(cwd):
        value = os.path.join(cwd, value)
    return os.path.normpath(value)  # `..` must not pass a rule about folders


def is_name(text: str) -> bool:
    """Whether it can name a tool or an agent."""
    return bool(_NAME.match(text))


def unfit(text: str) -> str | None:
    """Why a text cannot be shown as what it is."""
    if _UNFIT.search(text):
        return "holds control characters; write them as escapes"
    return _no_text(text)


def _no_text(text: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return "is no valid text"
    return None


def _cut(value: Any) -> Any:
    """One part of a long input."""
    keep = MAX_SHOWN // 8
    text = value if isinstance(value, str) else _compact(value)
    return value if len(text) <= keep else f"{text[:keep]}… [cut: {len(text)} characters in all]"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _size(value: Any) -> int:
    return len(_compact(value).encode())
