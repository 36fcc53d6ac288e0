"""How long a supervisor takes to replace a killed agent, watched through the one who started it. Owns nothing."""

from __future__ import annotations

import time

from tests.bench.procs import Marked, children, is_sleeper, parent


def restart_seconds(marked: Marked, victim: int, *, limit: float) -> float | None:
    """SIGKILL → a new child of the same parent has exec'd the agent; None: not within the limit."""
    keeper = parent(victim)
    before = children(keeper)
    began = time.perf_counter()
    if not marked.kill(victim):
        return None
    while (waited := time.perf_counter() - began) < limit:
        for pid in children(keeper) - before:
            if is_sleeper(pid):
                return time.perf_counter() - began
        time.sleep(0.0002 if waited < 0.1 else 0.005)
    return None
