"""The use cases of a tree file: read and check it whole, start what is missing, find what is running. Owns nothing."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence

from msgspec import Struct

from supervisor.adapters.atomic_file import read_bounded
from supervisor.adapters.toml_files import convert, read_toml
from supervisor.core.entry import Entry, as_parent, is_live
from supervisor.core.errors import BadInput, NotFound, Refused, SupervisorError
from supervisor.core.launch_plan import allowed_path, variable
from supervisor.core.orphans import is_ending
from supervisor.core.tree_file import AgentSpec, TreeFile, problems, start_order
from supervisor.runtime.agent_request import MAX_PROMPT_BYTES, AgentRequest
from supervisor.runtime.compose import Context

DEFAULT_FILE = "supervisor.toml"


class Tree(Struct, frozen=True):
    """A checked tree file."""

    path: str
    tree_id: str
    spec: TreeFile


def load_tree(path: str, *, cwd: str) -> Tree:
    """Read and check the whole file.

    Raises:
        NotFound, BadInput: all that is wrong with it, each with its key.
    """
    full = os.path.abspath(os.path.join(cwd, path))
    table = read_toml(full)
    agents = table.get("agents")
    for name, agent in agents.items() if isinstance(agents, dict) else ():
        convert(agent, AgentSpec, path=f"{path}: agents.{name}")  # names the agent, where the whole file could not
    spec = convert(table, TreeFile, path=path)
    wrong = list(problems(spec))
    if wrong:
        raise BadInput("\n  ".join([f"{path}:", *wrong]) if len(wrong) > 1 else f"{path}: {wrong[0]}")
    return Tree(full, tree_id(full, spec.name), spec)


def tree_id(path: str, name: str | None) -> str:
    """What the entries of a tree are marked with: its name, else its folder and file with the path's checksum."""
    if name:
        return name
    real = os.path.realpath(path)
    stem = os.path.splitext(os.path.basename(real))[0]
    folder = os.path.basename(os.path.dirname(real)) or "root"
    return f"{folder}/{stem}-{zlib.crc32(os.fsencode(real)):08x}"


def running(entries: Sequence[Entry], tree: str) -> dict[str, Entry]:
    """The live agents of a tree by name."""
    return {e.name: e for e in entries if e.tree == tree and is_live(e)}


def find_running(entries: Sequence[Entry], wanted: str, *, cwd: str) -> list[Entry]:
    """The live agents of a tree, given its file (which may be gone) or its name.

    Raises:
        NotFound: neither a file nor a running tree.
    """
    full = os.path.abspath(os.path.join(cwd, wanted))
    if os.path.isfile(full):
        table = read_toml(full)
        name = table.get("name")
        return list(running(entries, tree_id(full, name if isinstance(name, str) else None)).values())
    for candidate in (wanted, tree_id(full, None)):
        found = running(entries, candidate)
        if found:
            return list(found.values())
    known = ", ".join(sorted({e.tree for e in entries if e.tree and is_live(e)}))
    raise NotFound(
        f"there is no file {wanted!r} and no running tree of that name",
        hint=f"Running trees: {known}" if known else "No tree is running",
    )


def requests(context: Context, tree: Tree, entries: Sequence[Entry]) -> list[AgentRequest]:
    """What is missing of the tree, parents first, every part of every agent checked.

    Raises:
        BadInput, NotFound, Refused: with the agent it is about; or some of it is just being ended.
    """
    up = running(entries, tree.tree_id)
    if going := sorted(name for name, entry in up.items() if is_ending(entry)):
        names = " ".join(going)
        raise Refused(f"of tree {tree.tree_id} these are being ended: {names}", hint=f"First: supervisor wait {names}")
    out = []
    for name in start_order(tree.spec):
        try:
            request = _request(context, tree, name, up)
        except SupervisorError as error:
            raise type(error)(f"{tree.path}: agents.{name}: {error.message}", hint=error.hint) from None
        if name not in up:
            out.append(request)
    return out


def _request(context: Context, tree: Tree, name: str, up: dict[str, Entry]) -> AgentRequest:
    spec = tree.spec.agents[name]
    folder = os.path.dirname(tree.path)
    cwd = os.path.normpath(os.path.join(folder, spec.cwd or "."))
    if not os.path.isdir(cwd):
        raise BadInput(f"cwd {cwd} does not exist")
    parent = as_parent(up[spec.parent]) if spec.parent in up else None
    context.profiles.load(spec.profile)
    return AgentRequest(
        profile=spec.profile,
        name=name,
        cwd=cwd,
        prompt=_prompt(spec, folder),
        words=spec.args,
        model=spec.model,
        allowed_paths=tuple(allowed_path(p) for p in spec.allow_paths),
        env={n: v for k, raw in spec.env.items() for n, v in [_variable(k, raw)]},
        parent=parent,
        parent_name=spec.parent if spec.parent and parent is None else None,
        after=tuple(a for a in spec.after if a not in up),
        task_ref=spec.task_ref,
        task_summary=spec.task_summary,
        restart=spec.restart,
        asks=spec.asks,
        mcp=spec.mcp,
        tree=tree.tree_id,
        where=f"{tree.path}: agents.{name}",
    )


def _variable(name: str, value: str) -> tuple[str, str]:
    checked, _ = variable(f"{name}={value}")
    return checked, value


def _prompt(spec: AgentSpec, folder: str) -> bytes | None:
    if spec.prompt is not None:
        return spec.prompt.encode()
    if spec.prompt_file is None:
        return None
    path = os.path.join(folder, spec.prompt_file)
    try:
        data = read_bounded(path, MAX_PROMPT_BYTES)
    except OSError as error:
        raise BadInput(f"prompt_file {path}: {error.strerror}") from None
    if data is None:
        raise NotFound(f"prompt_file {path} does not exist")
    return data
