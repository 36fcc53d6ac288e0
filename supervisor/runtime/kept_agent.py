"""One agent under its keeper: started, seen ready, ended, started again or stopped. Owns its life, not the loop.

Knows nothing of how many share the keeper. Every step is short; waiting is a time to come back at.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Mapping
from typing import Literal

from msgspec.structs import replace

from supervisor.core import transitions
from supervisor.core.agent_env import whole_environment
from supervisor.core.ending import death, ended, not_started
from supervisor.core.entry import (
    Adopted,
    Death,
    Entry,
    Output,
    Running,
    Starting,
    WindDownReason,
    WindingDown,
    is_live,
    unconfirmed,
)
from supervisor.core.identity import ProcessKey, ProcessRef
from supervisor.core.liveness import Now
from supervisor.core.ports import Exit, SpawnFailed, SpawnRequest
from supervisor.core.restarts import StartAt, after_death
from supervisor.core.timing import MS, TICK_MS
from supervisor.runtime.look import Look, heir_of
from supervisor.runtime.parts import Parts
from supervisor.runtime.proof import Proof
from supervisor.runtime.record import Record
from supervisor.runtime.resume_watch import ResumeWatch
from supervisor.runtime.start_line import start_line
from supervisor.runtime.stop_ladder import Over, StopLadder
from supervisor.runtime.tree_end import Leftovers, kill_tree

Report = Callable[[str, str], None]
"""(entry key, what happened): `spawned`, `ready`, `ended`."""


class KeptAgent:
    """`attached`: started by an earlier keeper, so not our child."""

    def __init__(
        self, entry: Entry, env: Mapping[str, str], *, parts: Parts, report: Report, attached: bool = False
    ) -> None:
        self.record = Record(entry, parts.store)
        self._env = env
        self._parts = parts
        self._report = report
        self.attached = attached
        self._exit: Exit | None = None
        self._ladder = StopLadder(parts)
        self._proof = Proof(parts)
        self._leftovers = Leftovers(parts)
        self._resume = ResumeWatch()
        self.at_rest = False
        self.hung_up = False
        self._released = False
        self.transcript = entry.output.transcript
        self._spread = zlib.crc32(entry.entry_id.encode()) / 2**32
        self.heartbeat_due = parts.clock.monotonic_ns() + self._first_heartbeat(entry)

    def _first_heartbeat(self, entry: Entry) -> int:
        """Spread over the period, so that a hundred entries are not rewritten at once."""
        period = self._parts.limits.heartbeat_ms * MS
        return period * (zlib.crc32(entry.entry_id.encode()) % 1000 + 500) // 1000

    @property
    def entry(self) -> Entry:
        """The record."""
        return self.record.entry

    @property
    def leader(self) -> ProcessKey | None:
        """The agent's process, None before its spawn and after its end."""
        ref = self.entry.generation.process
        return ref.key if ref and self._exit is None else None

    @property
    def done(self) -> bool:
        """Nothing left to do: its end is on disk or nowhere to be written, or another keeper has it, or will."""
        return self._released or self.record.over

    @property
    def is_stopping(self) -> bool:
        """On the stop ladder, its end not decided yet."""
        return self._ladder.begun and is_live(self.entry)

    @property
    def is_ready(self) -> bool:
        """Proven up."""
        return isinstance(self.entry.state, Running) and self.entry.state.ready_at is not None

    @property
    def minds_parent(self) -> bool:
        """Whether it matters to it that its parent is lost: it lives, and nobody is ending it."""
        if self._exit is not None or self._ladder.begun or self.entry.want == "down" or self.done:
            return False
        return not (isinstance(self.entry.state, Starting) or self._winds_down())

    def ended(self, end: Exit) -> None:
        """The leader is gone. What follows is decided at the next turn."""
        self._exit = end
        self.at_rest = False

    def refresh(self) -> None:
        """Take in what others wrote into the record."""
        self.record.refresh()
        self.at_rest = False

    def turn(self, now: Now, look: Look, *, may_start: Callable[[Entry], bool]) -> int | None:
        """One step; the monotonic time (ns) to come back at, None when only an event can change anything."""
        if self.done:
            return None
        self.record.flush()
        known = self.record.taken
        due = self._step(now, look, may_start)
        if self.record.taken != known:  # another's wish came in with a write of ours: it is acted on at once
            return now.monotonic_ns
        if not self.record.dirty:
            # nothing to do until it ends, is stopped, or its record changes: most agents, most of the time
            self.at_rest = due is None and self.is_ready and self._exit is None and not self._ladder.begun
            return due
        retry = now.monotonic_ns + TICK_MS * MS  # a disk that takes nothing is asked again at a tick, not at once
        return retry if due is None else max(due, retry)

    def _step(self, now: Now, look: Look, may_start: Callable[[Entry], bool]) -> int | None:
        if not is_live(self.entry):
            return None  # its end is decided, and only waits to be written
        if isinstance(self.entry.state, Starting):
            return self._turn_starting(self.entry.state, now, look, may_start)
        if self._ladder.begun or self.entry.want == "down" or self._winds_down():
            return self._turn_stopping(now, look)
        if self._exit is not None:
            return self._turn_ended(self._exit, now, look)
        return self._turn_running(now)

    def _winds_down(self) -> bool:
        """An earlier keeper had begun to stop it, or nobody has adopted it (which is on disk before any signal)."""
        if not isinstance(s := self.entry.state, WindingDown) or s.reason == "parent_lost":
            return False
        return s.reason != "not_adopted" or not self.record.dirty

    # -- starting

    def _turn_starting(self, state: Starting, now: Now, look: Look, may_start: Callable[[Entry], bool]) -> int | None:
        if self.entry.want == "down" or self._ladder.begun:
            self.close_unstarted("it was stopped before it started", now)
            return None
        if self.record.dirty:  # intent before deed: nothing is spawned that is not on record
            return None
        if state.not_before is not None:
            if now.monotonic_ns < state.not_before:
                return state.not_before
            if self._stop_arrived():
                return now.monotonic_ns
        if not may_start(self.entry):
            return None
        if self.entry.generation.resumes and (self.entry.plan.driven or state.unconfirmed):
            # a CLI whose driver and keeper were both killed may still be in that session, a tool of it at its files
            left = look.tree(self.entry.entry_id, None, attached=True)
            if again_at := self._leftovers.settle(look, self.entry.entry_id, left, now, attached=True, kill=True):
                return again_at
        self._start(now)
        return now.monotonic_ns if self._proof.due(self.entry) else None

    def _stop_arrived(self) -> bool:
        """A stop during the backoff counts, also when its bell was lost."""
        self.record.look()
        return self.entry.want == "down" or self.record.lost

    def _start(self, now: Now) -> None:
        self._exit = None
        plan = self.entry.plan
        try:
            argv = start_line(self.entry)
        except OSError as error:
            return self._spawn_failed(f"its prompt cannot be read: {error.strerror}", now)
        output_from = self._proof.output_size(self.entry)
        result = self._parts.spawner.spawn(
            SpawnRequest(
                argv=argv,
                env=self._environment(),
                cwd=plan.cwd,
                new_session=plan.mode == "headless",
                stdin={"null": "/dev/null", "prompt": plan.prompt_file, "inherit": None}[plan.stdin],
                output=self.entry.output.transcript,
            )
        )
        if isinstance(result, SpawnFailed):
            return self._spawn_failed(result.why, now)
        self.attached = False
        process = ProcessRef(now.machine, result.key)

        def move(entry: Entry) -> Entry:
            started = transitions.spawned(entry, process, output_from=output_from, now=now.wall_ms)
            return transitions.ready(started, now=now.wall_ms) if plan.ready == "spawned" else started

        self.record.change(move)
        return self._report(self.entry.key, "ready" if self.is_ready else "spawned")

    def _environment(self) -> dict[str, str]:
        return whole_environment(self._env, self.entry, home=self._parts.home)

    def _spawn_failed(self, why: str, now: Now) -> None:
        tally = death(Exit(), now)
        end = not_started(why, cause="spawn_failed", now=now.wall_ms)
        again = after_death(self.entry, replace(end, outcome="exited"), tally, now, spread=self._spread)
        if isinstance(again, StartAt):
            return self._restart(again, tally, now)
        self.record.change(lambda e: transitions.over(e, end, death=tally, now=now.wall_ms))
        return self._report(self.entry.key, "ended")

    def close_unstarted(self, why: str, now: Now, *, cause: Literal["stopped", "lost"] = "stopped") -> None:
        """It never ran, and is not started behind the user's back."""
        end = not_started(why, cause=cause, now=now.wall_ms)
        self.record.change(lambda e: transitions.over(e, end, now=now.wall_ms))
        self._report(self.entry.key, "ended")

    # -- running

    def _turn_running(self, now: Now) -> int | None:
        if not self._proof.due(self.entry):
            return None
        self._judge_resume(now)  # by what an earlier keeper has seen: it may have switched its session since
        found = self._proof.look(self.entry, self._environment(), now)
        if found is not None:
            was_ready = self.is_ready
            self.record.change(found)
            if self.is_ready and not was_ready:
                self._report(self.entry.key, "ready")
        self._judge_resume(now)
        return self._proof.next_look(self.entry, now)

    def _judge_resume(self, now: Now) -> None:
        verdict = self._resume.judge(self.entry, waited_ms=self._proof.waited_ms(now))
        if verdict == "confirmed":
            self.record.change(lambda e: transitions.confirmed(e, now=now.wall_ms))
            self._report(self.entry.key, "ready")
        elif verdict == "failed":
            self.stop()

    def last_look(self, now: Now) -> None:
        """One that was quick may have been up between two looks; and its session is wanted for a resume."""
        self._turn_running(now)

    def beat(self, now: Now, *, told: bool) -> None:
        """Renew `heartbeatAt` in the entry when its time has come; `told`: its hook may have written something."""
        if told:
            self.at_rest = self.at_rest and not self._proof.stirred(self.entry)
        if now.monotonic_ns >= self.heartbeat_due and not self.done:
            self.heartbeat_due = now.monotonic_ns + self._parts.limits.heartbeat_ms * MS
            known = self.record.taken
            self.record.touch(now.wall_ms)
            self.at_rest = self.at_rest and not self.record.dirty and self.record.taken == known

    def output_degraded(self, why: str) -> None:
        """The transcript is no longer complete, and never will be again; the agent itself runs on."""
        if self.entry.output.degraded != why:
            self.at_rest = False
            self.record.change(lambda e: replace(e, output=Output(transcript=e.output.transcript, degraded=why)))

    # -- ended by itself

    def _turn_ended(self, end: Exit, now: Now, look: Look) -> int | None:
        if isinstance(self.entry.state, Adopted):
            self.record.change(lambda e: transitions.under_parent(e, now=now.wall_ms))
        self.last_look(now)
        left = look.tree(self.entry.entry_id, None, attached=self.attached)
        heir = heir_of(self.entry, left, look)
        if heir is not None:
            return self._follow(heir, now)
        tally = death(end, now)
        plan, said = self.entry.plan, self._said()
        hand_off = ended(
            end, plan, stopped=False, now=now.wall_ms, output=said, leftovers=len(left), hung_up=self.hung_up
        )
        again = after_death(self.entry, hand_off, tally, now, spread=self._spread)
        if plan.driven or not isinstance(again, StartAt):
            key = self.entry.entry_id
            if at := self._leftovers.settle(look, key, left, now, attached=self.attached, kill=plan.driven):
                return at
        if isinstance(again, StartAt):
            if left:
                kill_tree(self._parts, look, self.entry.entry_id, None, attached=self.attached)
            self._restart(again, tally, now)
            return again.not_before
        detail = f"{hand_off.detail}; {again.why}" if hand_off.detail else again.why
        if self.entry.plan.restart.policy != "temporary":
            hand_off = replace(hand_off, detail=detail)
        self.record.change(lambda e: transitions.over(e, hand_off, death=tally, now=now.wall_ms))
        self._report(self.entry.key, "ended")
        return None

    def _said(self) -> bytes:
        """The end of its output, where that tells more than its exit code."""
        transcript = self.entry.output.transcript
        return self._parts.transcripts.tail(transcript) if transcript and self.entry.plan.success_line else b""

    def _restart(self, at: StartAt, tally: Death, now: Now) -> None:
        nonce = os.urandom(8).hex()
        self.record.change(
            lambda e: transitions.restarting(
                e,
                nonce=nonce,
                resumes=self._proof.known_session(e),
                death=tally,
                attempt=at.attempt,
                not_before=at.not_before,
                now=now.wall_ms,
            )
        )

    def _follow(self, heir: ProcessKey, now: Now) -> int:
        self._exit = None
        self.attached = True
        process = ProcessRef(now.machine, heir)
        self.record.change(lambda e: replace(e, generation=replace(e.generation, process=process)))
        return now.monotonic_ns

    # -- stopping

    def wind_down(self) -> None:
        """The keeper was told to end: stop the agent; one that was enrolled is not ours to end, and is let go."""
        if self.entry.enrolled and self.entry.want == "up":
            self._released, self.at_rest = True, False
        else:
            self.stop()

    def stop(self) -> None:
        """Begin the ladder, whatever the record says."""
        self.at_rest = False
        self._ladder.begin(self.entry)

    def _turn_stopping(self, now: Now, look: Look) -> int | None:
        self.stop()
        rung = self._ladder.climb(self.entry, self.leader, look, now, attached=self.attached)
        if isinstance(rung, Over):
            self._stopped(now, rung.survivors)
            return None
        if rung.long:
            self._mark_winding_down(now)
        return rung.at

    def _mark_winding_down(self, now: Now) -> None:
        """Visible in `ps` when the end takes longer than a tick; the wish itself is on disk from the start."""
        if unconfirmed(self.entry) is not None:  # its state holds what is on record again
            return
        if not isinstance(self.entry.state, WindingDown):
            reason: WindDownReason = "user_cleanup" if self.entry.want == "down" else "parent_shutdown"
            self.record.change(lambda e: transitions.winding_down(e, reason, now=now.wall_ms))

    def _stopped(self, now: Now, survivors: tuple[str, ...]) -> None:
        self.last_look(now)
        end = self._exit or Exit()
        hand_off = ended(end, self.entry.plan, stopped=True, now=now.wall_ms, output=self._said(), survivors=survivors)
        if self.entry.want == "down" and self.entry.parent is None:  # whoever wanted it down is told by `stop`
            hand_off = replace(hand_off, delivered_at=now.wall_ms)
        self.record.change(lambda e: self._resume.over(e, hand_off, now=now.wall_ms))
        self._report(self.entry.key, "ended")
