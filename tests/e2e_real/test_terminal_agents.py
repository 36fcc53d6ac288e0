"""Real CLIs on a terminal (tmux panes): their asks come to the inbox, their sessions are proven and followed."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e_real.clis import FAKE_MODEL
from tests.e2e_real.panes import Panes, hooked
from tests.e2e_real.processes import command, until
from tests.e2e_real.rig import Rig, Row

pytestmark = pytest.mark.real

NEW_SESSION = {"claude": "/clear", "codex": "/new"}
REASON = "not on a Friday"


@pytest.fixture(params=["claude", "codex"])
def cli(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> str:
    record_property("cli", request.param)
    return str(request.param)


@pytest.fixture
def panes(rig: Rig) -> Iterator[Panes]:
    made = Panes(rig)
    yield made
    made.close()


def wants(cli: str, file: str) -> str:
    """A prompt on which the model uses its shell tool for what has to be asked for."""
    if cli == "claude":
        return f"RUN: touch {file}"
    words = {"cmd": f"touch {file}", "sandbox_permissions": "require_escalated", "justification": "needed"}
    return f"TOOL: exec_command {json.dumps(words)}"


def test_asks_come_to_the_inbox_and_a_change_of_session_is_followed(rig: Rig, panes: Panes, cli: str) -> None:
    assert rig.run("settings", "set", "asks.mode", "hold").code == 0
    launched = panes.launch(cli, "one", prompt=wants(cli, "MARK"))

    answer(rig, "allow", file="MARK", by=launched)
    until((rig.cwd / "MARK").exists, lambda: panes.screen("one"))
    first = proven(rig, "one", None)
    assert first["session"] in first["file"]
    if cli == "claude":
        assert first["session"] == launched["sessionId"]

    panes.shows("one", "TOOLRESULT<<")
    panes.type("one", NEW_SESSION[cli])
    until(lambda: "TOOLRESULT<<" not in panes.screen("one"), lambda: panes.screen("one"))
    panes.type("one", wants(cli, "OTHER"))
    answer(rig, "deny", "--reason", REASON, file="OTHER", by=launched)
    second = proven(rig, "one", first["session"])
    assert second["session"] in second["file"]
    panes.shows("one", REASON)
    assert not (rig.cwd / "OTHER").exists()

    entry = rig.entry("one")
    assert (entry["sessionId"], entry["entryId"]) == (launched["sessionId"], launched["entryId"])
    assert rig.run("stop", "one").code == 0
    resumed = rig.run("resume", "one", "--tmux", "--prompt", "again", "--json")
    assert resumed.code == 0, resumed
    assert proven(rig, "one", None) == second, "it goes on with the session it was in last"
    panes.shows("one", "[turn 2]")

    assert rig.run("stop", "one").code == 0
    panes.close()
    rig.assert_nothing_left()
    assert hooked(rig.tmp) == [], "nothing of ours is in a file of the user's"


def test_where_nobody_serves_its_own_dialog_decides(rig: Rig, panes: Panes, cli: str) -> None:
    panes.launch(cli, "one", prompt=wants(cli, "MARK"))

    panes.shows("one", "Yes")
    until(lambda: "hook" not in panes.screen("one").lower(), lambda: panes.screen("one"))
    panes.key("one", "Enter")

    until((rig.cwd / "MARK").exists, lambda: panes.screen("one"))
    until(lambda: rig.run("asks", "--json").data == [], "no ask waits any more")
    until(lambda: not hooks(rig), "the end of its hook")
    assert rig.run("stop", "one").code == 0
    panes.close()
    rig.assert_nothing_left()


def hooks(rig: Rig) -> list[int]:
    """The hooks that run (codex itself has their command on its own command line)."""
    return [pid for pid in rig.running() if command(pid).partition(" ")[2].startswith("-P -m supervisor.hook")]


def answer(rig: Rig, decision: str, *words: str, file: str, by: Row) -> None:
    """Answer the one ask that waits; it is of this agent, and for this file."""
    (ask,) = until(lambda: rig.run("asks", "--json").data, lambda: f"an ask: {rig.run('why', 'one').out}")
    assert (ask["requester"], ask["tool"], ask["value"]) == (by["sessionId"], "bash", f"touch {file}")
    done = rig.run("answer", ask["id"], decision, *words, "--json")
    assert json.loads(done.out)["result"] == "applied", done


def proven(rig: Rig, name: str, before: str | None) -> dict[str, str]:
    """The session that it has proven to be in, once that is another one than before."""

    def changed() -> str | None:
        session: str | None = rig.entry(name)["generation"]["session"]
        return session if session != before else None

    session = until(changed, f"another session than {before}")
    context = rig.entry(name)["agent"]["resumeContext"]
    assert context["providerSessionId"] == session
    assert Path(context["sessionFile"]).exists()
    return {"session": session, "file": context["sessionFile"]}


def test_opencode_asks_the_inbox_and_in_its_own_dialog_at_once_and_its_sessions_are_followed(
    rig: Rig, panes: Panes, record_property: Callable[[str, object], None]
) -> None:
    record_property("cli", "opencode")
    assert rig.run("settings", "set", "asks.mode", "hold").code == 0
    launched = panes.launch("opencode", "one", prompt="RUN: touch MARK")

    panes.shows("one", "Allow once")
    answer(rig, "allow", file="MARK", by=launched)
    until((rig.cwd / "MARK").exists, lambda: panes.screen("one"))
    until(lambda: "Allow once" not in panes.screen("one"), lambda: panes.screen("one"))
    first = until(lambda: rig.entry("one")["generation"]["session"], "its session")

    panes.shows("one", "TOOLRESULT<<")
    panes.type("one", "/new")
    until(lambda: "TOOLRESULT<<" not in panes.screen("one"), lambda: panes.screen("one"))
    panes.type("one", "RUN: touch OTHER")
    answer(rig, "deny", "--reason", REASON, file="OTHER", by=launched)
    panes.shows("one", REASON)
    assert not (rig.cwd / "OTHER").exists()

    def another() -> str | None:
        session: str = rig.entry("one")["generation"]["session"]
        return session if session != first else None

    until(another, "another session")

    panes.type("one", "RUN: env > ENV; touch THIRD")
    panes.shows("one", "Allow once")
    until(lambda: rig.run("asks", "--json").data, "its ask in the inbox, too")
    panes.key("one", "Enter")
    until((rig.cwd / "THIRD").exists, lambda: panes.screen("one"))
    until(lambda: rig.run("asks", "--json").data == [], "no ask waits any more")
    until(lambda: not hooks(rig), "the end of its hook")
    assert "hooks/opencode.js" not in (rig.cwd / "ENV").read_text(), "an opencode run by a tool is not this agent"

    assert rig.run("stop", "one").code == 0
    panes.close()
    rig.assert_nothing_left()


def test_where_nobody_serves_opencodes_own_dialog_decides(
    rig: Rig, panes: Panes, record_property: Callable[[str, object], None]
) -> None:
    record_property("cli", "opencode")
    panes.launch("opencode", "one", prompt="RUN: touch MARK")

    panes.shows("one", "Allow once")
    panes.key("one", "Enter")

    until((rig.cwd / "MARK").exists, lambda: panes.screen("one"))
    until(lambda: rig.run("asks", "--json").data == [], "no ask waits any more")
    until(lambda: not hooks(rig), "the end of its hook")
    assert rig.run("stop", "one").code == 0
    panes.close()
    rig.assert_nothing_left()


@pytest.mark.parametrize("other", ["gemini", "opencode"])
def test_others_on_a_terminal_get_their_prompt_and_are_stopped(
    rig: Rig, panes: Panes, other: str, record_property: Callable[[str, object], None]
) -> None:
    record_property("cli", other)
    panes.launch(other, "one", prompt=f"--help 'single' \"double\" of {other}")

    panes.shows("one", "TOOLRESULT<<")
    texts = [text for request in rig.model.requests() for text in texts_of(request.get("req"))]
    assert any(f"--help 'single' \"double\" of {other}" in text for text in texts)
    if other == "opencode":
        until(lambda: rig.entry("one")["generation"]["session"], "its session")
    assert rig.run("stop", "one").code == 0
    if other == "gemini":
        resumed = rig.run("resume", "one", "--tmux", "--prompt", "again")
        assert resumed.code == 0, resumed
        generation = until(lambda: rig.entry("one")["generation"]["session"], "its proof")
        assert generation == rig.entry("one")["sessionId"]
        panes.shows("one", "[turn 2]")
    else:
        session = rig.entry("one")["generation"]["session"]
        assert rig.run("resume", "one", "--tmux").code == 0
        panes.shows("one", "TOOLRESULT<<")
        panes.type("one", "again")
        panes.shows("one", "turn 2")
        until(lambda: rig.entry("one")["generation"]["session"] == session, "the session it was in")
    assert rig.run("stop", "one").code == 0
    assert rig.hand_off("one")["success"] is not True, "it was stopped, whatever its exit code"
    panes.close()
    rig.assert_nothing_left()


def test_a_pi_on_a_terminal_has_the_tools_of_its_launch(
    rig: Rig, panes: Panes, record_property: Callable[[str, object], None]
) -> None:
    record_property("cli", "pi")
    call = {"profile": "demo", "prompt": "hello", "name": "kid"}
    options = ("--mcp", "--model", FAKE_MODEL)
    lead = panes.launch("pi", "one", *options, prompt=f"TOOL: mcp__supervisor__launch_agent {json.dumps(call)}")

    until(lambda: "kid" in rig.rows(), lambda: panes.screen("one"))

    assert rig.entry("kid")["parent"]["sessionId"] == lead["sessionId"]
    rig.hand_off("kid")
    assert rig.run("stop", "one").code == 0
    panes.close()
    rig.assert_nothing_left()


def test_a_killed_tmux_server_is_one_event_and_each_agent_comes_back_in_its_session(
    rig: Rig, panes: Panes, record_property: Callable[[str, object], None]
) -> None:
    """Some end with 0 when they are hung up on: they have not done their work for that."""
    record_property("cli", "claude")
    names = ("claude", "codex", "gemini")
    for name in names:
        panes.launch(name, name, prompt="hello")
        panes.shows(name, "[turn 1]")
    told = rig.tmp / "events"
    watching = rig.start("watch", "--json", out=told)
    until(lambda: len(told.read_bytes().splitlines()) >= len(names), "the first look")

    panes.kill_server()

    def lines() -> list[Row]:
        return [json.loads(line) for line in told.read_bytes().splitlines()]

    (gone,) = until(lambda: [e for e in lines() if e["what"] == "server_gone"], lambda: str(lines()))
    assert "3 of its agents" in gone["detail"]
    assert "supervisor recover --tmux" in gone["detail"]
    assert [rig.hand_off(n)["hungUp"] for n in names] == [True] * 3
    assert [n for n in names if rig.hand_off(n)["success"]] == []
    watching.terminate()
    watching.wait()

    back = rig.run("recover", "--tmux", "--json", seconds=300)

    assert back.code == 0, back
    assert {e["name"]: e["event"] for e in map(json.loads, back.out.splitlines())} == dict.fromkeys(names, "resumed")
    for name in names:
        entry = rig.entry(name)
        assert entry["generation"]["session"] == entry["agent"]["resumeContext"]["providerSessionId"]
        panes.shows(name, "[turn 1]")
    assert rig.run("stop", *names).code == 0
    panes.close()
    rig.assert_no_process_left()


def texts_of(value: Any) -> list[str]:
    """Every text within a request."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inner for text in texts_of(one)]
