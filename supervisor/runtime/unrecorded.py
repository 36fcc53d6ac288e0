"""Launching while the process matrix is off: the agent runs, and not one byte is written anywhere of ours.

Without a record there is no keeper, no transcript and no restart, and nobody can be asked: the agent is on its own.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from supervisor.adapters.own_process import readable_once
from supervisor.core.errors import Refused
from supervisor.core.launch_plan import command_line
from supervisor.core.ports import Exit, Spawned, SpawnRequest
from supervisor.runtime.activation import Activated
from supervisor.runtime.agent_request import AgentRequest
from supervisor.runtime.compose import Context
from supervisor.runtime.intents import Draft
from supervisor.runtime.launching import Launcher
from supervisor.runtime.scan import Scan

NOTHING_RECORDED = Activated(Scan((), {}, {}), (), ())
"""What a launch without a matrix knows of others."""


def draft_of(context: Context, request: AgentRequest) -> Draft:
    """The checked launch; its entry stays in memory.

    Raises:
        SupervisorError: what would be wrong in any launch.
    """
    (draft,) = Launcher(context).drafts([request], ())
    return draft


def become(draft: Draft) -> NoReturn:
    """Be the agent, on this terminal.

    Raises:
        Refused: it cannot be executed.
    """
    plan = draft.entry.plan
    argv = _argv(draft)
    try:
        os.chdir(plan.cwd)
        if plan.stdin != "inherit":
            os.dup2(_input(draft), 0)
        sys.stdout.flush()
        os.execve(argv[0], argv, dict(_env(draft)))
    except OSError as error:
        raise Refused(f"{draft.entry.name} could not be started: {error.strerror}") from None


def start(context: Context, draft: Draft) -> int:
    """Start it in a session of its own, its output thrown away; its pid.

    Raises:
        Refused: it could not be started.
    """
    fd = _input(draft)
    try:
        result = context.spawner.spawn(
            SpawnRequest(
                argv=_argv(draft),
                env=_env(draft),
                cwd=draft.entry.plan.cwd,
                new_session=True,
                stdin=f"/dev/fd/{fd}",
                output=os.devnull,
            )
        )
    finally:
        os.close(fd)
    if not isinstance(result, Spawned):
        raise Refused(f"{draft.entry.name} could not be started: {result.why}")
    return result.key.pid


def exit_code_of(context: Context, pid: int) -> int:
    """Wait for a child's end; 128 + n for signals."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    ends = dict(context.spawner.reap())
    end = ends.get(pid, Exit())
    if end.signal is not None:
        return 128 + end.signal
    return 1 if end.code is None else end.code


def _argv(draft: Draft) -> tuple[str, ...]:
    prompt = (draft.prompt or b"").decode(errors="surrogateescape")
    return command_line(draft.entry.plan, session=None, prompt=prompt)


def _env(draft: Draft) -> dict[str, str]:
    """What the profile sets, and none of our own variables: they would name a session that nobody has heard of."""
    plan = draft.entry.plan
    return {**draft.env, **{n: v for n, v in plan.env_set.items() if not v.startswith("{")}}


def _input(draft: Draft) -> int:
    """A descriptor of its prompt, or of nothing."""
    if draft.entry.plan.stdin == "prompt" and draft.prompt is not None:
        return readable_once(draft.prompt)
    return os.open(os.devnull, os.O_RDONLY)
