"""What the tests of driven CLIs need to know of each: how to make it ask, what it told the model, where its session is.

One `Kind` for each; the checks in `test_driven.py` are the same for all.
"""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e_real.processes import below, command, until
from tests.e2e_real.rig import COMMAND_SECONDS, Done, Rig, Row

BUSY = "tail -f /dev/null"
MARK = "touch MARK"


@dataclass(frozen=True)
class Kind:
    """One driven CLI. `asks`, `asks_below`: a prompt by which it asks for that command, itself or in a sub-session.

    `runs`: a prompt by which it runs a command that nobody needs to be asked about, with `allowed` after --. `results`:
    what the model was told of its tool calls. `sessions`: the files in which it keeps one. `told`: whether the model
    learns why it was denied. `one_writer`: whether the CLI itself refuses a second process in a session. `by_rule`: it
    asks about every command, and a rule of ours allows what `runs` runs. `has_file`: a session has its own file.
    `sub_sessions`: its own policy does not deny them.
    """

    profile: str
    driver: str
    command: tuple[str, ...]
    asks: Callable[[str], str]
    asks_below: Callable[[str], str]
    runs: Callable[[str], str]
    results: Callable[[dict[str, Any]], list[str]]
    sessions: Callable[[Rig, str], list[Path]]
    allowed: tuple[str, ...] = ()
    told: bool = True
    one_writer: bool = False
    by_rule: bool = False
    has_file: bool = True
    sub_sessions: bool = True

    def launch(self, rig: Rig, prompt: str, *options: str, name: str = "kid", words: tuple[str, ...] = ()) -> Row:
        """A child of whatever the options say, with this prompt."""
        behind = ("--", *words) if words else ()
        return rig.launch(self.profile, "--name", name, *options, "--prompt-file", "-", *behind, stdin=prompt.encode())

    def run(self, rig: Rig, cmd: str) -> Row:
        """An agent that runs a command which nobody need be asked for."""
        if self.by_rule:
            done = rig.run("settings", "set", "asks.rules", '[{"action": "allow", "tool": "bash", "value": "*"}]')
            assert done.code == 0, done.err
            return self.launch(rig, self.runs(cmd), "--asks", "rules")
        return self.launch(rig, self.runs(cmd), words=self.allowed)

    def by_hand(self, rig: Rig, *options: str, prompt: str = "hello") -> Done:
        """The driver as a command of somebody, outside of any agent."""
        argv = [
            sys.executable,
            "-P",
            "-m",
            "supervisor.drivers",
            self.driver,
            *options,
            "--",
            *self.command,
        ]
        done = subprocess.run(
            argv,
            env=rig.env,
            cwd=rig.cwd,
            input=prompt.encode(),
            capture_output=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def told_of_tools(self, rig: Rig) -> list[str]:
        """The tool results in all requests."""
        return [text for request in rig.model.requests() for text in self.results(request.get("req", {}))]

    def __str__(self) -> str:
        return self.profile


def codex_escalates(cmd: str) -> str:
    """A command that is to run outside of Codex's sandbox, which it asks for."""
    wanted = {"cmd": cmd, "sandbox_permissions": "require_escalated", "justification": "a test"}
    return f"TOOL: exec_command {json.dumps(wanted)}"


def codex_spawns(cmd: str) -> str:
    """A sub-session that does so."""
    return f"TOOL: multi_agent_v1/spawn_agent {json.dumps({'message': codex_escalates(cmd)})}"


def codex_results(request: dict[str, Any]) -> list[str]:
    """Outputs of calls, and what was said into the turn after a denial."""
    items = [i for i in request.get("input", []) if isinstance(i, dict)]
    calls = [i for i, item in enumerate(items) if str(item.get("type", "")).endswith("_call_output")]
    after = items[calls[0] :] if calls else []
    return [json.dumps(item.get("output") or item.get("content")) for item in after if item.get("role") != "assistant"]


def codex_sessions(rig: Rig, session: str) -> list[Path]:
    """Its rollout file."""
    return sorted(Path(rig.env["CODEX_HOME"]).glob(f"sessions/*/*/*/rollout-*-{session}.jsonl"))


CODEX = Kind(
    profile="codex",
    driver="codex",
    command=("codex", "app-server"),
    asks=codex_escalates,
    asks_below=codex_spawns,
    runs=lambda cmd: f"RUN: {cmd}",
    results=codex_results,
    sessions=codex_sessions,
    one_writer=True,
)


def claude_asks(cmd: str) -> str:
    """Any command that no rule of its own allows."""
    return f"RUN: {cmd}"


def claude_spawns(cmd: str) -> str:
    """A sub-agent that does so."""
    task = {"description": "sub", "prompt": claude_asks(cmd), "subagent_type": "general-purpose"}
    return f"TOOL: Task {json.dumps(task)}"


def claude_results(request: dict[str, Any]) -> list[str]:
    """Its tool results."""
    contents = [message.get("content") for message in request.get("messages", [])]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return [json.dumps(p.get("content")) for p in parts if isinstance(p, dict) and p.get("type") == "tool_result"]


def claude_sessions(rig: Rig, session: str) -> list[Path]:
    """Its session file."""
    return sorted(Path(rig.env["CLAUDE_CONFIG_DIR"]).glob(f"projects/*/{session}.jsonl"))


CLAUDE = Kind(
    profile="claude-stdio",
    driver="claude",
    command=(
        *("claude", "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"),
        *("--permission-mode", "manual", "--permission-prompt-tool", "stdio"),
    ),
    asks=claude_asks,
    asks_below=claude_spawns,
    runs=claude_asks,
    allowed=("--allowedTools", "Bash"),
    results=claude_results,
    sessions=claude_sessions,
)


def gemini_invokes(cmd: str) -> str:
    """A sub-agent of its own that would run it."""
    return f"TOOL: invoke_agent {json.dumps({'agent_name': 'generalist', 'prompt': f'RUN: {cmd}'})}"


def gemini_results(request: dict[str, Any]) -> list[str]:
    """Responses of functions."""
    parts = [part for content in request.get("contents", []) for part in content.get("parts", [])]
    return [json.dumps(part["functionResponse"]) for part in parts if "functionResponse" in part]


def gemini_sessions(rig: Rig, session: str) -> list[Path]:
    """All files of its first eight characters; an empty one costs the others."""
    return sorted(Path(rig.env["HOME"]).glob(f".gemini/tmp/*/chats/session-*-{session[:8]}.jsonl"))


GEMINI = Kind(
    profile="gemini",
    driver="gemini",
    command=("gemini", "--acp", "--skip-trust", "--approval-mode", "default"),
    asks=lambda cmd: f"RUN: {cmd}",
    asks_below=gemini_invokes,
    runs=lambda cmd: f"RUN: {cmd}",
    results=gemini_results,
    sessions=gemini_sessions,
    told=False,
    by_rule=True,
    sub_sessions=False,
)


def opencode_task(cmd: str) -> str:
    """A subagent that runs it."""
    task = {"description": "a test", "prompt": f"RUN: {cmd}", "subagent_type": "general"}
    return f"TOOL: task {json.dumps(task)}"


def opencode_results(request: dict[str, Any]) -> list[str]:
    """Messages of tools."""
    return [json.dumps(m) for m in request.get("messages", []) if m.get("role") == "tool"]


def opencode_sessions(rig: Rig, session: str) -> list[Path]:
    """Its database, if it holds the session."""
    file = Path(rig.env["HOME"]) / ".local/share/opencode/opencode.db"
    with contextlib.closing(sqlite3.connect(file)) as db:
        return [file] if db.execute("select id from session where id = ?", (session,)).fetchall() else []


OPENCODE = Kind(
    profile="opencode",
    driver="opencode",
    command=("opencode", "serve", "--hostname", "127.0.0.1", "--port", "0"),
    asks=lambda cmd: f"RUN: {cmd}",
    asks_below=opencode_task,
    runs=lambda cmd: f"RUN: {cmd}",
    results=opencode_results,
    sessions=opencode_sessions,
    by_rule=True,
    has_file=False,
)

KINDS = [CODEX, CLAUDE, GEMINI, OPENCODE]


def tool(agent: int, line: str = BUSY) -> int:
    """The process of the agent's tool that runs a command line, once it does."""
    return until(lambda: next((p for p in below(agent) if command(p) == line), None), f"{line} below pid {agent}")


def cli_of(driver: int) -> int:
    """The CLI: the child of a driver that is nobody's tool."""
    return until(lambda: next((p for p in below(driver) if os.getsid(p) == p), None), f"a CLI below pid {driver}")
