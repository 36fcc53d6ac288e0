"""Real CLIs that call the tools of `supervisor mcp`: they launch, wait for, read and answer children."""

import json
import re
from collections.abc import Callable

import pytest

from tests.e2e_real.rig import TOOLS_ALLOWED, Rig, Row

pytestmark = pytest.mark.real


def told(rig: Rig, row: Row) -> str:
    """What the model was told last, as it says itself."""
    return re.sub(r"\\+", "", rig.transcript(row))


def calls(*wanted: tuple[str, dict[str, object]], namespace: str = "mcp__supervisor__") -> bytes:
    """A prompt that has the fake model call these tools one after another."""
    return "\n".join(f"TOOL: {namespace}{name} {json.dumps(arguments)}" for name, arguments in wanted).encode()


def test_a_claude_runs_a_codex_and_a_gemini_by_the_tools(
    rig: Rig, record_property: Callable[[str, object], None]
) -> None:
    """It launches them, waits for both and reads what they said."""
    record_property("cli", "claude")
    prompt = calls(
        ("launch_agent", {"profile": "codex", "prompt": "one", "name": "tests"}),
        ("launch_agent", {"profile": "gemini", "prompt": "two", "name": "docs"}),
        ("wait_agent", {"agents": ["tests", "docs"], "timeout_seconds": 120}),
        ("read_output", {"agent": "tests"}),
        ("read_output", {"agent": "docs"}),
    )
    lead = rig.launch(
        "claude", "--name", "lead", "--mcp", "--prompt-file", "-", "--", "--allowedTools", "mcp__supervisor",
        stdin=prompt,
    )  # fmt: skip

    end = rig.hand_off("lead")
    assert (end["outcome"], end["code"]) == ("exited", 0), rig.transcript(lead)[-3000:]
    for name in ("tests", "docs"):
        assert rig.entry(name)["parent"]["sessionId"] == lead["sessionId"]
        assert rig.hand_off(name)["success"], rig.transcript(rig.row(name))
    assert told(rig, lead).count("[turn 1]") >= 2, rig.transcript(lead)[-3000:]
    rig.assert_nothing_left()


APPROVE = 'mcp_servers.supervisor.default_tools_approval_mode="approve"'
ALLOW = [{"action": "allow", "tool": "other", "value": "*(supervisor MCP Server)*"}]


@pytest.mark.parametrize(
    ("cli", "namespace", "words"),
    [
        ("codex", "mcp__supervisor/", ("-c", APPROVE)),
        ("opencode", "supervisor_", ()),
        ("gemini", "mcp_supervisor_", ()),
        ("pi", "mcp__supervisor__", TOOLS_ALLOWED["pi"]),
    ],
    ids=["codex", "opencode", "gemini", "pi"],
)
def test_the_tools_launch_what_a_sandboxed_shell_must_not(
    rig: Rig, record_property: Callable[[str, object], None], cli: str, namespace: str, words: tuple[str, ...]
) -> None:
    """Each CLI is told of them for this launch alone. Gemini asks its parent for each; a rule allows them here."""
    record_property("cli", cli)
    rig.run("settings", "set", "asks.mode", "rules")
    rig.run("settings", "set", "asks.rules", json.dumps(ALLOW))
    prompt = calls(
        ("launch_agent", {"profile": "demo", "prompt": "hello", "name": "kid"}),
        ("wait_agent", {"agents": ["kid"]}),
        ("read_output", {"agent": "kid"}),
        namespace=namespace,
    )
    lead = rig.launch(cli, "--name", "lead", "--mcp", "--prompt-file", "-", "--", *words, stdin=prompt)

    end = rig.hand_off("lead")
    assert (end["outcome"], end["code"]) == ("exited", 0), rig.transcript(lead)[-3000:]
    assert "kid" in rig.rows(), rig.transcript(lead)[-3000:]
    assert rig.entry("kid")["parent"]["sessionId"] == lead["sessionId"]
    assert "DONE [turn 1]" in told(rig, lead), rig.transcript(lead)[-3000:]
    rig.assert_nothing_left()
