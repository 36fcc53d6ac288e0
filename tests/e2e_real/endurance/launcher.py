"""A long-lived launcher: launches an agent and sees its end, again and again, in one process. Prints its descriptors.

Output: one JSON line per cycle that it was asked to tell of, `{"cycle": …, "fds": {…}, "children": […]}`.
"""

import json
import os
import sys

from supervisor.adapters.clock import pause
from supervisor.runtime.activation import Activated
from supervisor.runtime.agent_request import AgentRequest
from supervisor.runtime.compose import Context, from_environment
from supervisor.runtime.starting import start_detached
from tests.e2e_real.processes import descriptors

FIRST = 5  # what is opened once (modules, caches) is open by then


def cycle(context: Context) -> None:
    """Launch `true` and wait until its end is on record."""

    def choose(_: Activated) -> list[AgentRequest]:
        return [AgentRequest(profile="shell", cwd=context.cwd, words=("true",))]

    _, (started,) = start_detached(context, choose, until="ready", tell=lambda _draft, _what: None)
    key = started.entry.key
    while (entry := context.store.read(key)) is not None and entry.hand_off is None:
        pause(0.001)
    assert entry is not None and entry.hand_off is not None and entry.hand_off.code == 0, entry


def main(cycles: int) -> None:
    """All cycles."""
    context = from_environment()
    context.prepare()
    for number in range(1, cycles + 1):
        cycle(context)
        if number in (FIRST, cycles):
            with open(f"/proc/self/task/{os.getpid()}/children") as file:
                children = file.read().split()
            seen = {"cycle": number, "fds": descriptors(os.getpid()), "children": children}
            print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
