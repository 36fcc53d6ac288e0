"""Which session a real agent is in: proven by its hook and its output, also after a change inside."""

import json
from typing import Any

import pytest

from tests.e2e_real.processes import until
from tests.e2e_real.rig import Rig

pytestmark = pytest.mark.real


def test_an_agents_session_and_file_are_proven(rig: Rig, cli: str) -> None:
    launched = rig.agent(cli, "one", "RUN: tail -f /dev/null")

    def proven() -> bool:
        return rig.entry("one")["generation"]["session"] is not None

    until(proven, "a proof")
    record = rig.entry("one")
    assert record["generation"]["session"] == launched["sessionId"]
    context = record["agent"]["resumeContext"]
    assert context["providerSessionId"] == launched["sessionId"]
    assert launched["sessionId"] in context["sessionFile"]
    assert rig.run("stop", "one").code == 0
    rig.assert_nothing_left()


def test_a_cli_within_a_tool_of_the_agent_does_not_speak_for_it(rig: Rig, record_property: Any) -> None:
    """It inherits who the agent is, and its hook is ours: only its place in the process tree tells."""
    record_property("cli", "claude")
    inner = f"echo hello | claude -p --settings {rig.state}/hooks/claude.json --output-format json > inner.json"
    launched = rig.agent("claude", "one", f"RUN: {inner}\nRUN: tail -f /dev/null")

    def other() -> str:
        written: str = json.loads((rig.state / "proofs" / f"{launched['entryId']}.json").read_text())["sessionId"]
        return written if written != launched["sessionId"] else ""

    stranger = until(other, "the word of the inner one's hook")
    until(lambda: (rig.cwd / "inner.json").read_bytes(), "its end")
    assert json.loads((rig.cwd / "inner.json").read_text())["session_id"] == stranger
    until(lambda: "not believed" in (rig.state / "logs" / "keepers.log").read_text(), "the keeper's warning")
    entry = rig.entry("one")
    assert entry["generation"]["session"] == launched["sessionId"]
    assert entry["agent"]["resumeContext"]["providerSessionId"] == launched["sessionId"]
    assert rig.run("stop", "one").code == 0
    rig.assert_nothing_left()
