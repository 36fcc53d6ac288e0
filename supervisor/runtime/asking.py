"""The waiting child: writes the request, waits by its bell and the tick, judges the target, ends with one decision.

Standard library only (hooks run it). Owns the request while it waits, and removes it on every way out.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from supervisor.adapters.ask_files import AskFiles
from supervisor.adapters.bells import BellFiles, drain
from supervisor.adapters.clock import SystemClock
from supervisor.adapters.proc_stat import boot_id, pid_namespace, start_ticks
from supervisor.adapters.review_log import ReviewLog
from supervisor.core.ask_age import asked
from supervisor.core.ask_reasons import WRITE_FAILED, Reason, directories
from supervisor.core.ask_wire import Request, about_ask, encode_request, parse_response
from supervisor.core.asks import (
    Answered,
    AskEvent,
    AskState,
    Decision,
    Done,
    Judged,
    LookedAt,
    Moved,
    Waiting,
    Withdrawn,
    abandoned,
    begin,
    step,
)
from supervisor.core.ids import uuid4_of
from supervisor.core.serving import Here, Judgement, ServingBeat, Target, judge, parse_beat
from supervisor.core.timing import TICK_MS

ASK_BELL = "ask-"
CLAIM_FRESH_MS = 20 * TICK_MS
"""A claim is renewed at every heartbeat of the inbox; one that is older belongs to an inbox that was killed."""
MAX_SERVING_TOLD = 20
"""An abandonment names at most so many sessions that serve: a line of the log stays a line."""


class Places:
    """The folders of one state root that an ask needs."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.forwarding = os.path.join(home, "forwarding")
        self.bells = os.path.join(home, "run", "bells")
        self.host_id_file = os.path.join(home, "host-id")
        self.review_log = os.path.join(home, "logs", "asks.jsonl")

    def host_id(self) -> str:
        """The host's id; empty when the root was never used."""
        try:
            with open(self.host_id_file, errors="replace") as file:
                return file.read(64).strip()
        except OSError:
            return ""


class Asker:
    """Asks of one process. `registered` tells which sessions serve in this very process."""

    def __init__(
        self,
        home: str,
        *,
        clock: SystemClock,
        forwarding: str | None = None,
        registered: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        places = Places(home)
        self._clock = clock
        self._files = AskFiles(forwarding or places.forwarding)
        self._bells = BellFiles(places.bells)
        self._review = ReviewLog(places.review_log)
        self._registered = registered
        self._machine = (places.host_id(), boot_id(), pid_namespace())

    def ask(
        self,
        request: Request,
        target: Target,
        *,
        timeout_ms: int,
        wake: int | None = None,
        withdrawn: Callable[[], bool] = lambda: False,
        moved: Callable[[], Target | Reason] | None = None,
        looked: Callable[[bool], None] = lambda _looking: None,
    ) -> Decision:
        """Ask and wait. `wake` is a descriptor that becomes readable when `withdrawn` may have changed.

        `moved` tells the current target, `looked` is told when somebody begins or ceases to look at the ask. Never
        raises for what a peer or the disk does: that is a denial with its reason.
        """
        request = request._replace(ours={**request.ours, "asked": asked(self._here())})
        problem = self._write(request, target)
        if problem is not None:
            return self.given_up(request, problem, seen=self.judge(target))
        self._log("requested", request, {})
        state: AskState = begin(target, timeout_ms=timeout_ms, now=self._clock.monotonic_ns())
        looking = False
        try:
            with self._bell(request.id) as bell:
                self._ring(target)
                while isinstance(state, Waiting):
                    target = state.target
                    for event in self._look(request.id, state, withdrawn, moved):
                        state = self._step(state, event, request)
                    if isinstance(state, Waiting):
                        if looking is not (state.looked_since is not None):
                            looking = not looking
                            looked(looking)
                        self._sleep(bell, wake)
        finally:
            at = state.target if isinstance(state, Waiting) else target
            self._files.remove_request(at.session_id, request.id)
        return self._told(request._replace(target=target.session_id), state)

    def _told(self, request: Request, state: Done) -> Decision:
        """What an answer says, its session has logged; what the child has concluded by itself, it logs."""
        decision = state.decision
        if decision.responder is not None:
            return decision
        return self.given_up(request, Reason(decision.code, decision.reason or ""), seen=state.seen)

    def given_up(self, request: Request, reason: Reason, *, seen: Judgement | None = None) -> Decision:
        """The denial that nobody decided, on record: how the target was judged, and who serves."""
        local = seen is not None and seen.channel == "registry"
        serving = self._registered() if local else self._files.serving_sessions(MAX_SERVING_TOLD)
        self._log("abandoned", request, {"code": reason.code, "reason": reason.text, **evidence(seen, serving)})
        return abandoned(reason)

    def _log(self, event: str, request: Request, fields: Mapping[str, object]) -> None:
        self._review.append(event, {**about_ask(request, request.target), **fields}, at=self._clock.wall_ms())

    def _step(self, state: AskState, event: AskEvent, request: Request) -> AskState:
        if not isinstance(state, Waiting):
            return state
        before = state.target
        state, effects = step(state, event, now=self._clock.monotonic_ns())
        for effect in effects:
            if effect == "remove_request":
                self._files.remove_request(before.session_id, request.id)
            elif effect == "remove_response":
                self._files.remove_response(before.session_id, request.id)
            elif isinstance(state, Waiting):
                problem = self._write(request._replace(target=state.target.session_id), state.target)
                if problem is not None:
                    return Done(abandoned(problem))
                self._ring(state.target)
        return state

    def _look(
        self,
        ask_id: str,
        state: Waiting,
        withdrawn: Callable[[], bool],
        moved: Callable[[], Target | Reason] | None,
    ) -> Iterator[AskEvent]:
        """The answer before the judgement: one that lands in time counts, whoever is alive by then."""
        target = state.target
        data = self._files.read_response(target.session_id, ask_id)
        if data is not None:
            yield Answered(parse_response(data))
            return
        if withdrawn():
            yield Withdrawn()
            return
        now_at = moved() if moved else target
        if isinstance(now_at, Target) and now_at.session_id != target.session_id:
            yield Moved(now_at)
            return
        yield LookedAt(self._claimed(target.session_id, ask_id))
        yield Judged(self.judge(target))

    def judge(self, target: Target) -> Judgement:
        """Whether the target serves, as can be seen from here."""
        beat = self._beat_of(target.session_id)
        ticks = start_ticks(beat.pid) if beat else None
        registered = target.source == "registry" and target.session_id in self._registered()
        return judge(target.source, registered=registered, beat=beat, ticks=ticks, here=self._here())

    def _here(self) -> Here:
        return Here(*self._machine, self._clock.wall_ms(), self._clock.monotonic_ns())

    def _beat_of(self, session: str) -> ServingBeat | None:
        data = self._files.read_beat(session)
        return parse_beat(data) if data else None

    def _claimed(self, session: str, ask_id: str) -> bool:
        data = self._files.read_claim(session, ask_id)
        claim = parse_beat(data) if data else None
        if claim is None:
            return False
        seen = judge("env", beat=claim, ticks=start_ticks(claim.pid), here=self._here())
        return seen.answer == "serving" and (seen.age_ms or 0) < CLAIM_FRESH_MS

    def _write(self, request: Request, target: Target) -> Reason | None:
        try:
            self._files.write_request(target.session_id, request.id, encode_request(request))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return directories(target.session_id)
        except OSError:
            return WRITE_FAILED
        return None

    def _ring(self, target: Target) -> None:
        beat = self._beat_of(target.session_id)
        if beat is not None and beat.keeper_id:
            self._bells.ring(beat.keeper_id)

    @contextmanager
    def _bell(self, ask_id: str) -> Iterator[int | None]:
        """Our own bell; without one (a full or foreign folder) the tick serves."""
        name = ASK_BELL + ask_id
        try:
            fd = self._bells.listen(name)
        except OSError:
            yield None
            return
        try:
            yield fd
        finally:
            self._bells.remove(name)
            os.close(fd)

    def _sleep(self, bell: int | None, wake: int | None) -> None:
        fds = [fd for fd in (bell, wake) if fd is not None]
        ready, _, _ = select.select(fds, [], [], TICK_MS / 1000)
        if bell in ready and bell is not None:
            drain(bell)


def evidence(seen: Judgement | None, serving: Sequence[str]) -> dict[str, object]:
    """How a target was judged (nothing when it was not) and the sessions that serve, for the log."""
    how = {"channel": seen.channel, "state": seen.state, "heartbeatAgeMs": seen.age_ms} if seen else {}
    return {**how, "serving": list(serving)[:MAX_SERVING_TOLD]}


def new_ask_id(random: bytes) -> str:
    """`perm-<uuid4>`, as pi names them, from 16 random bytes."""
    return f"perm-{uuid4_of(random)}"


def own_part(
    ask_id: str, process: Mapping[str, Any], *, task_ref: str | None = None, tool_input: Any = None
) -> dict[str, Any]:
    """What a new request carries under `supervisor`. `process` is the asking one, as far as it can tell itself."""
    return {
        "bell": ASK_BELL + ask_id,
        "process": process,
        "nonce": os.urandom(8).hex(),
        "hops": [],
        **({"taskRef": task_ref} if task_ref else {}),
        **({"input": tool_input} if tool_input is not None else {}),
    }
