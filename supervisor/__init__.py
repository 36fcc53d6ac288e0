"""Launch, record, watch and stop trees of coding agents.

Nothing inside the package imports from here, so losing this file (a shared environment with supervisord may) costs
only `from supervisor import ...`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from supervisor.core.asks import Decision as Decision
    from supervisor.library.joining import join as join
    from supervisor.library.session import Session as Session

__all__ = ["Decision", "Session", "join"]

_HOMES = {
    "Decision": "supervisor.core.asks",
    "Session": "supervisor.library.session",
    "join": "supervisor.library.joining",
}


def __getattr__(name: str) -> object:
    """PEP 562: a public name costs its imports when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
