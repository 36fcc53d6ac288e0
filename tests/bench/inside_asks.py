"""Run by the installed project's own Python: asks, as a Python agent does. Prints JSON.

`ask HOME SESSION COUNT VALUE`: in sequence, with milliseconds and outcome of each and when the last ended (monotonic
seconds). `pile HOME SESSION COUNT`: leaves so many requests, says `done`, and lives until its input ends. `look HOME
ASK`: has an ask on its screen, so to speak, until its input ends.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time

from supervisor.core.ask_age import asked
from supervisor.core.ask_wire import build_request, encode_request
from supervisor.core.entry import KeeperRef
from supervisor.runtime import ask_call
from supervisor.runtime.ask_facts import here_of
from supervisor.runtime.asking import own_part
from supervisor.runtime.compose import Context
from supervisor.runtime.deciding import Desk


def ask(home: str, session: str, count: str, value: str) -> None:
    env = {**os.environ, "SUPERVISOR_SESSION_ID": "bench-child", "SUPERVISOR_PARENT_SESSION": session}
    took, codes = [], []
    for _ in range(int(count)):
        began = time.perf_counter()
        decision = ask_call.ask({**env, "SUPERVISOR_HOME": home}, tool="bash", value=value, cwd="/")
        took.append((time.perf_counter() - began) * 1000)
        codes.append("approved" if decision.approved else decision.code)
    json.dump({"ms": took, "codes": codes, "at": time.monotonic()}, sys.stdout)


def pile(context: Context, session: str, count: str) -> None:
    process = ask_call._process(context.places.home)
    for number in range(int(count)):
        ask_id = f"perm-{number:08}"
        request = build_request(
            ask_id,
            now=context.clock.wall_ms(),
            requester="bench-child",
            target=session,
            agent_name="kid",
            tool="bash",
            value=f"make {number}",
            cwd="/",
            ours={**own_part(ask_id, process), "asked": asked(here_of(context.parts.now()))},
        )
        context.asks.files.write_request(session, ask_id, encode_request(request))
    print("done", flush=True)
    sys.stdin.read()


def look(context: Context, ask_id: str) -> None:
    desk = Desk(context.parts, context.asks)
    me = context.parts.ref(os.getpid())
    assert me is not None
    item = desk.find(ask_id)
    while not select.select([sys.stdin], [], [], 1.0)[0]:
        desk.claim(item, KeeperRef("bench", me), context.parts.now(), since=context.clock.wall_ms())


def main() -> None:
    what, home, *more = sys.argv[1:]
    if what == "ask":
        return ask(home, *more)
    context = Context({**os.environ, "SUPERVISOR_HOME": home}, cwd="/")
    return pile(context, *more) if what == "pile" else look(context, *more)


if __name__ == "__main__":
    main()
