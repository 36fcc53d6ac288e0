"""One agent as the user wants it, before anything is checked against the machine. Data only."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from supervisor.core.entry import ParentRef, Terminal
from supervisor.core.launch_plan import Mode
from supervisor.core.profile import AskMode, Policy

MAX_PROMPT_BYTES = 16 * 1024 * 1024


class AgentRequest(Struct, frozen=True, kw_only=True, tag="launch"):
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
    mcp_server: str | None = None
    tree: str | None = None
    terminal: Terminal = Terminal()
    where: str = ""


class ResumeRequest(Struct, frozen=True, kw_only=True, tag="resume"):
    """One agent to be resumed. `name` and `cwd` are for people and windows, the record says what counts.

    `parent`: its new parent; `inside`: the agent that resumes it, its parent where it has none that lives. `text`: what
    it is to do, at the end of its wake prompt.
    """

    entry_id: str
    name: str
    cwd: str
    mode: Mode = "headless"
    parent: ParentRef | None = None
    inside: ParentRef | None = None
    text: str | None = None
    terminal: Terminal = Terminal()


Request = AgentRequest | ResumeRequest
