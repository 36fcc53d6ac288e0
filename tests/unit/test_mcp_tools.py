"""The MCP tools over the SDK's own client: which commands they become, whom they act on, what a model is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import anyio
import pytest
from mcp.client.client import Client
from mcp.server.mcpserver import MCPServer

from supervisor.adapters.commands import Ran
from supervisor.core.entry import Entry
from supervisor.mcp_server.caller import Caller, complaint, with_home
from supervisor.mcp_server.family import is_live
from supervisor.mcp_server.server import TOOLS
from supervisor.mcp_server.tools import MAX_TEXT, Tools
from supervisor.testing import FakeProcessTable, make_entry

ME = "session-me"


def row(name: str, parent: str | None = ME, status: str = "running", **changes: Any) -> dict[str, Any]:
    """As in `ps --json`."""
    known = {
        "name": name, "entryId": f"entry-{name}", "sessionId": f"session-{name}", "parentSessionId": parent,
        "profile": "demo", "parent": None, "status": status, "verdict": "alive", "evidence": "beat 1 s ago",
        "ready": True, "orphan": None, "taskSummary": None, "taskRef": None, "cwd": "/w", "ageMs": 5_000,
        "startedAt": 1, "end": None, "exitCode": None, "exitSignal": None,
    }  # fmt: skip
    return {**known, **changes}


FAMILY = [row("me", None), row("kid"), row("grandkid", "session-kid"), row("other", None)]
ASK = {
    "id": "ask-1", "nonce": "n1", "agent": "kid", "lineage": ["me", "kid"], "tool": "bash", "value": "make\x1b[2J",
    "cwd": "/w", "ageMs": 10, "lookedAt": False, "session": ME, "requester": "session-kid",
}  # fmt: skip


class Script:
    """In the place of `Caller`: what each command answers, and what was run."""

    def __init__(self, me: Entry | None, **answers: Any) -> None:
        self.me = me
        self.answers: dict[str, Any] = {"ps": FAMILY, "asks": [ASK], **answers}
        self.ran: list[tuple[str, ...]] = []
        self.stdin = b""
        self.env: Mapping[str, str] = {}
        self.waiting: set[str] = set()
        self.blocks = False

    def entry(self) -> Entry | None:
        return self.me

    def asks_waiting(self, session: str) -> set[str]:
        assert session == ME
        return self.waiting

    def agents_environment(self, entry: Entry | None) -> Mapping[str, str]:
        return {"KEY": "of the agent"} if entry else {}

    async def json(self, *words: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Any:
        ran = await self.run(words[0], "--json", *words[1:], stdin=stdin, env=env)
        return json.loads(ran.out)

    async def run(
        self, *words: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, timeout_s: float = 1
    ) -> Ran:
        self.ran.append(words)
        if words[0] not in ("ps", "asks"):
            self.stdin, self.env = stdin, env or {}
        if words[0] == "wait" and self.blocks:
            await anyio.sleep_forever()
        told = self.answers.get(words[0], {})
        return told if isinstance(told, Ran) else Ran(0, json.dumps(told).encode(), b"")

    @property
    def acts(self) -> list[tuple[str, ...]]:
        """Without the looks."""
        return [w for w in self.ran if w[0] not in ("ps", "asks")]


def me() -> Script:
    return Script(make_entry("me"))


def call(script: Script, tool: str, **arguments: Any) -> tuple[Any, bool]:
    """What the client gets, and whether it is an error."""
    return calls(script, (tool, arguments))[0]


def calls(script: Script, *wanted: tuple[str, dict[str, Any]]) -> list[tuple[Any, bool]]:
    """The same for several calls to one server."""
    server: MCPServer[None] = MCPServer("supervisor", log_level="CRITICAL")
    tools = Tools(cast(Caller, script))
    for name in TOOLS:
        server.add_tool(getattr(tools, name), name=name)

    async def main() -> list[tuple[Any, bool]]:
        out = []
        async with Client(server) as client:
            for name, arguments in wanted:
                result = await client.call_tool(name, arguments)
                text = "".join(getattr(c, "text", "") for c in result.content)
                out.append((text if result.is_error else json.loads(text), bool(result.is_error)))
        return out

    with_deadline = anyio.run(main)
    assert isinstance(with_deadline, list)
    return with_deadline


# -- launching


def test_a_launch_is_one_command_whose_words_cannot_become_options() -> None:
    script = me()
    script.answers["launch"] = {"name": "-x", "sessionId": "s1"}
    told, failed = call(
        script, "launch_agent", profile="claude", prompt="--help\n$(id)", name="-x", cwd="/w", args=["--foo", "-"]
    )
    assert (told["sessionId"], failed) == ("s1", False)
    assert script.acts == [
        ("launch", "--json", "--detach", "--name=-x", "--cwd=/w", "--prompt-file=-", "--", "claude", "--foo", "-")
    ]
    assert script.stdin == b"--help\n$(id)"


def test_a_child_gets_what_its_parent_was_started_with() -> None:
    """CLIs keep variables from their servers."""
    script = me()
    script.answers["launch"] = {"sessionId": "s1"}
    call(script, "launch_agent", profile="shell", args=["make"])
    assert script.env == {"KEY": "of the agent"}


def test_a_child_works_on_its_parents_goal_unless_it_has_another() -> None:
    script = Script(make_entry("me", task_ref="GOAL-7"), launch={"sessionId": "s1"})
    calls(
        script,
        ("launch_agent", {"profile": "demo", "prompt": "x"}),
        ("launch_agent", {"profile": "demo", "prompt": "x", "task_ref": "GOAL-8"}),
    )
    assert [w[3] for w in script.acts] == ["--task-ref=GOAL-7", "--task-ref=GOAL-8"]


# -- whom it looks at and acts on


def test_an_agent_sees_its_descendants_only() -> None:
    told, _ = call(me(), "list_agents")
    assert [a["name"] for a in told["agents"]] == ["kid", "grandkid"]
    assert told["you"]["name"] == "me"


@pytest.mark.parametrize("tool", ["agent_status", "read_output", "stop_agent"])
@pytest.mark.parametrize("wanted", ["other", "me", "session-other", "nobody"])
def test_it_reaches_nobody_else(tool: str, wanted: str) -> None:
    script = me()
    told, failed = call(script, tool, agent=wanted)
    assert failed
    assert f"you have no agent {wanted!r}" in told
    assert script.acts == []


@pytest.mark.parametrize("wanted", ["grandkid", "session-grandkid", "entry-grandkid"])
def test_a_name_a_session_and_an_entry_mean_an_agent(wanted: str) -> None:
    script = me()
    script.answers["stop"] = []
    call(script, "stop_agent", agent=wanted, cascade=True, grace_seconds=2)
    assert script.acts == [("stop", "--json", "--cascade", "--grace=2.0", "entry-grandkid")]


def test_of_one_name_the_running_one_is_meant_before_an_ended_one() -> None:
    script = me()
    old = row("kid", status="closed", entryId="entry-old", sessionId="session-old", startedAt=9)
    script.answers |= {"ps": [*FAMILY, old], "stop": []}
    call(script, "stop_agent", agent="kid")
    assert script.acts == [("stop", "--json", "entry-kid")]


def test_a_grace_of_nothing_is_not_the_profiles_grace() -> None:
    script = me()
    script.answers["stop"] = []
    call(script, "stop_agent", agent="kid", grace_seconds=0)
    assert script.acts == [("stop", "--json", "--grace=0.0", "entry-kid")]


def test_who_is_not_on_record_looks_at_everybody_and_stops_only_what_it_launched() -> None:
    script = Script(None, launch={"sessionId": "session-kid"}, stop=[])
    (listed, _), (told, refused), _, (_, failed) = calls(
        script,
        ("list_agents", {}),
        ("stop_agent", {"agent": "kid"}),
        ("launch_agent", {"profile": "demo", "prompt": "hi"}),
        ("stop_agent", {"agent": "grandkid"}),
    )
    assert [a["name"] for a in listed["agents"]] == ["me", "kid", "grandkid", "other"]
    assert refused
    assert "supervisor tree --discover" in told
    assert not failed


# -- another turn


def test_a_running_agent_is_sent_its_next_prompt() -> None:
    script = me()
    told, failed = call(script, "send_followup", agent="kid", prompt="--and now")
    assert (failed, told["how"]) == (False, "the next turn of the running agent")
    assert script.acts == [("send", "--prompt-file=-", "entry-kid")]
    assert script.stdin == b"--and now"


def test_an_agent_that_has_ended_is_resumed_with_it() -> None:
    script = me()
    script.answers |= {"ps": [row("me", None), row("kid", status="closed")], "resume": {"name": "kid", "pid": 5}}
    told, failed = call(script, "send_followup", agent="kid", prompt="and now")
    assert (failed, told["how"], told["pid"]) == (False, "resumed", 5)
    assert script.acts == [("resume", "--json", "--detach", "--prompt-file=-", "entry-kid")]
    assert (script.stdin, script.env) == (b"and now", {"KEY": "of the agent"})


@pytest.mark.parametrize("wanted", ["other", "me"])
def test_nobody_elses_agent_gets_another_turn(wanted: str) -> None:
    script = me()
    assert call(script, "send_followup", agent=wanted, prompt="x")[1]
    assert script.acts == []


# -- reading


def test_output_is_bounded_and_harmless() -> None:
    script = me()
    script.answers["logs"] = Ran(0, b"x" * MAX_TEXT + b"\x1b]0;title\x07 end\n", b"")
    told, _ = call(script, "read_output", agent="kid", lines=5)
    assert script.acts == [("logs", "--lines=5", "entry-kid")]
    assert len(told["output"]) == MAX_TEXT + 1
    assert told["output"].endswith("end\n")
    assert "\x1b" not in told["output"]


@pytest.mark.parametrize("lines", [0, 100_000])
def test_unbounded_output_cannot_be_asked_for(lines: int) -> None:
    script = me()
    assert call(script, "read_output", agent="kid", lines=lines)[1]
    assert script.ran == []


def test_what_a_command_says_is_the_tools_error() -> None:
    script = me()
    script.answers["logs"] = Ran(1, b"", b"supervisor: kid has no transcript\x1b[2J. Go there: supervisor attach kid\n")
    told, failed = call(script, "read_output", agent="kid")
    assert failed
    assert "kid has no transcript\\x1b[2J. Go there: supervisor attach kid" in told


def test_the_end_of_an_agents_output_goes_with_the_complaint() -> None:
    ran = Ran(1, b"", b"supervisor: kid exited with 3 before it was up\n")
    assert complaint(ran, {"output": "boom"}).splitlines() == [
        "kid exited with 3 before it was up",
        "The end of its output:",
        "boom",
    ]


# -- waiting


def test_a_wait_is_bounded_and_tells_what_became_of_them() -> None:
    script = me()
    script.answers["wait"] = Ran(3, b"", b"")
    ended = [row("kid", status="closed", end="exited with 3", exitCode=3), *FAMILY[2:]]
    script.answers["ps"] = ended
    told, failed = call(script, "wait_agent", agents=["kid"], timeout_seconds=1)
    assert not failed
    assert script.acts == [("wait", "entry-kid", "--timeout=1.0")]
    assert (told["allEnded"], told["agents"][0]["exitCode"], told["newAsks"]) == (True, 3, [])


@pytest.mark.parametrize("seconds", [-1, 10_000])
def test_a_wait_without_end_cannot_be_asked_for(seconds: int) -> None:
    assert call(me(), "wait_agent", agents=["kid"], timeout_seconds=seconds)[1]


def test_a_new_ask_ends_a_wait_and_one_that_was_told_of_does_not() -> None:
    """Else an agent that leaves an ask to a person could never wait again."""
    script = me()
    script.waiting, script.blocks = {"ask-1"}, True
    told, _ = call(script, "wait_agent", agents=["kid"])
    assert (told["allEnded"], told["newAsks"]) == (False, ["ask-1"])

    script.blocks = False
    _, (told, _) = calls(script, ("pending_asks", {}), ("wait_agent", {"agents": ["kid"]}))
    assert told["newAsks"] == []


# -- asks


def test_asks_of_descendants_are_listed_harmlessly() -> None:
    script = me()
    script.answers["asks"] = [ASK, {**ASK, "id": "ask-2", "requester": "session-other"}, {**ASK, "requester": ME}]
    told, _ = call(script, "pending_asks")
    (ask,) = told["asks"]
    assert (ask["id"], ask["nonce"], ask["yoursToAnswer"]) == ("ask-1", "n1", True)
    assert ask["value"] == "make\\x1b[2J"


def test_an_ask_that_was_passed_on_is_not_its_own_to_answer() -> None:
    script = me()
    script.answers["asks"] = [{**ASK, "session": "session-above"}]
    told, _ = call(script, "pending_asks")
    assert told["asks"][0]["yoursToAnswer"] is False


def test_an_answer_names_the_ask_that_was_read() -> None:
    script = me()
    script.answers["answer"] = {"ask": "ask-1", "result": "applied", "detail": ""}
    told, failed = call(script, "answer_ask", ask_id="-x", decision="deny", nonce="n1", reason="--no")
    assert (told["result"], failed) == ("applied", False)
    assert script.acts == [("answer", "--json", "--nonce=n1", "--reason=--no", "--", "-x", "deny")]


def test_who_is_not_on_record_answers_nothing() -> None:
    script = Script(None)
    told, failed = call(script, "answer_ask", ask_id="ask-1", decision="allow", nonce="n1")
    assert failed
    assert "no authority to answer" in told
    assert script.acts == []


# -- the state root of the agent above


def test_the_state_root_is_found_where_the_cli_did_not_hand_it_on() -> None:
    table = FakeProcessTable()
    agent = table.add(env={"SUPERVISOR_HOME": "/state"})
    cli = table.add(parent=agent.pid)
    server = table.add(parent=cli.pid)
    assert with_home({"PATH": "/bin"}, pid=server.pid, processes=table)["SUPERVISOR_HOME"] == "/state"
    assert with_home({"SUPERVISOR_HOME": "/mine"}, pid=server.pid, processes=table)["SUPERVISOR_HOME"] == "/mine"
    assert "SUPERVISOR_HOME" not in with_home({}, pid=table.add().pid, processes=table)


def test_an_orphan_in_its_grace_runs() -> None:
    assert is_live(row("kid", status="resumable", adoptableUntil=9))
    assert not is_live(row("kid", status="resumable", adoptableUntil=None))
