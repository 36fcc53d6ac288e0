"""An ask of a joined session: from its record to its parent, or from an in-process child to the session above it.

Unlike `runtime.ask_call` it leaves the host program's signal handlers alone: a KeyboardInterrupt withdraws the request
and goes on. Never raises for what peers, records or the disk do: that is a denial with its reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from supervisor.core.ask_reasons import TOO_LARGE, Reason
from supervisor.core.ask_wire import build_request, encode_request
from supervisor.core.asks import Decision, abandoned
from supervisor.core.serving import Target
from supervisor.library.registry import serving_here
from supervisor.runtime.ask_call import MAX_ASK, read_timeout_ms
from supervisor.runtime.asking import new_ask_id, own_part
from supervisor.runtime.compose import Context
from supervisor.runtime.pi_asking import asker_for

BAD_INPUT = Reason("malformed", "the permission request is malformed: it cannot be written as JSON text")
CLOSED = Reason("closed", "this session is closed, it can ask nobody")


def ask(
    context: Context,
    *,
    session: str,
    name: str,
    find_target: Callable[[], Target | Reason],
    tool: str,
    value: str,
    tool_input: Any,
    timeout_ms: int | None,
    withdrawn: Callable[[], bool],
) -> Decision:
    """Ask whom `find_target` names, looked up again while the ask waits: an adopted agent's ask moves along."""
    target = find_target()
    if isinstance(target, Reason):
        return abandoned(target)
    home, ask_id = context.places.home, new_ask_id(os.urandom(16))
    request = build_request(
        ask_id,
        now=context.clock.wall_ms(),
        requester=session,
        target=target.session_id,
        agent_name=name,
        tool=tool,
        value=value,
        cwd=context.cwd,
        ours=own_part(ask_id, _process(context), tool_input=tool_input),
    )
    try:
        size = len(encode_request(request))
    except (TypeError, ValueError, RecursionError):
        return abandoned(BAD_INPUT)
    asker = asker_for(target, home, clock=context.clock, registered=serving_here)
    if size > MAX_ASK:
        return asker.given_up(request, TOO_LARGE)
    return asker.ask(
        request,
        target,
        timeout_ms=timeout_ms or read_timeout_ms(context.env, home),
        withdrawn=withdrawn,
        moved=find_target if target.source == "entry" else None,
    )


def _process(context: Context) -> dict[str, Any]:
    machine = context.processes.machine()
    key = context.processes.identify(os.getpid())
    return {
        "hostId": machine.host_id,
        "bootId": machine.boot_id,
        "pidNamespace": machine.pid_namespace,
        "pid": os.getpid(),
        "startTicks": key.start_ticks if key else None,
    }
