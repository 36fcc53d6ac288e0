"""The demo agent itself: takes a prompt, does what its directives say, records it.

Owns its session while it runs. Never lets a directive of a malformed prompt run, and never takes doubt for
a yes.
"""

import os
import signal
import sys
import time
from typing import NamedTuple

from supervisor.demo import reply, script
from supervisor.demo.output import Output
from supervisor.demo.prompts import encode
from supervisor.demo.session import Session
from supervisor.demo.signals import Signals
from supervisor.demo.tools import Finished, Tools

RECORDED = 4096  # characters of a tool's output that the session keeps
FILE_POLL = 0.05  # seconds between two looks for an awaited file: unnoticed by a person, nothing for the machine
MALFORMED = 2


class Turn(NamedTuple):
    """How a turn came out: the code to exit with, and whether the agent leaves now or may take another."""

    code: int
    leaves: bool


class Agent:
    """One run of the demo agent over one session; changed only by its own turns."""

    def __init__(self, session: Session, *, tools: Tools, signals: Signals, out: Output, err: Output) -> None:
        self._session = session
        self._tools = tools
        self._signals = signals
        self._out = out
        self._err = err

    def take(self, prompt: str) -> Turn:
        """One turn: record the prompt, read all of it, and only then do it."""
        with self._signals:
            self._session.prompt(prompt)
        steps = script.parse(prompt)
        if isinstance(steps, script.Malformed):
            self._err.complaint(f"line {steps.line}: {steps.directive}: {steps.why}; nothing of this prompt was run")
            return Turn(MALFORMED, leaves=False)
        for step in steps:
            code = self._do(step)
            if code is not None:
                return Turn(code, leaves=True)
        self._out.line(f"DONE [turn {self._session.turn}]")
        return Turn(0, leaves=False)

    def finish(self, code: int) -> int:
        """Record the end; the process exits right after."""
        self._signals.retire()
        self._session.end(code)
        return code

    def interrupted(self, code: int) -> None:
        """A signal ends us: record it first, as the rest may take a moment that we are not given."""
        try:
            self._session.end(code)
        finally:
            self._tools.end_running()

    def _do(self, step: script.Step) -> int | None:
        """Do one step; a code when the agent is to exit with it."""
        match step:
            case script.Run(command):
                self._record(command, self._tools.run(_shell(command), echo=self._out.write))
            case script.Background(command):
                self._record(command, self._tools.start(_shell(command)))
            case script.Spawn():
                self._spawn(step)
            case script.Ask():
                self._ask(step)
            case script.Print(text):
                self._out.line(text)
            case script.Sleep(seconds):
                time.sleep(seconds)
            case script.WaitFile(path):
                while not os.path.exists(encode(path)):
                    time.sleep(FILE_POLL)
            case script.Ignore(signum):
                self._signals.ignore(signum)
            case script.Exit(code):
                return code
            case script.Crash(signum):
                return _crash(signum)
        return None

    def _spawn(self, step: script.Spawn) -> None:
        argv = _supervisor("launch", step.profile, "--name", step.name, "--detach", "--prompt-file", "-")
        result = self._tools.run(argv, stdin=encode(step.prompt), echo=self._out.write)
        if result.code:
            self._out.line(f"can't spawn {step.name}: supervisor launch ended with code {result.code}")
        self._record(f"supervisor launch {step.profile} --name {step.name}", result)

    def _ask(self, step: script.Ask) -> None:
        result = self._tools.run(_supervisor("ask", "--tool", step.tool, "--value", step.value, "--json"))
        match reply.judge(result.code, out=result.out, err=result.err):
            case reply.Allowed():
                self._out.line(f"ALLOWED {step.tool} {step.value}")
            case reply.Denied(reason):
                self._out.line(f"DENIED {step.tool} {step.value}: {reason}")
        self._record(f"supervisor ask {step.tool} {step.value}", result)

    def _record(self, command: str, result: Finished | None) -> None:
        """Note a tool call; None: it goes on in the background, and its code is not known."""
        code = None if result is None else result.code
        said = b"" if result is None else result.out + result.err
        if result is not None and result.not_started:
            self._err.complaint(f"can't run {command[:200]}: {said.decode('utf-8', 'replace')}")
        with self._signals:
            self._session.tool(command, code=code, output=said.decode("utf-8", "replace")[:RECORDED])


def _shell(command: str) -> list[bytes]:
    return [b"/bin/sh", b"-c", encode(command)]


def _supervisor(*words: str) -> list[bytes]:
    return [os.fsencode(sys.executable), b"-P", b"-m", b"supervisor", *map(encode, words)]


def _crash(signum: int) -> int:
    import resource  # here, not above: only a crash needs it

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))  # no litter
    if signum != signal.SIGKILL:
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signum})
    os.kill(os.getpid(), signum)
    return 128 + signum  # the first process of a pid namespace outlives its own signals
