"""Asking a real pi session that has a person before it: in pi's own folder, judged by what that pi shows of itself.

Standard library only (hooks run it). Owns the request while it waits, as every asker does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from supervisor.adapters.clock import SystemClock
from supervisor.adapters.proc_stat import start_ticks
from supervisor.core.ask_reasons import WRITE_FAILED, Reason, directories
from supervisor.core.ask_wire import Request, encode_request
from supervisor.core.asks import Decision
from supervisor.core.serving import Judgement, Target
from supervisor.runtime.asking import Asker


def asker_for(
    target: Target | Reason, home: str, *, clock: SystemClock, registered: Callable[[], Sequence[str]] = lambda: ()
) -> Asker:
    """Who asks this target: where it has a folder of its own it is a pi."""
    if isinstance(target, Target) and target.folder is not None:
        return PiAsker(home, target.folder, clock=clock, registered=registered)
    return Asker(home, clock=clock, registered=registered)


class PiAsker(Asker):
    """`Asker` towards a pi session.

    New pi versions write a serving heartbeat, which then is what counts. Old ones show themselves otherwise: a pi that
    takes requests makes the folder of responses as soon as it sees the first one. So we leave that to it; once it is
    there, the session serves as long as its process lives.
    """

    def __init__(
        self, home: str, folder: str, *, clock: SystemClock, registered: Callable[[], Sequence[str]] = lambda: ()
    ) -> None:
        super().__init__(home, clock=clock, forwarding=folder, registered=registered)
        self._home = home
        self._taken_up = False
        self._was_there = True

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
        """As every asker. One that is adopted meanwhile asks its new parent, in our own folder."""

        def new_target() -> Target | None:
            now_at = moved() if moved else target
            return now_at if isinstance(now_at, Target) and now_at.folder != target.folder else None

        decision = super().ask(
            request,
            target,
            timeout_ms=timeout_ms,
            wake=wake,
            withdrawn=lambda: withdrawn() or new_target() is not None,
            looked=looked,
        )
        elsewhere = new_target()
        if decision.code != "withdrawn" or withdrawn() or elsewhere is None:
            return decision
        return asker_for(elsewhere, self._home, clock=self._clock, registered=self._registered).ask(
            request._replace(target=elsewhere.session_id),
            elsewhere,
            timeout_ms=timeout_ms,
            wake=wake,
            withdrawn=withdrawn,
            moved=moved,
            looked=looked,
        )

    def judge(self, target: Target) -> Judgement:
        """By its heartbeat where it writes one; else by its process and whether it takes up what is asked."""
        seen = super().judge(target)
        if seen.state != "absent":
            return seen
        if target.process is not None and start_ticks(target.process[0]) != target.process[1]:
            return Judgement("not_serving", "process", "dead_pid")
        there = self._files.has_responses(target.session_id)
        # a folder that an earlier ask has left proves nothing of a pi whose process we do not know
        self._taken_up = self._taken_up or (there and (target.process is not None or not self._was_there))
        return (
            Judgement("serving", "process", "alive")
            if self._taken_up
            else Judgement("not_serving", "process", "absent")
        )

    def _write(self, request: Request, target: Target) -> Reason | None:
        self._was_there = self._files.has_responses(target.session_id)
        try:
            self._files.write_request(target.session_id, request.id, encode_request(request), responses=False)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return directories(target.session_id)
        except OSError:
            return WRITE_FAILED
        return None
