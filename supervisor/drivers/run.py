"""Composition of one driver process: what it reads, whom it asks, what it is told, and its exit code.

The only reader of the environment here. Owns the signal handlers and the threads that listen.
"""

from __future__ import annotations

import os
import queue
import select
import signal
import sys
import threading
from collections.abc import Mapping, Sequence

from supervisor.adapters.bells import drain
from supervisor.adapters.driver_box import DriverBox, Request
from supervisor.adapters.own_process import become_subreaper
from supervisor.core.errors import SupervisorError
from supervisor.core.ports import Clock
from supervisor.core.timing import MS
from supervisor.drivers import arguments
from supervisor.drivers.arguments import Options, Usage
from supervisor.drivers.cli_process import CliProcess
from supervisor.drivers.driver import Driver
from supervisor.drivers.effects import Job
from supervisor.drivers.kinds import KINDS, make
from supervisor.drivers.links import Around, ToldToEnd
from supervisor.drivers.parts import Decided, Event, Heard, Posted, Rung, Told
from supervisor.drivers.relay import Relay, decide_by_asking
from supervisor.drivers.transcript import Transcript
from supervisor.runtime.compose import Context
from supervisor.runtime.look import ENTRY_VARIABLE
from supervisor.runtime.session_proof import write_proof

MAX_PROMPT = 64 * 1024 * 1024
Queue = queue.SimpleQueue[Event]


def run(words: Sequence[str], *, env: Mapping[str, str]) -> int:
    """Drive the CLI that the command line names; the exit code: 0 its turn is done, 1 it is not, 2 usage, 128 + n."""
    options = arguments.parse(words, kinds=KINDS)
    if isinstance(options, Usage):
        print(f"{options.why}\n{arguments.USAGE}" if options.why else arguments.USAGE, file=sys.stderr)
        return 2
    inbox: Queue = queue.SimpleQueue()
    _hear_signals(inbox)
    become_subreaper()
    return _drive(options, dict(env), inbox)


def _drive(options: Options, env: dict[str, str], inbox: Queue) -> int:
    cwd = os.getcwd()
    context = Context(env, cwd=cwd)
    transcript = Transcript()
    try:
        context.prepare()
    except SupervisorError as error:
        transcript.say("error", str(error))
        return 1
    job = Job(options.argv, cwd, options.session, options.resume, options.model, options.paths, options.mcp)
    speaker, link = make(options.kind, job, env=env, home=context.places.home, clock=context.clock)
    entry = "" if _is_nested(context) else env.get(ENTRY_VARIABLE, "")
    cli = CliProcess(context.parts, context.spawner, entry_id=entry)
    prompt = read_prompt(0)
    if prompt is None:
        transcript.say("error", f"the prompt is longer than {MAX_PROMPT} bytes")
        return 1
    around = Around(
        cli.write,
        post=lambda message: inbox.put(Posted(message)),
        listens=cli.listens,
        wait=lambda ms: _wait(inbox, context.clock, ms),
        note=lambda text: transcript.say("note", text),
    )
    try:
        why = link.start(around)
    except ToldToEnd as told:
        return 128 + told.number
    if why is None:
        env_of_cli = {**env, **link.environment()}
        why = cli.start(speaker.command(), env=env_of_cli, cwd=cwd, on_line=lambda line: inbox.put(Heard(line)))
    if why is not None:
        transcript.say("error", why)
        return 1

    def prove(session: str, file: str | None) -> str | None:
        source = "resume" if options.resume else "startup"
        own = {**env, ENTRY_VARIABLE: entry}
        return write_proof(session, source=source, transcript=file, env=own, pid=os.getpid(), clock=context.clock)

    return Driver(
        speaker,
        link,
        cli=cli,
        asks=Relay(decide_by_asking(env), lambda key, decision: inbox.put(Decided(key, decision))),
        box=_open_box(context, entry, inbox),
        inbox=inbox,
        prompt=prompt,
        say=transcript.say,
        prove=prove if entry else lambda _session, _file: None,
        clock=context.clock,
    ).run()


def _is_nested(context: Context) -> bool:
    """Whether we are no agent but something that an agent has started: then its entry is not ours to speak for."""
    own = context.env.get(ENTRY_VARIABLE)
    return own is not None and context.processes.environment(os.getppid()).get(ENTRY_VARIABLE) == own


def read_prompt(fd: int) -> str | None:
    """All of standard input, nothing from a terminal; None when it is too long."""
    data = bytearray()
    try:
        while not os.isatty(fd) and len(data) <= MAX_PROMPT and (chunk := os.read(fd, 1024 * 1024)):
            data += chunk
    except OSError:  # there is no standard input
        return ""
    return data.decode(errors="replace") if len(data) <= MAX_PROMPT else None


def _wait(inbox: Queue, clock: Clock, ms: int) -> None:
    """Before anything runs: nothing but a signal for us matters."""
    deadline = clock.monotonic_ns() + ms * MS
    while (left := deadline - clock.monotonic_ns()) > 0:
        try:
            event = inbox.get(timeout=left / (1000 * MS))
        except queue.Empty:
            return
        if isinstance(event, Told):
            raise ToldToEnd(event.number)


def _hear_signals(inbox: Queue) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: inbox.put(Told(number)))
    signal.signal(signal.SIGCHLD, lambda _number, _frame: inbox.put(Rung()))


class _NoBox:
    """Nobody can tell us anything: we were started by hand, or the state root takes no folder."""

    def take(self) -> list[Request]:
        return []

    leave = take

    def listen_again(self) -> None:
        return

    close = listen_again


class _OpenBox:
    """A box whose bell is listened to by a thread."""

    def __init__(self, box: DriverBox, inbox: Queue) -> None:
        self._box = box
        self._inbox = inbox
        self.take, self.leave, self.close = box.take, box.leave, box.close
        self.listen_again()

    def listen_again(self) -> None:
        """Raises OSError."""
        fd = self._box.listen()
        threading.Thread(target=self._hear_bell, args=(fd,), daemon=True).start()
        self._inbox.put(Rung())  # what was put before there was a bell

    def _hear_bell(self, fd: int) -> None:
        while select.select([fd], [], [])[0]:
            drain(fd)
            self._inbox.put(Rung())


def _open_box(context: Context, entry: str, inbox: Queue) -> _OpenBox | _NoBox:
    try:
        return _OpenBox(DriverBox(context.places.home, entry), inbox)
    except (OSError, ValueError):
        return _NoBox()
