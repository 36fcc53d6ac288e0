"""`python -P -m supervisor.demo`: puts the demo agent together from its command line and its environment.

Owns the process and how it exits. Never runs a directive itself.
"""

import os
import sys

from supervisor.demo import arguments, prompts, session
from supervisor.demo.agent import Agent
from supervisor.demo.output import Output, hold_standard_descriptors
from supervisor.demo.session import Refused, Session
from supervisor.demo.signals import Signals
from supervisor.demo.tools import Tools

REFUSED = 1
MISUSED = 2


def main() -> int:
    signals = Signals()
    signals.install()
    hold_standard_descriptors()
    out, err = Output(1), Output(2)
    options = arguments.parse([prompts.decode(os.fsencode(word)) for word in sys.argv[1:]])
    if isinstance(options, arguments.Help):
        out.line(arguments.USAGE)
        return 0
    if isinstance(options, arguments.Misused):
        err.complaint(f"{options.why}; {arguments.USAGE}")
        return MISUSED
    try:
        return _run(options, signals=signals, out=out, err=err)
    except OSError as error:
        err.complaint(f"can't go on: {error}")
        return REFUSED


def _run(options: arguments.Options, *, signals: Signals, out: Output, err: Output) -> int:
    with signals:
        opened = _open(options)
    if isinstance(opened, Refused):
        err.complaint(opened.why)
        return REFUSED
    tools = Tools(env=_tool_environment(opened.session_id), signals=signals)
    agent = Agent(opened, tools=tools, signals=signals, out=out, err=err)
    signals.before_exit = agent.interrupted
    out.json_line(
        type="session",
        session_id=opened.session_id,
        resumed=options.resume is not None,
        turn=opened.turn + 1,
    )
    return agent.finish(_converse(options, agent=agent, err=err))


def _open(options: arguments.Options) -> Session | Refused:
    where = session.folder(os.environ)
    if options.resume is not None:
        return session.resume(where, session_id=options.resume)
    session_id = options.session_id
    if session_id is None:
        import uuid  # here, not above: mostly the caller chooses

        session_id = str(uuid.uuid4())
    return session.start(where, session_id=session_id, cwd=os.getcwd(), pid=os.getpid(), model=options.model)


def _converse(options: arguments.Options, *, agent: Agent, err: Output) -> int:
    """Take the prompts where they are; gives the code to exit with."""
    interactive = options.interactive or (options.prompt is None and os.isatty(0))
    first = options.prompt
    if first is None and not interactive:
        given = prompts.whole()
        if isinstance(given, prompts.TooLong):
            return _too_long(given, err=err)
        first = given
    if first is not None:
        turn = agent.take(first)
        if turn.leaves or not interactive:
            return turn.code
    for line in prompts.lines():
        if isinstance(line, prompts.TooLong):
            return _too_long(line, err=err)
        turn = agent.take(line)
        if turn.leaves:
            return turn.code
    return 0


def _too_long(prompt: prompts.TooLong, *, err: Output) -> int:
    err.complaint(f"the prompt is longer than {prompt.limit} bytes; nothing of it was run")
    return MISUSED


def _tool_environment(session_id: str) -> dict[bytes, bytes]:
    """What our tools get: all we got, and the names by which this CLI marks its own tools."""
    return {**os.environb, b"DEMO_AGENT": b"1", b"DEMO_SESSION_ID": prompts.encode(session_id)}


if __name__ == "__main__":
    os._exit(main())  # all is written; no clean-up of the interpreter may be interrupted or complain
