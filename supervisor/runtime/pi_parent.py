"""The pi session above this process, of a pi that nobody launched through us. Standard library only (hooks use it).

Named by pi's own variables; its process is found among our ancestors, or by the pid that the environment gives. Reads
the process table, decides nothing about asks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from supervisor.adapters.proc_stat import parent_pid, start_ticks
from supervisor.core.pi import DECLARED, PARENT_PID, SESSION, forwarding_folder, parent_session

_MAX_DEPTH = 256
_TITLES = frozenset({"pi", "pi-rpc"})
"""What pi calls itself in the process table."""


class PiParent(NamedTuple):
    """A pi session: where it takes asks, and its process (pid, start ticks) as far as that is known."""

    session_id: str
    folder: str
    process: tuple[int, int] | None


def pi_parent(env: Mapping[str, str]) -> PiParent | None:
    """The pi session that the environment names, None where it names none.

    pi's tool shell only says in which session it runs: that counts while the pi itself is above us. A variable that
    names a parent counts in any case, as it does for pi.
    """
    session, folder = parent_session(env), forwarding_folder(env)
    if session is None or folder is None:
        return None
    own = session == env.get(SESSION, "").strip()
    process = _named(env.get(PARENT_PID)) or (_above(session) if own else None)
    if process is None and own and not any(env.get(name, "").strip() == session for name in DECLARED):
        return None
    return PiParent(session, folder, process)


def _named(raw: str | None) -> tuple[int, int] | None:
    if not raw or not raw.isascii() or not raw.isdigit() or not 0 < int(raw) < 2**31:
        return None
    ticks = start_ticks(int(raw))
    return None if ticks is None else (int(raw), ticks)


def _above(session: str) -> tuple[int, int] | None:
    """The nearest ancestor that does not have the session in its environment: who has put it there. It must be a pi."""
    wanted = f"{SESSION}={session}".encode()
    pid = parent_pid(os.getpid())
    for _ in range(_MAX_DEPTH):
        if pid is None or pid <= 1:
            return None
        if wanted not in _read(pid, "environ").split(b"\0"):
            ticks = start_ticks(pid)
            title = os.fsdecode(_read(pid, "cmdline").split(b"\0", 1)[0]).strip()
            return (pid, ticks) if ticks is not None and os.path.basename(title) in _TITLES else None
        pid = parent_pid(pid)
    return None


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(1 << 20)
    except OSError:
        return b""
