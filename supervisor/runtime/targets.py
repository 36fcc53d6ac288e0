"""Where an ask of this process goes: its recorded parent, else the environment. Standard library only (hooks use it).

Reads records; the environment of an adopted agent still names its old parent, so the record comes first.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from supervisor.adapters.atomic_file import read_bounded
from supervisor.adapters.proc_stat import boot_id, pid_namespace
from supervisor.core.ask_reasons import NO_TARGET, Reason, cycle, own_session
from supervisor.core.ids import encode
from supervisor.core.serving import Target

_MAX_DEPTH = 64


def resolve_target(env: Mapping[str, str], home: str, *, explicit: str | None = None) -> Target | Reason:
    """The target of an ask, or why there is none. A master's own asks go to its own keeper's inbox."""
    own = _clean(env.get("SUPERVISOR_SESSION_ID"))
    if explicit is not None:
        wanted = _clean(explicit)
        if wanted is None:
            return NO_TARGET
        return Target(wanted, "env") if wanted != own else own_session(wanted)
    record = read_session(home, own) if own else None
    if own and record is not None:
        return _by_record(home, own, record)
    parent = _clean(env.get("SUPERVISOR_PARENT_SESSION"))
    if parent is None:
        return _pi_target(env, own)
    return own_session(parent) if parent == own else Target(parent, "env")


def _by_record(home: str, own: str, record: Mapping[str, Any]) -> Target | Reason:
    parent = parent_of(record)
    if parent is None or parent == own:
        return Target(own, "entry")
    folder = record["parent"].get("asksFolder")
    if isinstance(folder, str) and os.path.isabs(folder):
        return Target(parent, "entry", folder, _process_of(record["parent"]))
    seen, at = {own}, parent
    for _ in range(_MAX_DEPTH):
        if at in seen:
            return cycle(parent)
        seen.add(at)
        above = read_session(home, at)
        up = parent_of(above) if above else None
        if up is None or up == at:
            break
        at = up
    return Target(parent, "entry")


def _pi_target(env: Mapping[str, str], own: str | None) -> Target | Reason:
    """A pi that was not launched by us, as its own variables name it."""
    if not any(name.startswith("PI_") for name in env):
        return NO_TARGET
    from supervisor.runtime.pi_parent import pi_parent

    found = pi_parent(env)
    session = _clean(found.session_id) if found else None
    if found is None or session is None:
        return NO_TARGET
    return own_session(session) if session == own else Target(session, "env", found.folder, found.process)


def _process_of(parent: Mapping[str, Any]) -> tuple[int, int] | None:
    """The parent's pid and start ticks in a record, as far as they mean something here."""
    try:
        machine, key = parent["process"]["machine"], parent["process"]["key"]
        here = machine["bootId"] == boot_id() and machine["pidNamespace"] == pid_namespace()
        return (int(key["pid"]), int(key["startTicks"])) if here else None
    except (KeyError, TypeError, ValueError):
        return None


def parent_of(record: Mapping[str, Any]) -> str | None:
    """The parent's session in a record."""
    parent = record.get("parent")
    return _clean(parent.get("sessionId")) if isinstance(parent, dict) else None


def read_session(home: str, session: str) -> Mapping[str, Any] | None:
    """A session's record as plain JSON (worker before master); None when there is none or it is unreadable."""
    for role in ("worker", "master"):
        try:
            data = read_bounded(os.path.join(home, "process-matrix", f"{role}-{encode(session)}.json"))
            raw = json.loads(data) if data else None
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(raw, dict):
            return raw
    return None


def _clean(raw: Any) -> str | None:
    """pi's normalisation of a session id, and our refusals."""
    if not isinstance(raw, str):
        return None
    text = raw.strip()
    if not text or text.lower() == "unknown" or text in (".", "..") or not text.isprintable():
        return None
    try:
        return text if len(encode(text)) <= 200 else None
    except UnicodeEncodeError:
        return None
