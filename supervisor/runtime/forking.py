"""Making a keeper: forked from the warm launcher, in its own session, holding nothing of its terminal.

Forked, not executed: it costs a tenth of the memory and no start-up. Never called with threads running.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

import msgspec
from msgspec import Struct

from supervisor.adapters.bells import drain
from supervisor.adapters.own_process import become_subreaper, give_back_memory, retitle
from supervisor.core.entry import Entry
from supervisor.core.errors import os_trouble
from supervisor.core.ports import SpawnRequest
from supervisor.runtime.compose import Context
from supervisor.runtime.keeper import Keeper, me
from supervisor.runtime.kept_agent import Report
from supervisor.runtime.logs import into_file
from supervisor.runtime.loop import Loop

if TYPE_CHECKING:
    from supervisor.runtime.answering import Answering

_LOG_LIMIT = 4 * 1024 * 1024
_PIPE_BYTES = 1024 * 1024
_F_SETPIPE_SZ = 1031  # fcntl(2), Linux


class News(Struct, frozen=True):
    """One line from a keeper to its launcher: `kept`, `spawned`, `ready`, `ended`, `refused` (with `why`)."""

    what: str
    key: str = ""
    why: str = ""


Fill = Callable[[Keeper, Report], None]
"""Gives a new keeper its agents (writes their intents), inside the keeper's own process."""


def run_here(context: Context, fill: Fill, *, foreground: bool, report: Report, keeper_id: str | None = None) -> None:
    """Be the keeper, in this process, until nothing is left to keep."""
    keeper_id = keeper_id or new_keeper_id()
    parts = context.parts
    subreaper = become_subreaper()
    loop = Loop(parts.clock)
    bell = context.bells.listen(keeper_id)
    loop.watch(bell)
    keeper = Keeper(
        parts,
        keeper_id=keeper_id,
        me=me(parts),
        watches=loop,
        subreaper=subreaper,
        foreground=foreground,
        call_scan=lambda: _call_scan(context),
        report=report,
    )
    try:
        keeper.announce()
        fill(keeper, keeper.tell)
        keeper.make_answering = lambda entries: _answering(context, keeper, entries, foreground=foreground)
        until = keeper.turn()
        while until is not None:
            signals, readable = loop.wait(until)
            if bell in readable:
                drain(bell)
            keeper.hear(signals, readable)
            until = keeper.turn()
    finally:
        keeper.close()
        loop.close()
        os.close(bell)


def _answering(context: Context, keeper: Keeper, entries: Sequence[Entry], *, foreground: bool) -> Answering | None:
    """The serving side, once somebody may be asked: a parent, a mode, an inbox, or a person at this terminal."""
    on_terminal = foreground and os.isatty(0)
    if not (
        on_terminal
        or any(e.parent or e.plan.asks_mode or e.plan.asks_folder for e in entries)
        or context.may_be_attended()
    ):
        return None
    from supervisor.runtime.announcing import Announcer
    from supervisor.runtime.answering import Answering

    asks = context.asks

    def popup(session: str) -> tuple[str, ...]:
        return context.self_argv("_popup", context.places.home, session) if asks.settings().popup else ()

    announcer = Announcer(
        context.parts, env=context.env, command=lambda: asks.settings().notify, popup=popup, on_terminal=on_terminal
    )
    kind = Answering
    if any(e.plan.asks_folder for e in entries):
        from supervisor.runtime.pi_answering import PiAnswering

        kind = PiAnswering
    return kind(context.parts, asks, keeper.ref, on_terminal=on_terminal, announcer=announcer)


def fork_keeper(context: Context, fill: Fill, *, keep: tuple[int, ...] = ()) -> int:
    """Fork a detached keeper; the result is the descriptor of its news, at EOF when it has nothing more to say.

    `keep` are descriptors (locks) that the keeper shares and closes once its intents are on disk.
    """
    context.parts.now()  # warm what the keeper will need, so that it is shared
    reader, writer = os.pipe()
    gc.freeze()
    middle = os.fork()
    if middle == 0:
        # forked twice: an agent's CLI ends all its descendants with a tool call, and a keeper must not be one
        if os.fork() == 0:
            os.close(reader)
            be_keeper(context, fill, writer, keep)
        os._exit(0)
    gc.unfreeze()
    os.close(writer)
    os.waitpid(middle, 0)
    return reader


def be_keeper(context: Context, fill: Fill, writer: int, keep: tuple[int, ...]) -> NoReturn:
    """In the forked process: let go of the launcher, keep what `fill` gives, tell the news on `writer`."""
    status = 1
    try:
        os.setsid()
        _let_go(context, writer, keep)
        keeper_id = new_keeper_id()
        retitle(f"supervisor keeper {keeper_id}")
        give_back_memory()
        report = _reporter(writer)

        def filled(keeper: Keeper, tell: Report) -> None:
            fill(keeper, tell)
            for fd in keep:
                os.close(fd)
            tell("", "kept")

        run_here(context, filled, foreground=False, report=report, keeper_id=keeper_id)
        status = 0
    except BaseException as error:  # noqa: BLE001  the last chance to say why
        why = os_trouble(error) if isinstance(error, OSError) else str(error)
        with contextlib.suppress(OSError):
            os.write(writer, msgspec.json.encode(News("refused", why=why)) + b"\n")
        if not isinstance(error, SystemExit):
            sys.excepthook(type(error), error, error.__traceback__)
    finally:
        os._exit(status)


def _let_go(context: Context, writer: int, keep: tuple[int, ...]) -> None:
    """Hold nothing of the launcher: no terminal, no pipe of an agent's tool, no working directory."""
    null = os.open(os.devnull, os.O_RDWR)
    log_path = os.path.join(context.places.logs, "keepers.log")
    with contextlib.suppress(OSError):
        if os.stat(log_path).st_size > _LOG_LIMIT:
            os.replace(log_path, f"{log_path}.1")
    try:
        log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    except OSError:
        log = null
    into_file()
    for target, source in ((0, null), (1, null), (2, log)):
        os.dup2(source, target)
    wanted = sorted({0, 1, 2, writer, *keep})
    for low, high in zip(wanted, [*wanted[1:], _descriptor_limit()], strict=True):
        os.closerange(low + 1, high)
    sys.stdin, sys.stdout = open(os.devnull), open(os.devnull, "w")  # noqa: SIM115  for the life of the keeper
    sys.stderr = open(2, "w", buffering=1, closefd=False, errors="backslashreplace")  # noqa: SIM115
    os.chdir("/")


def _descriptor_limit() -> int:
    try:
        return max(int(n) for n in os.listdir("/proc/self/fd")) + 1
    except OSError:
        return 4096


def _reporter(writer: int) -> Report:
    """Never blocks: a launcher that does not read (stopped, gone) loses the news, the keeper goes on."""
    os.set_blocking(writer, False)
    with contextlib.suppress(OSError, ImportError):
        import fcntl

        fcntl.fcntl(writer, _F_SETPIPE_SZ, _PIPE_BYTES)
    lost = False

    def report(key: str, what: str) -> None:
        nonlocal lost
        if lost:
            return
        try:
            os.write(writer, msgspec.json.encode(News(what, key)) + b"\n")
        except OSError:
            lost = True
            os.close(writer)

    return report


def read_news(fd: int, rest: bytes = b"") -> tuple[list[News], bytes, bool]:
    """What has come since: (news, an unfinished line, whether the keeper still talks). Blocks until there is some."""
    data = os.read(fd, 65536)
    lines = (rest + data).split(b"\n")
    return [msgspec.json.decode(line, type=News) for line in lines[:-1]], lines[-1], bool(data)


def new_keeper_id() -> str:
    """Names a keeper's heartbeat and bell."""
    return os.urandom(6).hex()


def _call_scan(context: Context) -> None:
    """Have a fresh process look for agents whose keeper was killed; it forks a new keeper for them."""
    context.spawner.spawn(
        SpawnRequest(
            argv=context.self_argv("reconcile", "--json"),
            env={**context.env, "SUPERVISOR_HOME": context.places.home},
            cwd="/",
            new_session=True,
            stdin=os.devnull,
            output=os.devnull,
        )
    )
