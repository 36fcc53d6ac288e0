"""One run of the hook, from its standard input to what it prints. Reads the environment; decides nothing itself."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from supervisor.adapters.clock import SystemClock
from supervisor.core.timing import MS, TICK_MS
from supervisor.hook import arguments
from supervisor.hook.arguments import Options, Usage
from supervisor.hook.ended import Ended, Parent, unread

if TYPE_CHECKING:
    from supervisor.core.asks import Decision
    from supervisor.core.ports import Clock
    from supervisor.hook.event import SessionStarted
    from supervisor.runtime.tool_use import PermissionAsk

INPUT_WAIT_MS = 40 * TICK_MS
"""How long the event may take to arrive; CLIs write it at once."""

MISUSED_WAIT_MS = 8 * TICK_MS
"""The same when the command line is wrong anyhow, and perhaps nobody writes."""

_CHUNK = 256 * 1024


class Outcome(NamedTuple):
    """What goes to standard output and standard error, and the exit code."""

    out: str = ""
    err: str = ""
    code: int = 0


def run(words: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: int = 0, stdout: int = 1) -> Outcome:
    """Run the hook as its command line says."""
    parent, clock = Parent.now(), SystemClock()  # first of all: a CLI that dies meanwhile must not go unnoticed
    env = os.environ if env is None else env
    options = arguments.parse(words)
    if isinstance(options, Usage):
        return _misused(options.why, stdin, clock) if options.why else Outcome(err=f"{arguments.USAGE}\n", code=2)
    started = clock.monotonic_ns()
    data = read_input(stdin, wait_ms=min(INPUT_WAIT_MS, int(options.deadline * 1000)), clock=clock)
    if not env.get("SUPERVISOR_SESSION_ID"):
        return Outcome()  # not an agent of ours: no opinion, its own dialog decides
    one = OneRun(options, env, parent=parent, clock=clock, started=started, stdout=stdout)
    from supervisor.hook.reply import reply

    out = reply(data, decide=one.decide, prove=one.prove)
    return Outcome(out, one.complaint)


class OneRun:
    """What `reply` asks of the world."""

    def __init__(
        self,
        options: Options,
        env: Mapping[str, str],
        *,
        parent: Parent,
        clock: Clock,
        started: int,
        stdout: int,
    ) -> None:
        self._options = options
        self._env = env
        self._parent = parent
        self._clock = clock
        self._since_ms = clock.wall_ms()
        self._deadline = started + int(options.deadline * 1000) * MS
        self._stdout = stdout
        self.complaint = ""

    def decide(self, wanted: PermissionAsk) -> Decision | None:
        """Ask, and wait for the answer; None when nobody needs it any more."""
        from supervisor.core.ask_reasons import WITHDRAWN, Reason
        from supervisor.core.asks import abandoned
        from supervisor.runtime.ask_call import ask

        ended = Ended(
            gone=lambda: self._parent.gone() or unread(self._stdout),
            deadline=self._deadline,
            clock=self._clock,
            elsewhere=self._elsewhere(wanted),
        )
        decision = ask(
            self._env,
            tool=wanted.tool,
            value=wanted.value,
            cwd=wanted.cwd,
            tool_input=wanted.shown,
            ended=ended,
        )
        if decision.code != WITHDRAWN.code:
            return None if decision.unavailable and self._has_a_dialog() else decision
        if ended.why == "deadline":
            return abandoned(Reason("timeout", f"not decided in time, within {self._options.deadline:g} s"))
        return None if ended.why else decision

    def _has_a_dialog(self) -> bool:
        """On a terminal of its own the CLI asks the person there when nobody else decides: no opinion of ours then."""
        plan = self._record().get("plan")
        return isinstance(plan, dict) and plan.get("mode") == "interactive"

    def _record(self) -> Mapping[str, Any]:
        from supervisor.runtime.targets import read_session

        found = read_session(self._env.get("SUPERVISOR_HOME", ""), self._env.get("SUPERVISOR_SESSION_ID", ""))
        return found or {}

    def prove(self, started: SessionStarted) -> None:
        """Write down which session the CLI is in."""
        from supervisor.runtime.session_proof import write_proof

        problem = write_proof(
            started.session,
            source=started.source,
            transcript=started.transcript,
            env=self._env,
            pid=self._parent.pid,
            clock=self._clock,
        )
        if problem:
            self.complaint = f"supervisor-hook: the session id was not proven: {problem}\n"

    def _elsewhere(self, wanted: PermissionAsk) -> Callable[[], bool]:
        """Whether somebody else decides: in Claude's dialog, which is there all the time; in Codex's, when we end."""
        if self._options.cli == "codex" and self._has_a_dialog():
            from supervisor.hook.own_dialog import OwnDialog

            return OwnDialog(self._record(), self._env, clock=self._clock)
        if self._options.cli != "claude" or wanted.transcript is None:
            return lambda: False
        from supervisor.hook.elsewhere import Elsewhere

        return Elsewhere(
            wanted.transcript,
            tool_name=wanted.tool_name,
            tool_input=wanted.tool_input,
            since_ms=self._since_ms,
        )


def read_input(fd: int, *, wait_ms: int, clock: Clock) -> bytes:
    """What comes until its end, or until the wait is over; over the bound only that it was too long is kept.

    The rest is read all the same: a CLI that cannot write on might never read our reply.
    """
    from supervisor.hook.event import MAX_INPUT

    deadline = clock.monotonic_ns() + wait_ms * MS
    data = bytearray()
    try:
        while (left := deadline - clock.monotonic_ns()) > 0:
            if not select.select([fd], [], [], left / (1000 * MS))[0]:
                break
            chunk = os.read(fd, _CHUNK)
            if not chunk:
                break
            data += chunk[: MAX_INPUT + 1 - len(data)]
    except (OSError, ValueError):  # there is no standard input
        return b""
    return bytes(data)


def _misused(why: str, stdin: int, clock: Clock) -> Outcome:
    """A CLI that calls us wrongly gets its denial, a person gets the usage."""
    from supervisor.hook.event import parse
    from supervisor.hook.reply import undecided
    from supervisor.runtime.tool_use import PermissionAsk, Unclear

    err = f"supervisor-hook: {why}\n{arguments.USAGE}\n"
    data = b"" if os.isatty(stdin) else read_input(stdin, wait_ms=MISUSED_WAIT_MS, clock=clock)
    if data.strip() and isinstance(parse(data), PermissionAsk | Unclear):
        return Outcome(undecided(f"the permission hook of supervisor is called wrongly: {why}"), err)
    return Outcome(err=err, code=2)
