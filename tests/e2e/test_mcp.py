"""`supervisor mcp` as an agent's CLI starts it: by standard streams, with next to nothing of its environment."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.e2e.processes import wait_for
from tests.e2e.rig import Supervisor

CLIENT = """
import json, pathlib, sys, time
import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

def next_call():
    while not pathlib.Path("call").exists():
        time.sleep(0.05)
    text = pathlib.Path("call").read_text()
    pathlib.Path("call").unlink()
    return json.loads(text)

async def main():
    # the SDK hands on HOME, PATH and the like, nothing of SUPERVISOR_*
    server = StdioServerParameters(command=sys.executable, args=["-P", "-m", "supervisor", "mcp"], cwd=sys.argv[1])
    server.env = {"PYTHONPATH": sys.argv[2]}
    async with Client(stdio_client(server)) as client:
        while True:
            name, arguments = await anyio.to_thread.run_sync(next_call)
            result = await client.call_tool(name, arguments)
            text = "".join(getattr(c, "text", "") for c in result.content)
            pathlib.Path("told.new").write_text(json.dumps([bool(result.is_error), text]))
            pathlib.Path("told.new").rename("told")

anyio.run(main)
"""


class Lead:
    """An agent that calls the tools that the test wants."""

    def __init__(self, sv: Supervisor) -> None:
        self.sv = sv
        program = sv.work / "client.py"
        program.write_text(CLIENT)
        words = [sys.executable, str(program), str(sv.work), sv.env["PYTHONPATH"]]
        self.row = sv.launch("lead", *words, options=("--asks", "hold"))

    def call(self, tool: str, **arguments: Any) -> Any:
        """What a tool says, which must be no error."""
        failed, text = self._call(tool, arguments)
        assert not failed, text
        return json.loads(text)

    def refused(self, tool: str, **arguments: Any) -> str:
        failed, text = self._call(tool, arguments)
        assert failed, text
        return text

    def _call(self, tool: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        work = self.sv.work
        (work / "call.new").write_text(json.dumps([tool, arguments]))
        (work / "call.new").rename(work / "call")
        told = work / "told"
        wait_for(lambda: told.exists() or self._lives(), f"the answer of {tool}")
        failed, text = json.loads(wait_for(lambda: told.exists() and told.read_text(), f"the answer of {tool}"))
        told.unlink()
        return failed, text

    def _lives(self) -> bool:
        assert self.sv.row("lead")["status"] == "running", self.sv.transcript("lead")
        return False


@pytest.fixture
def lead(sv: Supervisor) -> Lead:
    return Lead(sv)


def test_an_agent_launches_waits_for_reads_and_stops_children_by_its_tools(sv: Supervisor, lead: Lead) -> None:
    """Its server knows whose it is by the process table, and which state root by the agent's own environment."""
    kid = lead.call("launch_agent", profile="demo", prompt="hello", name="kid", task_summary="say so")
    assert (kid["name"], kid["parentSessionId"]) == ("kid", lead.row["sessionId"])

    told = lead.call("wait_agent", agents=["kid"])
    assert (told["allEnded"], told["agents"][0]["exitCode"]) == (True, 0)
    assert "DONE [turn 1]" in lead.call("read_output", agent="kid")["output"]

    again = lead.call("send_followup", agent="kid", prompt="and now")
    assert (again["how"], again["sessionId"]) == ("resumed", kid["sessionId"])
    assert lead.call("wait_agent", agents=["kid"])["agents"][0]["exitCode"] == 0
    assert sv.prompts("kid") == ["hello", "and now"]

    sv.launch("stranger")
    lead.call("launch_agent", profile="shell", args=["sleep", "1000"], name="long")
    listed = lead.call("list_agents")
    assert (listed["you"]["name"], [a["name"] for a in listed["agents"]]) == ("lead", ["long"])
    assert "running" in lead.call("agent_status", agent="long")["why"]
    assert "you have no agent 'stranger'" in lead.refused("stop_agent", agent="stranger")
    (stopped,) = lead.call("stop_agent", agent="long")["results"]
    assert stopped["result"] == "stopped"
    assert sv.row("stranger")["status"] == "running"

    assert "there is no profile 'nothing'" in lead.refused("launch_agent", profile="nothing", prompt="hi")
    sv.setting("limits.max_children", 1)
    lead.call("launch_agent", profile="shell", args=["sleep", "1000"])
    assert "limits.max_children is 1" in lead.refused("launch_agent", profile="shell", args=["sleep", "1000"])


def test_an_agent_answers_by_its_tools_what_its_children_ask(sv: Supervisor, lead: Lead) -> None:
    script = f"{sv.command} ask --tool bash --value 'rm -rf build' > kid.told 2>&1"
    lead.call("launch_agent", profile="shell", args=["/bin/sh", "-c", script], name="kid")

    told = lead.call("wait_agent", agents=["kid"], timeout_seconds=60)
    assert (told["allEnded"], len(told["newAsks"])) == (False, 1)
    (ask,) = lead.call("pending_asks")["asks"]
    assert (ask["tool"], ask["value"], ask["yoursToAnswer"]) == ("bash", "rm -rf build", True)
    how = {"ask_id": ask["id"], "nonce": ask["nonce"]}
    assert "lead would have to ask for it itself" in lead.refused("answer_ask", decision="allow", **how)
    lead.refused("answer_ask", decision="deny", ask_id=ask["id"], nonce="another")

    lead.call("answer_ask", decision="deny", reason="keep it", **how)

    sv.ended("kid")
    assert "keep it" in (sv.work / "kid.told").read_text()
