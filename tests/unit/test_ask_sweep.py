"""An ask whose asker is provably dead is not said to wait, and a repair removes it; a listing removes nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli.main import run
from supervisor.core.ask_wire import build_request, encode_request
from supervisor.runtime.ask_sweep import sweep_dead
from supervisor.runtime.compose import Context, from_environment


@pytest.fixture
def context(home: Path) -> Context:
    context = from_environment()
    context.prepare()
    return context


def process(context: Context, *, alive: bool) -> dict[str, Any]:
    me, machine = context.parts.ref(os.getpid()), context.parts.now().machine
    assert me is not None
    return {
        "hostId": machine.host_id,
        "bootId": machine.boot_id,
        "pidNamespace": machine.pid_namespace,
        "pid": me.key.pid,
        "startTicks": me.key.start_ticks + (0 if alive else 1),
    }


def ask(context: Context, ask_id: str, session: str, **ours: Any) -> None:
    request = build_request(
        ask_id,
        now=context.clock.wall_ms(),
        requester="s-kid",
        target=session,
        agent_name="kid",
        tool="bash",
        value="echo hi",
        cwd="/",
        ours={"nonce": "n", "hops": [], **ours},
    )
    context.asks.files.write_request(session, ask_id, encode_request(request))


def left(context: Context) -> dict[str, list[str]]:
    files = context.asks.files
    return {s: sorted(found) for s in files.sessions() if (found := files.requests(s))}


def test_a_dead_asker_s_ask_is_not_listed_and_listing_removes_nothing(
    context: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(context, "perm-dead", "s-lead", process=process(context, alive=False))
    ask(context, "perm-live", "s-lead", process=process(context, alive=True))
    assert run(["asks", "--json"]) == 0
    assert [a["id"] for a in json.loads(capsys.readouterr().out)] == ["perm-live"]
    assert left(context) == {"s-lead": ["perm-dead", "perm-live"]}


def test_a_repair_removes_it_wherever_it_lies_and_leaves_all_others(context: Context) -> None:
    ask(context, "perm-dead", "s-mid", process=process(context, alive=False))
    ask(context, "perm-dead", "s-lead", process=process(context, alive=False), hops=["s-mid"])
    ask(context, "perm-live", "s-lead", process=process(context, alive=True))
    ask(context, "perm-silent", "s-lead")
    elsewhere = {**process(context, alive=False), "hostId": "another"}
    ask(context, "perm-elsewhere", "s-lead", process=elsewhere)
    assert run(["reconcile"]) == 0
    assert left(context) == {"s-lead": ["perm-elsewhere", "perm-live", "perm-silent"]}
    assert [e["ask"] for e in context.asks.review.read() if e["event"] == "dropped"] == ["perm-dead"] * 2
    assert sweep_dead(context.parts, context.asks) == 0
