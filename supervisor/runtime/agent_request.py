"""One agent as the user wants it, before anything is checked against the machine. Data only."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from supervisor.core.entry import ParentRef, Terminal
from supervisor.core.launch_plan import Mode
from supervisor.core.profile import AskMode, Policy

MAX_PROMPT_BYTES = 16 * 1024 * 1024


class AgentRequest(Struct, frozen=True, kw_only=True):
    """One agent as the user wants it. `after` and `parent_name` name agents of the same batch; `where` it was asked for
    stands before what is wrong with it."""

    profile: str
    cwd: str
    name: str | None = None
    mode: Mode = "headless"
    prompt: bytes | None = None
    words: tuple[str, ...] = ()
    model: str | None = None
    allowed_paths: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    parent: ParentRef | None = None
    parent_name: str | None = None
    after: tuple[str, ...] = ()
    agent_id: str | None = None
    task_ref: str | None = None
    task_summary: str | None = None
    restart: Policy | None = None
    asks: AskMode | None = None
    mcp: bool = False
    tree: str | None = None
    terminal: Terminal = Terminal()
    where: str = ""
