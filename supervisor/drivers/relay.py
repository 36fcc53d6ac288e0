"""Asks of the CLI on their way to whoever decides: each waits in a thread of its own, so none waits for another.

Owns the threads. On any doubt the decision is a denial.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from supervisor.core.ask_reasons import Reason, malformed
from supervisor.core.asks import Decision, abandoned
from supervisor.runtime.ask_call import ask
from supervisor.runtime.tool_use import PermissionAsk, Unclear

AT_ONCE = 64
"""More asks than this of one agent at a time are refused: each costs a thread here and a place in an inbox."""

END_WAIT_S = 2.0
"""A withdrawn ask is gone within a tick; this is for a busy machine."""

Decided = Callable[[str, Decision], None]
Decide = Callable[[PermissionAsk, Callable[[], bool]], Decision]


def decide_by_asking(env: Mapping[str, str]) -> Decide:
    """Ask the parent, as any child of ours does."""

    def decide(wanted: PermissionAsk, ended: Callable[[], bool]) -> Decision:
        return ask(env, tool=wanted.tool, value=wanted.value, cwd=wanted.cwd, tool_input=wanted.shown, ended=ended)

    return decide


class Relay:
    """`decided` is called from the asks' threads."""

    def __init__(self, decide: Decide, decided: Decided) -> None:
        self._decide = decide
        self._decided = decided
        self._open: dict[str, tuple[threading.Event, threading.Thread]] = {}

    def put(self, key: str, wanted: PermissionAsk | Unclear) -> Decision | None:
        """Ask; a decision at once when nobody needs to be asked."""
        if isinstance(wanted, Unclear):
            return abandoned(malformed(wanted.why))
        if key in self._open:
            return abandoned(malformed("it was asked twice under one id"))
        if len(self._open) >= AT_ONCE:
            return abandoned(Reason("too_many", f"{AT_ONCE} permission requests of this agent wait already"))
        withdrawn = threading.Event()
        thread = threading.Thread(target=self._run, args=(key, wanted, withdrawn), name=f"ask {key}", daemon=True)
        self._open[key] = withdrawn, thread
        thread.start()
        return None

    def _run(self, key: str, wanted: PermissionAsk, withdrawn: threading.Event) -> None:
        try:
            decision = self._decide(wanted, withdrawn.is_set)
        except Exception as error:  # noqa: BLE001  whatever it is: the CLI waits, and a denial is safe
            decision = abandoned(Reason("driver_failed", f"asking failed ({type(error).__name__}: {error})"))
        self._decided(key, decision)

    def settle(self, key: str) -> bool:
        """Its answer is about to be given; False when nobody needs it any more."""
        found = self._open.pop(key, None)
        return found is not None and not found[0].is_set()

    def withdraw(self, key: str) -> bool:
        """Nobody needs an answer; whether it was still open."""
        found = self._open.get(key)
        if found is None or found[0].is_set():
            return False
        found[0].set()
        return True

    def close(self) -> None:
        """Withdraw all, and wait until their requests are gone."""
        for withdrawn, _ in self._open.values():
            withdrawn.set()
        wait = END_WAIT_S
        for _, thread in self._open.values():
            thread.join(wait)
            wait = wait if not thread.is_alive() else 0  # they end at the same time, or the disk hangs for all
