"""The use case of a tree in tmux: one window, a titled pane for each agent, parents first. Owns nothing that lasts.

Each pane is a keeper of its own, so the agents are started one after the other; everything is checked before the first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from supervisor.adapters.atomic_file import locked
from supervisor.adapters.tmux import Pane, new_window, split, title
from supervisor.core.entry import Entry, as_parent, is_live
from supervisor.core.errors import SupervisorError
from supervisor.core.timing import READY_TIMEOUT_MS
from supervisor.runtime.activation import activate
from supervisor.runtime.agent_request import AgentRequest
from supervisor.runtime.compose import Context
from supervisor.runtime.launching import Launcher
from supervisor.runtime.panes import open_pane
from supervisor.runtime.parentage import refuse_inside_sandbox
from supervisor.runtime.trees import Tree, requests, running


class InPane(Struct, frozen=True):
    """One agent of the tree: its entry, or why it was not started."""

    name: str
    entry: Entry | None
    why: str = ""


class TreeWindow:
    """The window of one tree. When it has no room left another one of the same name is opened."""

    def __init__(self, name: str, env: Mapping[str, str], *, socket: str | None = None) -> None:
        self._name = name
        self._env = env
        self._socket = socket
        self._last: Pane | None = None

    def open(self, argv: Sequence[str], *, agent: str, cwd: str) -> None:
        """Run `argv` in a pane that bears the agent's name.

        Raises:
            Refused: tmux says no.
        """
        pane = None
        if self._last is not None:
            try:
                pane = split(argv, beside=self._last, cwd=cwd, env=self._env)
            except SupervisorError:  # no room, or its agent has ended and taken the window along
                pane = None
        if pane is None:
            pane = new_window(argv, name=self._name, cwd=cwd, env=self._env, socket=self._socket)
        title(pane, agent, env=self._env)
        self._last = pane


def up_in_tmux(
    context: Context, tree: Tree, *, socket: str | None, tell: Callable[[InPane], None]
) -> tuple[dict[str, Entry], list[InPane]]:
    """Start what is missing of a tree: what ran before by name, and what became of the others.

    Raises:
        SupervisorError: something is wrong with the tree as a whole; nothing was started.
    """
    with locked(os.path.join(context.places.locks, "up-tmux"), wait_ms=READY_TIMEOUT_MS * 2):  # twenty make one tree
        activated = activate(context)
        entries = activated.seen.entries
        refuse_inside_sandbox(context, entries)
        todo = [replace(r, mode="interactive") for r in requests(context, tree, entries)]
        Launcher(context).drafts(todo, entries)
        before = running(entries, tree.tree_id)
        window = TreeWindow(tree.tree_id, context.env, socket=socket)
        done: dict[str, InPane] = {}
        for request in todo:
            name = request.name or request.profile
            done[name] = _start(context, request, name, window, done)
            tell(done[name])
    return before, list(done.values())


def _start(
    context: Context, request: AgentRequest, name: str, window: TreeWindow, done: Mapping[str, InPane]
) -> InPane:
    needed = [*request.after, *([request.parent_name] if request.parent_name else [])]
    missing = next((n for n in needed if done[n].entry is None), None)
    if missing is not None:
        return InPane(name, None, f"{missing}, which it needs, was not started")
    parent = request.parent
    if request.parent_name is not None and (above := done[request.parent_name].entry) is not None:
        parent = as_parent(above)
    single = replace(request, parent=parent, parent_name=None, after=())
    try:
        entry = open_pane(context, single, lambda argv: window.open(argv, agent=name, cwd=request.cwd))
    except SupervisorError as error:
        return InPane(name, None, str(error))
    ended = not is_live(entry)
    return InPane(name, entry, "it has ended already" if ended else "")
