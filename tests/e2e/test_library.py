"""Python programs that join: one process serves, others ask it, and a killed server is told as what it is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

from tests.e2e.processes import alive, gone, wait_for
from tests.e2e.rig import Supervisor

SERVER = """
import json, sys
import supervisor

def decide(ask):
    if ask.value == "boom":
        raise RuntimeError("boom")
    return ask.value == "ls" or (False, f"never {ask.value}, {ask.agent}")

with supervisor.join("boss", decide=decide) as session:
    print(session.id, flush=True)
    sys.stdin.read()
"""

ASKER = """
import json, sys
import supervisor

with supervisor.join(parent=sys.argv[1]) as session:
    print(json.dumps([session.ask("bash", value)._asdict() for value in sys.argv[2:]]))
"""

AGENT = """
import sys, time
import supervisor

with supervisor.join(decide=lambda ask: (False, "by the agent")) as session:
    print(session.id, session.name, flush=True)
    time.sleep(1000)
"""


def program(sv: Supervisor, body: str, *words: str, **how: Any) -> Any:
    """A Python process of its own, ended with the test."""
    argv, sv.argv = sv.argv, [sys.executable, "-P", "-c", body]
    try:
        return sv.start(*words, **how)
    finally:
        sv.argv = argv


def server(sv: Supervisor, body: str = SERVER) -> tuple[Any, str]:
    process = program(sv, body, stdin=subprocess.PIPE)
    session = process.stdout.readline().decode().strip()
    assert session, process.stderr.read().decode()
    return process, session


def asked(sv: Supervisor, parent: str, *values: str) -> list[Any]:
    out, err = program(sv, ASKER, parent, *values).communicate(timeout=30)
    assert out, err.decode()
    found: list[Any] = json.loads(out)
    return found


def test_a_program_serves_and_another_asks_it_as_its_parent(sv: Supervisor) -> None:
    _, session = server(sv)
    allowed, denied, broken = asked(sv, "boss", "ls", "rm", "boom")
    assert (allowed["approved"], allowed["responder"], allowed["unavailable"]) == (True, session, False)
    assert (denied["approved"], denied["reason"], denied["unavailable"]) == (False, "never rm, python", False)
    assert (broken["approved"], broken["reason"], broken["unavailable"]) == (False, "gate error", True)


def test_a_program_answers_supervisor_ask_to_it(sv: Supervisor) -> None:
    _, session = server(sv)
    sv.run("ask", "--tool", "bash", "--value", "ls", "--to", session, code=0)
    denied = sv.run("ask", "--tool", "bash", "--value", "rm", "--to", session, code=1)
    assert "never rm" in denied.err


def test_a_joined_program_is_seen_alive_and_its_end_is_on_record(sv: Supervisor) -> None:
    process, session = server(sv)
    row = sv.row("boss")
    assert (row["sessionId"], row["role"], row["verdict"], row["pid"]) == (session, "master", "alive", process.pid)
    process.stdin.close()
    assert process.wait(20) == 0
    assert sv.ended("boss")["outcome"] == "exited"
    assert os.listdir(sv.home / "forwarding" / "serving") == []


def test_a_killed_server_is_refused_with_the_reason_within_two_seconds(sv: Supervisor) -> None:
    process, session = server(sv)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(20)
    began = time.monotonic()
    refused = sv.json("ask", "--tool", "bash", "--value", "ls", "--to", session, code=4)
    assert time.monotonic() - began < 4
    assert (refused["approved"], refused["code"], refused["unavailable"]) == (False, "not_serving", True)
    assert session in refused["reason"] and "its process is gone" in refused["reason"]
    sv.run("reconcile")
    assert (sv.row("boss")["status"], sv.ended("boss")["cause"]) == ("closed", "lost")


def test_a_joined_program_can_be_stopped(sv: Supervisor) -> None:
    process, _ = server(sv)
    sv.run("stop", "boss")
    wait_for(lambda: process.poll() is not None, "the end of the program")
    assert gone(process.pid)
    end = sv.ended("boss")
    assert (end["outcome"], end["cause"], end["signal"]) == ("signaled", "stopped", "TERM")


def test_a_joined_program_that_hears_term_ends_by_itself(sv: Supervisor) -> None:
    hears = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n"
    body = SERVER.replace("import supervisor\n", f"import supervisor\n{hears}")
    process, _ = server(sv, body)
    sv.run("stop", "boss")
    assert process.wait(20) == 3
    assert sv.ended("boss")["cause"] == "stopped"


def test_a_launched_agent_takes_its_own_session_and_decides_for_its_child(sv: Supervisor) -> None:
    launched = sv.launch("agent", sys.executable, "-P", "-c", AGENT)
    wait_for(lambda: "agent" in sv.transcript("agent"), "the agent has joined")
    session = sv.row("agent")["sessionId"]
    assert f"{session} agent" in sv.transcript("agent")
    assert [r["name"] for r in sv.json("ps", "--all")] == ["agent"]
    (denied,) = asked(sv, "agent", "ls")
    assert (denied["approved"], denied["reason"], denied["responder"]) == (False, "by the agent", session)
    assert alive(sv.pid("agent")) and launched


def test_a_program_that_just_ends_leaves_its_end_on_record(sv: Supervisor) -> None:
    process = program(sv, "import supervisor; supervisor.join('brief')")
    assert process.wait(20) == 0, process.stderr.read().decode()
    assert (sv.ended("brief")["outcome"], sv.ended("brief")["cause"]) == ("unknown", "ended")


FORKER = """
import os, sys
import supervisor

session = supervisor.join("one", decide=lambda ask: True)
reader, writer = os.pipe()
if os.fork() == 0:
    with supervisor.join("two", parent=session.id) as mine:
        decision = mine.ask("bash", "ls")
        inherited = session.ask("bash", "ls")
        os.write(writer, f"{mine.id != session.id} {decision.approved} {inherited.code}".encode())
    sys.exit(0)
print(os.read(reader, 100).decode(), session.child("c").ask("bash", "ls").approved, flush=True)
os.wait()
session.close()
"""


def test_a_fork_joins_by_itself_and_leaves_its_parents_session_alone(sv: Supervisor) -> None:
    out, err = program(sv, FORKER).communicate(timeout=30)
    assert out.decode().split() == ["True", "True", "closed", "True"], err.decode()
    assert {r["status"] for r in sv.ps().values()} == {"closed"}
