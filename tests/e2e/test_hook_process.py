"""The hook as the process that a CLI runs: it asks a real parent through a real keeper, and ends with its CLI."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import children, gone, kill, wait_for
from tests.e2e.rig import PATIENCE, Supervisor, spawn

HOOK = [sys.executable, "-P", "-m", "supervisor.hook"]
DATA = Path(__file__).parent.parent / "data" / "hook"
OF_THE_START = {"sitecustomize", "usercustomize", "_distutils_hack", "_virtualenv", "a1_coverage", "coverage"}
RULES = [
    {"action": "ask", "value": "*"},
    {"action": "allow", "tool": "bash", "value": "touch *"},
    {"action": "deny", "tool": "bash", "value": "rm *", "reason": "keep your files"},
]


Ran = subprocess.CompletedProcess[bytes]


def event(cli: str = "claude", **changes: Any) -> bytes:
    name = {"claude": "claude-PermissionRequest-Bash", "codex": "codex-PermissionRequest"}[cli]
    return json.dumps({**json.loads((DATA / f"{name}.stdin.json").read_text()), **changes}).encode()


def bash(command: str) -> bytes:
    return event(tool_input={"command": command})


def decision(out: bytes) -> Any:
    return json.loads(out)["hookSpecificOutput"]["decision"]


class Hooks:
    """Hooks of a child below a parent; every process is gone at the end."""

    def __init__(self, sv: Supervisor) -> None:
        self.sv = sv
        self.env: dict[str, str | None] = {"SUPERVISOR_SESSION_ID": "kid-1", "SUPERVISOR_PARENT_SESSION": "nobody"}
        self._started: list[subprocess.Popen[bytes]] = []

    def below(self, mode: str, name: str = "p") -> None:
        """A demo parent whose keeper serves."""
        self.sv.run("settings", "set", "asks.mode", mode)
        self.sv.run("settings", "set", "asks.rules", json.dumps(RULES))
        self.sv.demo(name, "SLEEP: 1000")
        session = self.sv.wait_ready(name)[name]["sessionId"]
        self.env["SUPERVISOR_PARENT_SESSION"] = session
        wait_for((self.sv.home / "forwarding" / "serving" / f"{session}.json").exists, "a parent that serves")

    def start(self, data: bytes, *words: str) -> subprocess.Popen[bytes]:
        process = self.popen([*HOOK, *(words or ("claude",))])
        assert process.stdin is not None
        process.stdin.write(data)
        process.stdin.close()
        process.stdin = None
        return process

    def popen(self, argv: list[str], **how: Any) -> subprocess.Popen[bytes]:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        env = self.sv.environment(self.env)
        self._started.append(subprocess.Popen(argv, env=env, cwd=self.sv.work, **{**pipes, **how}))
        return self._started[-1]

    def run(self, data: bytes, *words: str, env: dict[str, str | None] | None = None) -> Ran:
        return subprocess.run(
            [*HOOK, *(words or ("claude",))],
            input=data,
            capture_output=True,
            env=self.sv.environment({**self.env, **(env or {})}),
            timeout=PATIENCE,
            check=False,
        )

    def waiting(self) -> Any:
        """The one ask that waits, once it does."""
        (ask,) = wait_for(lambda: self.sv.json("asks"), "an ask that waits")
        return ask

    def answer(self, *words: str) -> None:
        self.sv.run("answer", self.waiting()["id"], *words)

    def requests(self) -> list[Path]:
        return list((self.sv.home / "forwarding" / "sessions").glob("*/requests/*"))

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()


@pytest.fixture
def hooks(sv: Supervisor) -> Iterator[Hooks]:
    made = Hooks(sv)
    yield made
    made.close()


@pytest.mark.parametrize("cli", ["claude", "codex"])
def test_an_ask_that_a_person_allows_is_printed_as_the_verified_allow(hooks: Hooks, cli: str) -> None:
    hooks.below("hold")
    hook = hooks.start(bash("make install"), cli)
    ask = hooks.waiting()
    assert (ask["tool"], ask["value"], ask["requester"]) == ("bash", "make install", "kid-1")
    assert not ask["askerDead"]

    hooks.answer("allow")

    out, err = hook.communicate(timeout=PATIENCE)
    assert json.loads(out) == json.loads((DATA / f"{cli}-PermissionRequest.reply-allow.json").read_text())
    assert (err, hook.returncode) == (b"", 0)
    assert hooks.requests() == []


def test_an_ask_that_a_person_denies_carries_the_reason_and_who(hooks: Hooks) -> None:
    hooks.below("hold")
    hook = hooks.start(bash("make install"))
    hooks.answer("deny", "--reason", "not on a Friday")

    out, _ = hook.communicate(timeout=PATIENCE)
    parent = hooks.env["SUPERVISOR_PARENT_SESSION"]
    assert decision(out) == {
        "behavior": "deny",
        "message": f"denied by the user at session '{parent}': not on a Friday",
    }
    assert hook.returncode == 0


def test_a_rule_decides_at_once(hooks: Hooks) -> None:
    hooks.below("rules")
    assert decision(hooks.run(bash("touch MARK")).stdout) == {"behavior": "allow"}
    denied = decision(hooks.run(bash("rm -rf /")).stdout)
    assert denied["behavior"] == "deny"
    assert denied["message"].startswith("denied by a rule") and denied["message"].endswith(": keep your files")


def test_what_no_rule_covers_is_refused_as_undecided(hooks: Hooks) -> None:
    hooks.below("rules")
    told = decision(hooks.run(bash("make install")).stdout)["message"]
    assert told.startswith("not decided: ") and "none of them covers" in told
    assert told.endswith("this is not a refusal by the user")


@pytest.mark.parametrize("cli", ["claude", "codex"])
def test_nobody_serving_is_refused_with_the_reason(hooks: Hooks, cli: str) -> None:
    done = hooks.run(event(cli), cli)
    told = decision(done.stdout)["message"]
    assert "session 'nobody' is not serving" in told and "no serving heartbeat" in told
    assert told.endswith("this is not a refusal by the user")
    assert (done.returncode, hooks.requests()) == (0, [])


def test_a_keeper_that_is_killed_while_the_ask_waits_is_told_of(hooks: Hooks) -> None:
    hooks.below("hold")
    hook = hooks.start(bash("make install"))
    hooks.waiting()
    kill(hooks.sv.keeper("p"))

    out, _ = hook.communicate(timeout=PATIENCE)
    assert "its process is gone" in decision(out)["message"]


STAND_IN = "{hook} < event.json > reply.json; echo ended > after; sleep 1000"


def test_a_hook_ends_with_its_cli_and_its_ask_is_withdrawn(hooks: Hooks) -> None:
    """The CLI is killed: it can tell nobody."""
    hooks.below("hold")
    (hooks.sv.work / "event.json").write_bytes(bash("make install"))
    cli = hooks.popen(["/bin/sh", "-c", STAND_IN.format(hook=shlex.join([*HOOK, "claude"]))])
    hooks.waiting()
    ((hook, _),) = children(cli.pid)

    cli.kill()
    cli.wait()

    wait_for(lambda: gone(hook), "the end of the hook")
    wait_for(lambda: not hooks.requests(), "no request")
    assert (hooks.sv.work / "reply.json").read_bytes() == b""
    assert not hooks.sv.json("asks")


def test_a_hook_ends_when_nobody_reads_its_reply_any_more(hooks: Hooks) -> None:
    """A shell between the CLI and the hook lives on after the CLI: its end shows at the pipe."""
    hooks.below("hold")
    hook = hooks.start(bash("make install"))
    hooks.waiting()
    assert hook.stdout is not None
    hook.stdout.close()
    hook.stdout = None

    assert hook.wait(PATIENCE) == 0
    assert hooks.requests() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_removes_the_request_and_denies(hooks: Hooks, number: int) -> None:
    hooks.below("hold")
    hook = hooks.start(bash("make install"))
    hooks.waiting()

    hook.send_signal(number)

    out, err = hook.communicate(timeout=PATIENCE)
    assert decision(out)["message"].startswith("not decided: the waiting process was told to end")
    assert (err, hook.returncode, hooks.requests()) == (b"", 0, [])


def test_its_own_deadline_denies_and_removes_the_request(hooks: Hooks) -> None:
    hooks.below("hold")
    done = hooks.run(bash("make install"), "claude", "--deadline", "0.5")
    assert "not decided in time" in decision(done.stdout)["message"]
    assert hooks.requests() == []


def test_an_answer_in_the_clis_own_dialog_ends_the_hook_quietly(hooks: Hooks) -> None:
    hooks.below("hold")
    transcript = hooks.sv.work / "t.jsonl"
    hook = hooks.start(event(tool_input={"command": "make install"}, transcript_path=str(transcript)))
    hooks.waiting()
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make install"}}
    got = {"type": "tool_result", "tool_use_id": "t1", "content": "done"}
    lines = (
        {"type": "assistant", "message": {"id": "m", "content": [use]}},
        {"type": "user", "message": {"content": [got]}, "timestamp": "2999-01-01T00:00:00.000Z"},
    )
    transcript.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    assert hook.communicate(timeout=PATIENCE) == (b"", b"")
    assert (hook.returncode, hooks.requests()) == (0, [])


def test_the_hook_of_a_real_child_asks_its_parent_and_proves_its_session(hooks: Hooks) -> None:
    """From a child's own tool, with nothing but the environment that the supervisor gave it."""
    sv = hooks.sv
    hook = shlex.join([*HOOK, "claude"])
    (sv.work / "event.json").write_bytes(bash("make install"))
    (sv.work / "start.json").write_bytes((DATA / "claude-SessionStart.stdin.json").read_bytes())
    sv.run("settings", "set", "asks.mode", "hold")
    task = f"RUN: {hook} < start.json > nothing\nRUN: {hook} < event.json > reply.json\nSLEEP: 1000"
    sv.demo("p", f"{spawn('kid', task)}\nSLEEP: 1000")
    ask = hooks.waiting()
    rows = sv.ps()
    assert (ask["session"], ask["requester"]) == (rows["p"]["sessionId"], rows["kid"]["sessionId"])
    assert ask["lineage"] == ["p", "kid"]
    proof = json.loads((sv.home / "proofs" / f"{rows['kid']['entryId']}.json").read_text())
    assert (proof["sessionId"], proof["source"]) == ("<UUID_1>", "startup")

    sv.run("answer", ask["id"], "allow")

    reply = sv.work / "reply.json"
    assert decision(wait_for(reply.read_bytes, "the reply")) == {"behavior": "allow"}
    assert (sv.work / "nothing").read_bytes() == b""


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 100_000, event()[:-9], b"\0" * 10, b"x" * 5_000_000])
def test_garbage_is_denied_without_a_traceback(hooks: Hooks, data: bytes) -> None:
    done = hooks.run(data)
    assert decision(done.stdout)["behavior"] == "deny"
    assert (done.stderr, done.returncode) == (b"", 0)


def test_a_wrong_cli_is_denied_and_a_person_gets_the_usage(hooks: Hooks) -> None:
    assert decision(hooks.run(event(), "gemini").stdout)["behavior"] == "deny"
    done = hooks.run(b"", "gemini")
    assert (done.stdout, done.returncode) == (b"", 2)
    assert b"usage: " in done.stderr
    assert hooks.run(event(), "--help").returncode == 2


def test_outside_a_tree_it_says_nothing_to_anything(hooks: Hooks) -> None:
    for data in (event(), b"", b"{", b"x" * 5_000_000):
        done = hooks.run(data, env={"SUPERVISOR_SESSION_ID": None})
        assert (done.stdout, done.stderr, done.returncode) == (b"", b"", 0)
    assert not (hooks.sv.home / "forwarding").exists()


@pytest.mark.parametrize("broken", ["supervisor/hook/run.py", "supervisor/runtime/ask_call.py"])
def test_an_installation_that_is_half_gone_denies(hooks: Hooks, short_tmp: Path, broken: str) -> None:
    source = Path(hooks.sv.env["PYTHONPATH"])
    copy = short_tmp / "copy"
    for path in source.glob("supervisor/**/*.py"):
        target = copy / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    (copy / broken).write_text("this is no Python")
    done = hooks.run(event(), env={"PYTHONPATH": str(copy)})
    assert decision(done.stdout)["message"].startswith("not decided: the permission hook of supervisor failed")
    assert done.returncode == 0


@pytest.mark.parametrize("name", ["claude-PermissionRequest-Bash", "claude-SessionStart"])
def test_a_whole_run_imports_the_standard_library_and_our_own_modules_only(hooks: Hooks, name: str) -> None:
    hooks.below("rules")
    hooks.env["SUPERVISOR_ENTRY_ID"] = "b03a054629d3"
    argv = [sys.executable, "-P", "-X", "importtime", "-m", "supervisor.hook", "claude"]
    data, env = (DATA / f"{name}.stdin.json").read_bytes(), hooks.sv.environment(hooks.env)
    done = subprocess.run(argv, input=data, capture_output=True, env=env, timeout=PATIENCE, check=True)
    assert (b"allow" in done.stdout, list(hooks.sv.home.glob("proofs/*")) == []) == (("Permission" in name,) * 2)
    seen = {line.rsplit(b"|", 1)[1].strip().decode() for line in done.stderr.splitlines() if b"|" in line}
    tops = {name.partition(".")[0] for name in seen} - {"imported package"}
    assert {"supervisor", "json"} <= tops
    assert tops - set(sys.stdlib_module_names) - {"supervisor"} - OF_THE_START == set()
    assert not {"argparse", "asyncio", "subprocess", "logging", "uuid", "tempfile"} & tops
