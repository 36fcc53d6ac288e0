"""The use cases of starting: a batch under a detached keeper, or one agent in the foreground. Tells how it went.

Owns nothing that lasts; what was started is on record before this returns.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from supervisor.adapters.atomic_file import lock
from supervisor.core.entry import Entry, Terminal, is_live
from supervisor.core.errors import Refused, SupervisorError
from supervisor.core.timing import KILL_WAIT_MS, MS, STOP_REPLY_MS
from supervisor.runtime.activation import Activated, activate
from supervisor.runtime.agent_request import AgentRequest, Request, ResumeRequest
from supervisor.runtime.compose import Context
from supervisor.runtime.delivering import note_told
from supervisor.runtime.forking import News, read_news, run_here
from supervisor.runtime.intents import Draft, start_all
from supervisor.runtime.keeper import Keeper
from supervisor.runtime.kept_agent import Report
from supervisor.runtime.launching import Launcher
from supervisor.runtime.parentage import refuse_inside_sandbox
from supervisor.runtime.seed import sow

Until = Literal["spawned", "ready"]
Choose = Callable[[Activated], Sequence[Request]]
"""Which agents to start or to resume, given what is on record (under the lock of names)."""


class Started(Struct, frozen=True):
    """One agent of a batch: its entry as last read, and whether it came as far as was waited for."""

    entry: Entry
    reached: bool
    why: str = ""


@contextmanager
def names_lock(context: Context) -> Iterator[int]:
    """Between looking which names are free and having the intents on disk nobody else may do the same."""
    fd = lock(os.path.join(context.places.locks, "names"))
    try:
        yield fd
    finally:
        os.close(fd)


def start_detached(
    context: Context,
    choose: Choose,
    *,
    until: Until,
    tell: Callable[[Draft, str], None],
    refused: Callable[[ResumeRequest, SupervisorError], None] | None = None,
) -> tuple[Activated, list[Started]]:
    """Start a batch under one detached keeper and wait until each agent is up or has failed.

    `refused` is told of each resume that cannot be, and the others go on; without it the first one stops all.

    Raises:
        SupervisorError: refused before anything was started.
    """
    with names_lock(context) as names:
        activated = activate(context)
        refuse_inside_sandbox(context, activated.seen.entries)
        drafts = drafts_of(context, choose(activated), activated, refused)
        if not drafts:
            return activated, []
        news = sow(context, drafts, keep=(names,))
    try:
        results = _Wait(context, drafts, until, tell).results(news)
    finally:
        os.close(news)
    ring_parents(context, drafts, activated)
    return activated, results


def drafts_of(
    context: Context,
    requests: Sequence[Request],
    activated: Activated,
    refused: Callable[[ResumeRequest, SupervisorError], None] | None = None,
) -> list[Draft]:
    """What is to be started anew, checked as a whole, then what is to be resumed. Writes nothing.

    Raises:
        SupervisorError: what is asked for cannot be.
    """
    new = [r for r in requests if isinstance(r, AgentRequest)]
    drafts = Launcher(context).drafts(new, activated.seen.entries) if new else []
    resumes = [r for r in requests if isinstance(r, ResumeRequest)]
    if resumes:
        from supervisor.runtime.resuming import Resumer

        resumer = Resumer(context, activated)
        for request in resumes:
            try:
                drafts.append(resumer.draft(request))
            except SupervisorError as error:
                if refused is None:
                    raise
                refused(request, error)
    return drafts


def ring_parents(context: Context, drafts: Sequence[Draft], activated: Activated) -> None:
    """The parents' keepers look for the new keeper, so that its death would not go unnoticed until the next scan."""
    parents = {d.entry.parent.session_id for d in drafts if d.entry.parent}
    for keeper in {e.keeper.keeper_id for e in activated.seen.entries if e.session_id in parents}:
        context.bells.ring(keeper)


def _patience_ms(draft: Draft) -> int:
    """The profile's time to prove itself; a resume that fails is stopped as well before its record is taken back."""
    plan = draft.entry.plan
    taken_back = plan.stop_grace_ms + KILL_WAIT_MS + STOP_REPLY_MS if draft.before is not None else 0
    return plan.ready_timeout_ms + taken_back


class _Wait:
    """Follows the keeper's news until every agent has come as far as wanted."""

    def __init__(
        self, context: Context, drafts: Sequence[Draft], until: Until, tell: Callable[[Draft, str], None]
    ) -> None:
        self._context = context
        self._drafts = {d.entry.key: d for d in drafts}
        self._goal = {"ready"} if until == "ready" else {"spawned", "ready"}
        self._tell = tell
        self._talks = True
        self._heard: dict[str, set[str]] = {key: set() for key in self._drafts}
        clock = context.clock
        patience = max(_patience_ms(d) for d in drafts) * (2 if len(drafts) > 1 else 1)
        self._deadline = clock.monotonic_ns() + patience * MS

    def results(self, fd: int) -> list[Started]:
        """One result per draft.

        Raises:
            Refused: the keeper could not write the intents; nothing was started.
        """
        rest, talks = b"", True
        while talks and not self._all_there():
            left = (self._deadline - self._context.clock.monotonic_ns()) / (1000 * MS)
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                break
            news, rest, talks = read_news(fd, rest)
            for item in news:
                self._hear(item)
        self._talks = talks
        return [self._result(d) for d in self._drafts.values()]

    def _hear(self, item: News) -> None:
        if item.what == "refused":
            raise Refused(item.why or "the keeper could not start")
        if item.key in self._drafts and item.what not in self._heard[item.key]:
            self._heard[item.key].add(item.what)
            self._tell(self._drafts[item.key], item.what)

    def _all_there(self) -> bool:
        return all(heard & {*self._goal, "ended", "lost"} for heard in self._heard.values())

    def _result(self, draft: Draft) -> Started:
        entry = self._context.store.read(draft.entry.key) or draft.entry
        heard = self._heard[draft.entry.key]
        if "lost" in heard:
            return Started(entry, False, "lost")
        if heard & self._goal:  # it has been up, also when it has ended since
            return Started(entry, True)
        if not is_live(entry):
            return Started(entry, False, "ended")
        return Started(entry, False, "timeout" if self._talks else "keeper_lost")


def run_foreground(
    context: Context,
    choose: Choose,
    *,
    announce: Callable[[Entry], None] = lambda _entry: None,
    started: Callable[[str], None] = lambda _key: None,
    ready: Callable[[Entry], None] = lambda _entry: None,
) -> Entry:
    """Be the keeper of one agent that shares our terminal; returns its last record.

    `announce` is called before it is spawned (afterwards the screen is its own), `started` once, with its key, when its
    start, or its end, is on record, `ready` once it is proven up.

    Raises:
        SupervisorError: refused before anything was started.
    """
    with names_lock(context) as names:
        activated = activate(context)
        refuse_inside_sandbox(context, activated.seen.entries)
        requests = [_on_this_terminal(r) for r in choose(activated)]
        (draft,) = drafts_of(context, requests, activated)
        held = os.dup(names)

    def fill(keeper: Keeper, report: Report) -> None:
        start_all(context, [draft], keeper, report)
        os.close(held)
        if not keeper.agents:
            raise Refused(f"{draft.entry.name} was resumed by another command at the same time")
        announce(keeper.agents[0].entry)

    told = False

    def report(key: str, what: str) -> None:
        nonlocal told
        if not told:
            told = True
            started(key)
        if what == "ready" and (entry := context.store.read(key)) is not None:
            ready(entry)

    with _terminal_kept():
        run_here(context, fill, foreground=True, report=report)
    return _deliver(context, draft.entry.key) or draft.entry


def _on_this_terminal(request: Request) -> Request:
    """It shares our terminal, unless that is a pane which the request names already."""
    return replace(request, terminal=Terminal(kind="foreground")) if request.terminal.kind == "detached" else request


def _deliver(context: Context, key: str) -> Entry | None:
    """The user has seen on this terminal how it ended."""
    entry = context.store.read(key)
    if entry is None:
        return None
    told = note_told(context.store, entry, now=context.clock.wall_ms())
    context.store.sync()
    return told


@contextmanager
def _terminal_kept() -> Iterator[None]:
    """Whatever the agent did to the terminal's modes, on every way out they are as before."""
    import termios

    try:
        modes = termios.tcgetattr(0)
    except (termios.error, OSError):
        modes = None
    try:
        yield
    finally:
        if modes is not None:
            _restore(modes)


def _restore(modes: list[object]) -> None:
    import signal
    import termios

    # from a background group this would stop us: a shell that took the terminal back has set its own modes anyway
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        termios.tcsetattr(0, termios.TCSADRAIN, modes)  # type: ignore[arg-type]
    except (termios.error, OSError):
        pass
    finally:
        signal.signal(signal.SIGTTOU, before)
