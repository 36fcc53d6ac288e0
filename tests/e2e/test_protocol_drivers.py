"""ACP before an agent that misbehaves, and opencode's driver before a server that is another's."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.processes import gone, wait_for
from tests.e2e.rig import Supervisor

FAKE = Path(__file__).parent / "fake_acp.py"


def by_hand(sv: Supervisor, kind: str, prompt: str, *command: str) -> subprocess.CompletedProcess[bytes]:
    argv = [sys.executable, "-P", "-m", "supervisor.drivers", kind, "--", *command]
    return subprocess.run(
        argv, input=prompt.encode(), capture_output=True, env=sv.environment({}), cwd=sv.work, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("prompt", "code", "said"),
    [
        ("SAY: this is no JSON\nASK: touch MARK", 1, "no JSON object"),
        ('SAY: {"id": 99, "result": {}}\nASK: touch MARK', 0, "not decided"),
        ("CLOSE", 1, "closed its output"),
        ("DIE", 1, "killed by KILL"),
        ("ASK: touch MARK", 0, "could not resolve a parent session"),
    ],
)
def test_on_any_doubt_nothing_runs(sv: Supervisor, prompt: str, code: int, said: str) -> None:
    done = by_hand(sv, "acp", prompt, sys.executable, str(FAKE))

    assert (done.returncode, said in done.stdout.decode()) == (code, True), done
    assert not (sv.work / "MARK").exists()
    wait_for(lambda: not sv.alive(), "the end of all of it")


def test_an_acp_agent_runs_what_a_rule_allows_and_nothing_else(sv: Supervisor) -> None:
    sv.run("settings", "set", "asks.rules", '[{"action": "allow", "tool": "bash", "value": "touch MARK"}]')
    words = ("launch", "--detach", "--name", "kid", "--asks", "rules", "--prompt-file", "-", "acp")
    launched = sv.json(*words, "--", sys.executable, str(FAKE), input=b"ASK: touch MARK\nASK: touch OTHER")

    end = sv.ended("kid")

    assert (end["code"], end["success"]) == (0, True)
    assert [(sv.work / name).exists() for name in ("MARK", "OTHER")] == [True, False]
    assert sv.record("kid")["generation"]["session"] == "fake-1"
    assert "asks for permission: bash touch OTHER" in Path(launched["transcript"]).read_text()


def test_an_acp_agent_that_hangs_is_ended(sv: Supervisor) -> None:
    words = ("launch", "--detach", "--name", "kid", "--prompt-file", "-", "acp")
    launched = sv.json(*words, "--", sys.executable, str(FAKE), input=b"HANG")

    sv.run("stop", "kid")

    assert gone(launched["pid"])
    wait_for(lambda: not sv.alive(), "the end of all of it")


def test_nothing_is_sent_to_a_server_that_is_not_the_drivers_own(sv: Supervisor) -> None:
    """Its password neither: the CLI says that it listens where somebody else does."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0)
        line = f"opencode server listening on http://127.0.0.1:{other.getsockname()[1]}"
        done = by_hand(sv, "opencode", "hello", "sh", "-c", f"echo '{line}'; exec tail -f /dev/null")
        with pytest.raises(BlockingIOError):
            other.accept()

    assert done.returncode == 1
    assert "another process does" in done.stdout.decode()
    wait_for(lambda: not sv.alive(), "the end of all of it")
