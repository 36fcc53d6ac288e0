"""One whole ask of this process: target, request, waiting, decision. Standard library only (hooks call it).

Owns nothing that lasts. Never raises for what peers, records or the disk do: on doubt the answer is a denial.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from supervisor.adapters.clock import SystemClock
from supervisor.adapters.places import check_root
from supervisor.adapters.proc_stat import boot_id, pid_namespace, start_ticks
from supervisor.core.ask_reasons import NO_TARGET, TOO_LARGE, Reason, not_serving
from supervisor.core.ask_wire import build_request, encode_request
from supervisor.core.asks import Decision, abandoned
from supervisor.core.errors import BadState
from supervisor.core.serving import Judgement, Target
from supervisor.runtime.asking import Places, new_ask_id, own_part
from supervisor.runtime.pi_asking import asker_for
from supervisor.runtime.targets import resolve_target

MAX_ASK = 900 * 1024
"""A longer request is refused, never cut: a rule would judge one part of a command while the whole ran."""

DEFAULT_TIMEOUT_MS = 600_000


def ask(
    env: Mapping[str, str],
    *,
    tool: str,
    value: str,
    cwd: str,
    tool_input: Any = None,
    explicit: str | None = None,
    timeout_ms: int | None = None,
    ended: Callable[[], bool] = lambda: False,
    looked: Callable[[bool], None] = lambda _looking: None,
) -> Decision:
    """Ask for permission to use `tool` on `value`.

    `ended` tells whether nobody needs the answer any more; `looked` is told when somebody begins or ceases to look.
    """
    home = env.get("SUPERVISOR_HOME", "")
    if not os.path.isabs(home):
        return abandoned(NO_TARGET)
    try:
        used = check_root(home)
    except BadState as error:
        return abandoned(Reason("bad_state_root", str(error)))
    found = resolve_target(env, home, explicit=explicit)
    pis = isinstance(found, Target) and found.folder is not None
    if not used and not pis:  # no root, no session: and none is made for an ask
        absent = Judgement("not_serving", "heartbeat", "absent")
        return abandoned(found if isinstance(found, Reason) else not_serving(found.session_id, absent))
    clock = SystemClock()
    asker = asker_for(found, home, clock=clock)
    ask_id = new_ask_id(os.urandom(16))
    request = build_request(
        ask_id,
        now=clock.wall_ms(),
        requester=env.get("SUPERVISOR_SESSION_ID") or "unknown",
        target="" if isinstance(found, Reason) else found.session_id,
        agent_name=_name_of(env, home) or "unknown",
        tool=tool,
        value=value,
        cwd=cwd,
        ours=own_part(ask_id, _process(home), task_ref=env.get("SUPERVISOR_TASK_REF"), tool_input=tool_input),
    )
    if isinstance(found, Reason):
        return asker.given_up(request, found)
    if len(encode_request(request)) > MAX_ASK:
        return asker.given_up(request, TOO_LARGE)

    def now_at() -> Target | Reason:
        return resolve_target(env, home, explicit=explicit)

    with _told_to_end() as (wake, told):
        return asker.ask(
            request,
            found,
            timeout_ms=timeout_ms or read_timeout_ms(env, home),
            wake=wake,
            withdrawn=lambda: told() or ended(),
            moved=now_at if found.source == "entry" else None,
            looked=looked,
        )


def read_timeout_ms(env: Mapping[str, str], home: str) -> int:
    """`asks.forwarding_timeout_ms`, read at each ask; a malformed file leaves the default."""
    found = read_setting(env, home, "forwarding_timeout_ms")
    whole = isinstance(found, int) and not isinstance(found, bool)
    return found if whole and found >= 1000 else DEFAULT_TIMEOUT_MS


def read_setting(env: Mapping[str, str], home: str, name: str) -> Any:
    """`asks.NAME` of the settings' files, the root's before the user's; None when neither says anything readable."""
    value = None
    config = env.get("XDG_CONFIG_HOME") or os.path.join(env.get("HOME", ""), ".config")
    for path in (os.path.join(config, "supervisor-agents", "settings.toml"), os.path.join(home, "settings.toml")):
        try:
            with open(path, "rb") as file:
                import tomllib  # 4 ms, only where there is a file

                found = tomllib.load(file).get("asks", {}).get(name)
        except (OSError, ValueError, AttributeError, RecursionError):
            continue
        value = value if found is None else found
    return value


def _name_of(env: Mapping[str, str], home: str) -> str | None:
    from supervisor.runtime.targets import read_session

    own = env.get("SUPERVISOR_SESSION_ID")
    record = read_session(home, own) if own else None
    name = record.get("name") if record else None
    return name if isinstance(name, str) else None


def _process(home: str) -> dict[str, Any]:
    return {
        "hostId": Places(home).host_id(),
        "bootId": boot_id(),
        "pidNamespace": pid_namespace(),
        "pid": os.getpid(),
        "startTicks": start_ticks(os.getpid()),
    }


@contextmanager
def _told_to_end() -> Iterator[tuple[int | None, Callable[[], bool]]]:
    """TERM, INT and HUP end the waiting, not the process: the request is removed first. Main thread only."""
    told: list[int] = []
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.set_blocking(reader, False)
    try:
        wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    except ValueError:  # not the main thread: its owner hears the signals
        os.close(reader)
        os.close(writer)
        yield None, lambda: False
        return
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {n: signal.signal(n, lambda number, _frame: told.append(number)) for n in numbers}
    try:
        yield reader, lambda: bool(told)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        os.close(reader)
        os.close(writer)
