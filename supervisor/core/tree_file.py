"""The tree file of `up`: a whole tree of agents in one TOML file. Pure types and whole-file validation.

The file is decoded by `adapters.profile_files.decode_toml`; the order of starts is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from supervisor.core.errors import BadInput
from supervisor.core.ids import agent_name
from supervisor.core.profile import AskMode


class AgentSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[agents.NAME]` table. `after`: started once those are ready; `parent`: whose child it is."""

    profile: str
    prompt: str | None = None
    prompt_file: str | None = None
    args: tuple[str, ...] = ()
    cwd: str | None = None
    parent: str | None = None
    task_ref: str | None = None
    task_summary: str | None = None
    model: str | None = None
    env: dict[str, str] = {}
    allow_paths: tuple[str, ...] = ()
    restart: Literal["temporary", "transient", "permanent"] | None = None
    asks: AskMode | None = None
    mcp: bool = False
    after: tuple[str, ...] = ()


class TreeFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file. `name` defaults to the file's folder and name."""

    agents: Annotated[dict[str, AgentSpec], Meta(min_length=1)]
    name: str | None = None


def problems(tree: TreeFile) -> Iterator[str]:
    """What the types cannot say: bad names, unknown parents or predecessors, cycles, two prompts at once."""
    for name, spec in tree.agents.items():
        try:
            agent_name(name)
        except BadInput as error:
            yield f"agents.{name}: {error}"
        if spec.prompt is not None and spec.prompt_file is not None:
            yield f"agents.{name}: has both prompt and prompt_file"
        for key, others in (("parent", (spec.parent,) if spec.parent else ()), ("after", spec.after)):
            for other in others:
                if other not in tree.agents:
                    yield f"agents.{name}.{key}: there is no agent {other!r} in this file"
    cycle = _cycle(
        {n: {*s.after, *([s.parent] if s.parent else [])} & set(tree.agents) for n, s in tree.agents.items()}
    )
    if cycle:
        yield f"agents: cycle of parent and after: {' → '.join(cycle)}"


def start_order(tree: TreeFile) -> list[str]:
    """Parents and predecessors first, otherwise as in the file. Only for a file without problems."""
    order: list[str] = []
    waiting = dict(tree.agents)
    while waiting:
        free = [n for n, s in waiting.items() if not ({s.parent, *s.after} & set(waiting))]
        order.extend(free)
        for name in free:
            del waiting[name]
    return order


def _cycle(needs: Mapping[str, set[str]]) -> list[str]:
    """One cycle as a path with its start repeated, or nothing."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for need in sorted(needs[name]):
            if found := visit(need, [*path, name]):
                return found
        done.add(name)
        return []

    for name in needs:
        if found := visit(name, []):
            return found
    return []
