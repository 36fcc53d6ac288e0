"""The two process-global registries: in-process children by child session id, and the sessions that serve here.

Owned by a carrier in `sys.modules`, made once by whoever comes first: a reloaded or second copy of this file finds the
same marks. They hold plain containers only (a class would be another one in each copy), a state of its own for each
pid (a fork inherits nothing), and marks that only their token takes away, so nothing has to be torn down.
"""

from __future__ import annotations

import os
import sys
import threading
from types import ModuleType
from typing import Any

CARRIER = "_supervisor_agents_shared_v1"
"""Bears a version: an incompatible later layout takes another name."""


def shared() -> dict[str, Any]:
    """This process's state. Both `setdefault`s are atomic: two threads that import at once agree on one object."""
    carrier = sys.modules.setdefault(CARRIER, ModuleType(CARRIER))
    fresh: dict[str, Any] = {
        "lock": threading.RLock(),  # of the marks: held for no longer than a look at them
        "joining": threading.RLock(),
        "joined": None,
        "children": {},
        "serving": {},
    }
    state: dict[str, Any] = vars(carrier).setdefault(f"process_{os.getpid()}", fresh)
    return state


def add_child(child: str, parent: str) -> object:
    """Register an in-process child under its own session id; the token that takes exactly this mark away."""
    return _add("children", child, parent)


def remove_child(child: str, token: object) -> None:
    """Take one mark away; another's mark of the same child stays."""
    _remove("children", child, token)


def parent_of(child: str) -> str | None:
    """The parent session of an in-process child; None when it is none (any more)."""
    state = shared()
    with state["lock"]:
        marks = state["children"].get(child)
        return str(next(reversed(marks.values()))) if marks else None


def children_of(parent: str) -> list[str]:
    """The in-process children of a session."""
    state = shared()
    with state["lock"]:
        return [child for child, marks in state["children"].items() if parent in marks.values()]


def mark_serving(session: str) -> object:
    """Say that a session of this process is served; the token that takes exactly this mark away."""
    return _add("serving", session, True)


def unmark_serving(session: str, token: object) -> None:
    """Take one mark away; the session serves as long as another is left."""
    _remove("serving", session, token)


def is_serving(session: str) -> bool:
    """Whether any mark of that session is up."""
    state = shared()
    with state["lock"]:
        return bool(state["serving"].get(session))


def serving_here() -> list[str]:
    """All sessions of this process that serve."""
    state = shared()
    with state["lock"]:
        return list(state["serving"])


def _add(kind: str, key: str, value: object) -> object:
    token, state = object(), shared()
    with state["lock"]:
        state[kind].setdefault(key, {})[token] = value
    return token


def _remove(kind: str, key: str, token: object) -> None:
    state = shared()
    with state["lock"]:
        marks = state[kind].get(key, {})
        marks.pop(token, None)
        if not marks:
            state[kind].pop(key, None)
