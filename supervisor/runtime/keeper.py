"""The keeper: one loop beside one or many agents. Beats first, then reaps, reads, steps each agent, syncs.

Owns its agents, its heartbeat and its bell. Nothing whose death takes an agent along: agents write their transcripts
themselves, and any later scan starts a new keeper that attaches to them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Sequence, Set
from typing import TYPE_CHECKING

from supervisor.core.entry import Entry, KeeperRef, Starting
from supervisor.core.identity import ProcessRef
from supervisor.core.liveness import Now, next_beat
from supervisor.core.timing import HEARTBEAT_REFRESH_MS, MS, STARTS_PER_TURN, TICK_MS
from supervisor.runtime.agent_exits import AgentExits
from supervisor.runtime.child_keepers import ChildKeepers
from supervisor.runtime.kept_agent import KeptAgent
from supervisor.runtime.logs import warn
from supervisor.runtime.look import Look
from supervisor.runtime.parts import Parts, Watches
from supervisor.runtime.start_order import inherit_parent, parent_unborn, predecessor_failed
from supervisor.runtime.transcript_care import TranscriptCare

if TYPE_CHECKING:
    from supervisor.runtime.answering import Answering
    from supervisor.runtime.parent_watch import ParentWatch


class Keeper:
    """`turn` is one pass; the loop calls it whenever something happened or the returned time has come."""

    def __init__(
        self,
        parts: Parts,
        *,
        keeper_id: str,
        me: ProcessRef,
        watches: Watches,
        subreaper: bool,
        foreground: bool = False,
        call_scan: Callable[[], None] = lambda: None,
        report: Callable[[str, str], None] = lambda _key, _what: None,
    ) -> None:
        self._parts = parts
        self.ref = KeeperRef(keeper_id, me)
        self._watches = watches
        self._subreaper = subreaper
        self._foreground = foreground
        self._call_scan = call_scan
        self._report = report
        self._news: list[tuple[str, str]] = []
        self._below = ChildKeepers(parts, watches)
        self.answering: Answering | None = None
        self.make_answering: Callable[[Sequence[Entry]], Answering | None] = lambda _entries: None
        self.agents: list[KeptAgent] = []
        self._exits = AgentExits(parts, watches)
        self._parents: ParentWatch | None = None
        self._beats = 0
        self._moved = False
        self._matrix_stamp = self._synced = 0
        self._bursting = False
        self._been_ready: set[str] = set()
        self._beat_due = self._beat_at = 0
        self._tick_due = 0
        self._care = TranscriptCare(parts)
        self._look = self._new_look()
        self._rung = True

    # -- agents

    def add(self, agent: KeptAgent) -> None:
        """Keep one more agent. An attached one is watched for its end."""
        self.agents.append(agent)
        if agent.attached:
            self._exits.watch(agent)

    # -- events from the loop

    def hear(self, signals: Set[int], readable: Set[int]) -> None:
        """Take in what the loop was woken by."""
        for fd in readable:
            if self._exits.heard(fd) or (self._parents is not None and self._parents.heard(fd)):
                continue
            if self._below.is_watched(fd):
                if self._below.was_killed(fd):
                    self._call_scan()
            else:
                self._rung = self._below.look_soon = True
                # perhaps an inbox came or went: who serves is looked at again, at most once a tick
                self._beat_due = min(self._beat_due, self._beat_at + TICK_MS * MS)
        if signals & {signal.SIGTERM, signal.SIGHUP}:
            self._told(signal.SIGTERM if signal.SIGTERM in signals else signal.SIGHUP)
        if signals & {signal.SIGINT} and not self._foreground:
            self._told(signal.SIGTERM)

    def _told(self, number: int) -> None:
        """TERM: wind the agents down. HUP: the terminal is gone; a foreground agent hears of it, others do not care."""
        if number == signal.SIGTERM:
            for agent in self.agents:
                agent.wind_down()
        elif self._foreground:
            for agent in self.agents:
                agent.hung_up = True
                if agent.leader:
                    self._parts.signals.send(agent.leader, signal.SIGHUP)

    # -- one pass

    def turn(self) -> int | None:
        """One pass over everything; the monotonic time (ns) of the next one, None when nothing is left to keep."""
        now = self._parts.now()
        self._beat(now)
        self._reap()
        self._read_records(now)
        self._look = self._new_look()
        times = [t for t in self._step_agents() if t is not None]
        if (due := self._watch_parents(now)) is not None:
            times.append(due)
        if self.answering is not None and (due := self.answering.turn(now)) is not None:
            times.append(due)
        if self._below.look(now, lambda: {a.entry.session_id for a in self.agents}, self.ref.keeper_id):
            self._call_scan()
        if not self._bursting and not self._stopping_many(now):
            # one group of fsyncs for a burst of starts or ends; nothing is told before it
            self._sync()
            self._tell_news()
            self._synced = now.monotonic_ns
        self._drop_done()
        if not self.agents:
            return None
        return min([self._beat_due, *times, *([now.monotonic_ns + TICK_MS * MS] if self._exits.polls else [])])

    def _beat(self, now: Now) -> None:
        """Before any work: a busy keeper is still a living one."""
        if now.monotonic_ns < self._beat_due:
            return
        self._beats += 1
        self._beat_at = now.monotonic_ns
        self._beat_due = now.monotonic_ns + HEARTBEAT_REFRESH_MS * MS
        try:
            self._parts.beats.beat(next_beat(self.ref, self._beats, now))
        except OSError as error:
            warn("the heartbeat could not be written, it is tried again", why=str(error))
        self._tell_if_moved()
        if self.answering is None:  # its modules cost a megabyte: only where somebody may be asked
            self.answering = self.make_answering([a.entry for a in self.agents])
        if self.answering is not None:
            self.answering.beat(now, [a.entry for a in self.agents])
        if self._parents is not None:
            self._parents.beat(now)
        if self._below.polled_deaths():
            self._call_scan()
        told = self._parts.proofs.stirred()
        for agent in self.agents:
            agent.beat(now, told=told)
        self._care.look(self.agents)

    def _tell_if_moved(self) -> None:
        """Once: readers do not find our heartbeat any more. Agents live on, and it is found when the root is back."""
        moved = self._parts.beats.misplaced(self.ref.keeper_id)
        if moved and not self._moved:
            warn(
                "the state root was moved away or made anew under this keeper; its agents live on",
                home=self._parts.home,
            )
        self._moved = moved

    def _reap(self) -> None:
        reaped = self._parts.spawner.reap()
        by_pid: dict[int, KeptAgent] = {}
        if reaped:
            by_pid = {a.leader.pid: a for a in self.agents if a.leader and not isinstance(a.entry.state, Starting)}
        strangers = []
        for pid, end in reaped:
            agent = by_pid.get(pid)
            if agent is None:
                strangers.append(pid)
            else:
                agent.ended(end)
                self._exits.forget(agent)
        if strangers and self._parts.beats.owners().keys() & set(strangers):
            self._call_scan()  # a keeper below us was killed: its agents get a new one at once
        self._exits.poll()

    def _read_records(self, now: Now) -> None:
        """Take in what others wrote: when rung, and at every tick anyway (a stat of each record)."""
        if not self._rung and now.monotonic_ns < self._tick_due:
            return
        if self._rung:
            for agent in self.agents:
                if self._parts.bells.stop_marked(agent.entry.entry_id):
                    agent.stop()
        stamp = self._parts.store.stamp()
        quiet = not self._rung and stamp == self._matrix_stamp != 0
        self._rung = False
        self._tick_due = now.monotonic_ns + HEARTBEAT_REFRESH_MS * MS
        if quiet:
            return
        # a folder's time is coarse: what was written just now may be followed by a change that does not show
        self._matrix_stamp = stamp if now.wall_ms * MS - stamp > TICK_MS * MS else 0
        try:
            changed = set(self._parts.store.changed([a.entry for a in self.agents]))
            for agent in self.agents:
                if agent.entry.key in changed:
                    agent.refresh()
        except OSError as error:
            warn("records could not be read, they are read again", why=str(error))

    def _step_agents(self) -> Iterable[int | None]:
        started = 0

        def may_start(entry: Entry) -> bool:
            nonlocal started
            state = entry.state
            if not isinstance(state, Starting) or not self._predecessors_ready(state.waits_for):
                return False
            if parent_unborn(entry, self.agents):
                return False
            started += 1
            return started <= STARTS_PER_TURN

        for agent in self.agents:
            if agent.at_rest:
                continue
            if isinstance(agent.entry.state, Starting):
                if predecessor_failed(agent.entry.state, self.agents, self._been_ready):
                    why = "what it waits for ended before it was ready"
                    agent.close_unstarted(why, self._parts.now(), cause="lost")
                    continue
                inherit_parent(agent, self.agents)
            was = agent.leader
            yield agent.turn(self._parts.now(), self._look, may_start=may_start)
            if agent.is_ready:
                self._been_ready.add(agent.entry.entry_id)
            if agent.attached and agent.leader is not None and agent.leader != was:
                self._exits.watch(agent)
        self._bursting = started > STARTS_PER_TURN or self._somebody_waits()
        if self._bursting:
            yield self._parts.clock.monotonic_ns()

    def _watch_parents(self, now: Now) -> int | None:
        """Workers learn that their parent is lost; a keeper of masters never loads what that takes."""
        if self._parents is None:
            if all(a.entry.parent is None for a in self.agents):
                return None
            from supervisor.runtime.parent_watch import ParentWatch

            self._parents = ParentWatch(self._parts, self._watches, call_scan=self._call_scan, tell=self._tell_orphan)
        return self._parents.turn(now, self.agents)

    def _tell_orphan(self, entry: Entry) -> None:
        if self.answering is not None:
            self.answering.orphaned(entry)

    def _stopping_many(self, now: Now) -> bool:
        """While agents are ending their records wait for each other, at most a tick."""
        if now.monotonic_ns - self._synced >= TICK_MS * MS:
            return False
        return any(a.is_stopping for a in self.agents if not a.at_rest)

    def _somebody_waits(self) -> bool:
        """Whether an agent may start at once because what it waited for has just become ready."""
        return any(
            not a.at_rest
            and isinstance(s := a.entry.state, Starting)
            and s.not_before is None
            and not a.record.dirty
            and self._predecessors_ready(s.waits_for)
            and not parent_unborn(a.entry, self.agents)
            for a in self.agents
        )

    def _predecessors_ready(self, waits_for: Sequence[str]) -> bool:
        return all(entry_id in self._been_ready for entry_id in waits_for)

    def _sync(self) -> None:
        try:
            self._parts.store.sync()
        except OSError as error:
            warn("records are not on stable storage yet, it is tried again", why=str(error))

    def tell(self, key: str, what: str) -> None:
        """News for the launcher, told once the records behind it are durable."""
        self._news.append((key, what))

    def _tell_news(self) -> None:
        for key, what in self._news:
            self._report(key, what)
        self._news.clear()

    def _drop_done(self) -> None:
        for agent in [a for a in self.agents if not a.at_rest and a.done]:
            self._exits.forget(agent)
            self._parts.bells.unmark_stop(agent.entry.entry_id)
            self.agents.remove(agent)

    def _new_look(self) -> Look:
        return Look(
            self._parts.processes,
            home=self._parts.home,
            me=self.ref.process.key.pid,
            agents=lambda: {a.leader.pid for a in self.agents if a.leader},
            keepers=self._parts.beats.owners,
            subreaper=self._subreaper,
            alone=len(self.agents) <= 1,
        )

    def announce(self) -> None:
        """The first beat, before the first intent: a stop that looks now sees that this process is a keeper.

        The next one is due at once: with its agents known, their sessions serve from the start.
        """
        self._beat(self._parts.now())
        self._beat_due = 0

    def close(self) -> None:
        """A clean end leaves no heartbeat, no serving mark and no bell."""
        if self.answering is not None:
            self.answering.close()
        self._parts.beats.remove(self.ref.keeper_id)
        self._parts.bells.remove(self.ref.keeper_id)


def me(parts: Parts) -> ProcessRef:
    """This process as a record holds it."""
    ref = parts.ref(os.getpid())
    assert ref is not None  # we are alive
    return ref
