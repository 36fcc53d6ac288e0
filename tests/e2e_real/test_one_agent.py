"""One real agent of each CLI: started, proven up, given its prompt exactly, stopped, lost and found again."""

import json
import os
import re
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e_real.clis import DUMMY_KEY, claude_session_file, pi_session_files
from tests.e2e_real.processes import (
    CommandLines,
    below,
    command,
    environ,
    runs,
    send,
    stat,
    until,
    watched_command_lines,
)
from tests.e2e_real.rig import TOOLS_ALLOWED, Rig, Row, kill_keeper

pytestmark = pytest.mark.real

BUSY = "RUN: tail -f /dev/null"
TERM_CODE = 143  # both CLIs end cooperatively on TERM, with 128 + 15
STATUS_OF_STRANGERS = (6, 15)  # the first Linux that tells the exit status of a process that is not our child

AWKWARD = """-p --help 'single' "double" `touch PWNED` $(touch PWNED) ${HOME} \\ %s {session_id} {prompt}
second line; rm -rf ./nothing && exit 3 | cat <<EOF > PWNED
\tthird\t#  * ? [a-z] ~ ! é 漢 🙂 —end"""
OUTER_BLANKS = f"  \n{AWKWARD}\n\n "
MIB = 1024 * 1024

WHAT_IT_SAYS_OF_A_BAD_START = {"claude": "Invalid session ID", "pi": "not found"}
BAD_START = {"claude": ("--session-id", "no-uuid"), "pi": ("--model", "nosuch/model")}


def session_file(rig: Rig, cli: str, session: str) -> Path | None:
    """The vendor's own file of a session, None while there is none."""
    if cli == "claude":
        path = claude_session_file(rig.env, rig.cwd, session)
        return path if path.exists() else None
    return next(iter(pi_session_files(rig.env, session)), None)


def prompts_at_the_model(rig: Rig) -> list[str]:
    """The user's texts in every request that the model got; CLIs put reminders of their own beside them."""
    texts = []
    for request in rig.model.requests():
        for message in request.get("req", {}).get("messages", []):
            content = message.get("content")
            if message.get("role") != "user":
                continue
            parts: list[Any] = [content] if isinstance(content, str) else content or []
            texts += [p if isinstance(p, str) else p.get("text", "") for p in parts]
    return texts


def as_sent(cli: str, prompt: str) -> str:
    """What is to arrive: claude sends a prompt as it is, pi trims both ends."""
    return prompt if cli == "claude" else prompt.strip()


def assert_arrived(rig: Rig, cli: str, prompt: str) -> None:
    """The model has got exactly this."""
    wanted = as_sent(cli, prompt)
    until(lambda: wanted in prompts_at_the_model(rig), lambda: f"{prompt[:300]!r} at the model: {_heads(rig)}")
    assert not list(rig.cwd.rglob("PWNED"))


def _heads(rig: Rig) -> list[str]:
    return [f"{t[:300]!r} ({len(t)})" for t in prompts_at_the_model(rig)]


# ---------------------------------------------------------------- proven up


def test_a_detached_launch_returns_when_the_session_file_is_there(rig: Rig, cli: str) -> None:
    launched = rig.agent(cli, "one", f"DELAY: 3\n{BUSY}")

    file = session_file(rig, cli, launched["sessionId"])  # at once: the model has not even answered
    assert file is not None
    assert (launched["name"], launched["status"]) == ("one", "running")
    row = rig.row("one")
    assert (row["ready"], row["verdict"], row["pid"]) == (True, "alive", launched["pid"])
    assert rig.entry("one")["agent"]["resumeContext"]["sessionFile"] == str(file)
    stop(rig, "one")


def test_an_agent_is_not_ready_before_its_session_file_is_there(rig: Rig, cli: str) -> None:
    launched = rig.agent(cli, "one", BUSY, options=("--wait", "spawned"))
    looks = []

    def ready() -> bool:
        said = rig.row("one")["ready"]  # looked at first: a file that comes in between is no excuse
        looks.append((said, session_file(rig, cli, launched["sessionId"]) is not None))
        return bool(said)

    until(ready, "ready")
    assert [look for look in looks if look == (True, False)] == []
    stop(rig, "one")


def test_a_launch_without_a_session_file_in_time_says_so(rig: Rig, cli: str) -> None:
    rig.profile(
        "slow",
        f'extends = "{cli}"\nname = "slow"\n'
        '[session]\nid = "preset"\nfiles = ["$HOME/no/{session_id}"]\n'
        '[ready]\nwhen = "session_file"\ntimeout_seconds = 2\n'
        '[asks]\nadapter = "none"\n',  # a hook would tell of the session before its file is looked for
    )
    words = ("launch", "--detach", "slow", "--prompt-file", "-", "--", *TOOLS_ALLOWED[cli])

    launched = rig.run(*words, stdin=BUSY.encode())

    assert launched.code == 1
    assert "has not proven itself up" in launched.err
    row = rig.row("slow")
    assert (row["status"], row["ready"], row["verdict"]) == ("running", False, "alive")
    stop(rig, "slow")


def test_a_bad_start_is_told_with_its_last_words(rig: Rig, cli: str) -> None:
    launched = rig.run("launch", "--detach", cli, "--name", "one", "--prompt", "hello", "--", *BAD_START[cli])

    assert launched.code == 1
    assert "one exited with 1 before it was up" in launched.err
    assert WHAT_IT_SAYS_OF_A_BAD_START[cli] in launched.err
    assert launched.out == ""
    hand_off = rig.hand_off("one")
    assert (hand_off["outcome"], hand_off["code"], hand_off["success"]) == ("exited", 1, False)
    assert prompts_at_the_model(rig) == []
    rig.assert_nothing_left()


def test_an_agent_that_is_done_soon_was_up(rig: Rig, cli: str) -> None:
    launched = rig.run("launch", "--detach", "--wait", "exit", cli, "--name", "one", "--prompt", "hello")

    assert launched.code == 0, launched.err
    assert rig.entry("one")["agent"]["resumeContext"]["sessionFile"] is not None
    rig.assert_nothing_left()


DONE_AT_ONCE = """
schema = 1
name = "quick"
summary = "makes its session file and ends"
[argv]
base = ["sh", "-c", "echo hello; echo > $HOME/$0.jsonl"]
start = [["{session_id}"]]
resume = [["{session_id}"]]
[session]
id = "preset"
files = ["$HOME/{session_id}.jsonl"]
[ready]
when = "session_file"
"""


def test_an_agent_that_is_done_between_two_looks_was_up(bare: Rig) -> None:
    bare.profile("quick", DONE_AT_ONCE)

    launched = bare.run("launch", "--detach", "quick")

    assert launched.code == 0, launched.err
    context = bare.entry("quick")["agent"]["resumeContext"]
    assert context["sessionFile"] == f"{bare.env['HOME']}/{context['providerSessionId']}.jsonl"
    bare.assert_nothing_left()


# ---------------------------------------------------------------- its prompt


def test_a_prompt_arrives_intact_from_the_command_line(rig: Rig, cli: str) -> None:
    rig.launch(cli, "--name", "one", "--wait", "spawned", "--", AWKWARD)

    assert_arrived(rig, cli, AWKWARD)
    assert rig.hand_off("one")["code"] == 0
    rig.assert_nothing_left()


def test_a_prompt_arrives_intact_from_stdin(rig: Rig, cli: str) -> None:
    rig.launch(cli, "--name", "one", "--wait", "spawned", "--prompt-file", "-", stdin=OUTER_BLANKS.encode())

    assert_arrived(rig, cli, OUTER_BLANKS)
    assert rig.hand_off("one")["code"] == 0
    rig.assert_nothing_left()


def test_a_prompt_of_a_mebibyte_arrives_intact(rig: Rig, cli: str) -> None:
    line = "0123456789 abcdef 'quoted' $(x) é\n"
    text = (line * (MIB // len(line.encode()) + 1)).encode()[: MIB - 4].decode(errors="ignore") + "END\n"
    path = rig.tmp / "a prompt with blanks in its name"
    path.write_text(text)

    rig.launch(cli, "--name", "one", "--wait", "spawned", "--prompt-file", str(path))

    assert_arrived(rig, cli, text)
    assert rig.hand_off("one")["code"] == 0
    rig.assert_nothing_left()


def test_neither_prompt_nor_key_is_in_a_command_line(rig: Rig, cli: str) -> None:
    secret = "SECRET-PROMPT-4711"
    with watched_command_lines() as lines:
        launched = rig.agent(cli, "one", f"{secret}\n{BUSY}", options=("--env", "ANTHROPIC_API_KEY"))
        until(lambda: tool_of(launched["pid"]), "a running tool")
        assert rig.run("why", "one").code == 0
        stop(rig, "one")
    assert secret in "".join(prompts_at_the_model(rig)), "it was used"
    assert_never_seen(lines, secret, DUMMY_KEY)
    assert [str(p) for p in rig.state.rglob("*") if p.is_file() and DUMMY_KEY.encode() in p.read_bytes()] == []


def test_a_keeper_does_not_keep_its_launchers_command_line(rig: Rig, cli: str) -> None:
    secret = "SECRET-PROMPT-4712"
    launched = rig.launch(cli, "--name", "one", "--prompt", f"{secret}\n{BUSY}", "--", *TOOLS_ALLOWED[cli])
    until(lambda: tool_of(launched["pid"]), "a running tool")

    # who types a prompt into a shell shows it for the moment of the launch; not for the agent's whole life
    assert [command(pid) for pid in rig.running() if secret in command(pid)] == []
    stop(rig, "one")


def assert_never_seen(lines: CommandLines, *secrets: str) -> None:
    """The looks are many, and none met a secret."""
    assert lines.looks > 10
    assert [line for line in lines.seen if any(secret in line for secret in secrets)] == []


# ---------------------------------------------------------------- its end

NASTY_TOOL = """
setsid sh -c 'trap "" TERM HUP INT; echo $$ >> {pids}; exec tail -f /dev/null' &
(setsid sh -c 'trap "" TERM HUP INT; echo $$ >> {pids}; exec tail -f /dev/null' &)
sh -c 'trap "" TERM HUP INT; echo $$ >> {pids}; exec tail -f /dev/null' &
echo $$ >> {pids}
exec tail -f /dev/null
"""


def nasty_tool(rig: Rig) -> tuple[str, Path]:
    """A tool of four processes: itself, one that ignores TERM, one in a session of its own, one without a parent."""
    pids, script = rig.cwd / "tool.pids", rig.cwd / "tool.sh"  # a sandbox lets it write nowhere else
    script.write_text(NASTY_TOOL.format(pids=shlex.quote(str(pids))))
    return f"RUN: sh {shlex.quote(str(script))}", pids


def await_pids(path: Path, count: int) -> list[int]:
    """The pids that a tool's processes have written, once they are all there."""

    def written() -> list[int] | None:
        found = [int(word) for word in path.read_text().split()] if path.exists() else []
        return found if len(found) == count else None

    return until(written, f"{count} pids in {path}")


def tool_of(agent: int) -> int | None:
    """The agent's tool process that runs the busy command."""
    return next((pid for pid in below(agent) if command(pid) == BUSY.removeprefix("RUN: ")), None)


def test_stop_amid_a_tool_leaves_nothing(rig: Rig, cli: str) -> None:
    prompt, path = nasty_tool(rig)
    launched = rig.agent(cli, "one", prompt)
    tool = await_pids(path, 4)
    assert len({s.session for pid in tool if (s := stat(pid))}) >= 3, "setsid did what it is for"

    stop(rig, "one", "--grace", "1")

    assert [pid for pid in (*tool, launched["pid"]) if runs(pid)] == []
    hand_off = rig.hand_off("one")
    assert (hand_off["cause"], hand_off["survivors"]) == ("stopped", [])


def test_the_exit_code_is_read_as_the_profile_says(rig: Rig, cli: str) -> None:
    rig.agent(cli, "done", "RUN: true", options=("--wait", "spawned"))
    rig.agent(cli, "stopped", BUSY)
    rig.agent(cli, "failed", "ERROR: 400", options=("--wait", "spawned"))
    assert rig.run("wait", "done").code == 0
    stop_one = rig.run("stop", "stopped")
    failed = rig.run("wait", "failed")

    assert stop_one.code == 0, stop_one.err
    assert ends(rig, "done", "code", "success", "cause") == [0, True, "ended"]
    assert ends(rig, "stopped", "code", "success", "cause") == [TERM_CODE, False, "stopped"]
    # pi in JSON mode ends with 0 also when the model has refused (a note in its profile)
    expected = {"claude": [1, False, "ended"], "pi": [0, True, "ended"]}[cli]
    assert ends(rig, "failed", "code", "success", "cause") == expected
    assert failed.code == expected[0]
    rig.assert_nothing_left()


def test_an_interrupted_claude_ends_with_0_and_that_is_no_success(rig: Rig, record_property: Any) -> None:
    record_property("cli", "claude")
    launched = rig.agent("claude", "one", BUSY)
    until(lambda: [p for p in below(launched["pid"]) if "tail" in command(p)], "its tool")

    send(launched["pid"], signal.SIGINT)

    assert ends(rig, "one", "code", "success", "cause") == [0, False, "ended"]
    rig.assert_nothing_left()


def ends(rig: Rig, name: str, *fields: str) -> list[object]:
    """Some fields of a hand-off."""
    hand_off = rig.hand_off(name)
    return [hand_off[field] for field in fields]


def test_a_run_whose_keeper_was_killed_ends_with_its_true_status(rig: Rig, cli: str) -> None:
    go, script = rig.tmp / "go", rig.cwd / "wait.sh"
    script.write_text(f"until test -e {shlex.quote(str(go))}; do sleep 0.05; done; echo FINISHED\n")
    rig.agent(cli, "one", f"RUN: sh {shlex.quote(str(script))}")
    before = rig.row("one")
    until(lambda: any("wait.sh" in command(pid) for pid in below(before["pid"])), "a running tool")

    kill_keeper(before)
    stale = rig.row("one")
    repaired = rig.run("reconcile", "--json").data
    after = rig.row("one")
    again = rig.run("reconcile", "--json").data
    go.touch()
    hand_off = rig.hand_off("one")

    assert (stale["verdict"], stale["pid"]) == ("stale", before["pid"])
    assert f"keeper (pid {before['keeperPid']}) is gone" in stale["evidence"]
    assert [(r["what"], r["name"]) for r in repaired] == [("attached", "one")]
    assert again == []
    assert (after["verdict"], after["pid"]) == ("alive", before["pid"])
    assert after["keeperPid"] != before["keeperPid"]
    assert "FINISHED" in rig.transcript(after), "the agent heard nothing of it"
    expected = ("exited", 0, True) if _kernel() >= STATUS_OF_STRANGERS else ("unknown", None, None)
    assert (hand_off["outcome"], hand_off["code"], hand_off["success"]) == expected
    assert rig.run("wait", "one").code == (0 if expected[1] == 0 else 1)
    rig.assert_no_process_left()


def _kernel() -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    assert found is not None
    return int(found[1]), int(found[2])


# ---------------------------------------------------------------- its parent


def test_parent_and_task_are_told_and_shown(rig: Rig, cli: str) -> None:
    rig.launch("shell", "--name", "boss", "--", "sleep", "600")
    boss = rig.row("boss")
    flags = ("--parent", "boss", "--task-ref", "GOAL-1/é", "--task-summary", "two words", "--agent-id", "logical-1")
    launched = rig.agent(cli, "kid", BUSY, options=(*flags, "--allow-path", str(rig.cwd)))

    (root,) = rig.tree()
    (kid,) = root["children"]
    assert (kid["name"], kid["parent"], kid["parentSessionId"]) == ("kid", "boss", boss["sessionId"])
    assert (kid["taskRef"], kid["taskSummary"], kid["role"]) == ("GOAL-1/é", "two words", "worker")
    shown = rig.run("ps").out + rig.run("show", "kid").out
    assert "GOAL-1/é" in shown
    assert boss["sessionId"] in shown

    given = environ(launched["pid"])
    assert of_parent(given, "SUPERVISOR_") == {
        "SUPERVISOR_PARENT_SESSION": boss["sessionId"],
        "SUPERVISOR_PARENT_PID": str(boss["pid"]),
        "SUPERVISOR_TASK_REF": "GOAL-1/é",
        "SUPERVISOR_AGENT_ID": "logical-1",
        "SUPERVISOR_ALLOWED_PATHS": json.dumps([str(rig.cwd)]),
    }
    assert of_parent(given, "PI_") == {"claude": {}, "pi": pi_link(boss, rig)}[cli]
    assert rig.run("stop", "boss", "--cascade").code == 0
    rig.assert_nothing_left()


def of_parent(given: dict[str, str], prefix: str) -> dict[str, str]:
    """The variables that say whose child it is and what for."""
    about = ("PARENT", "TASK", "AGENT_ID", "ALLOWED_PATHS", "SUBAGENT")
    return {n: v for n, v in given.items() if n.startswith(prefix) and any(a in n for a in about)}


def pi_link(boss: Row, rig: Rig) -> dict[str, str]:
    """What pi and its extensions want to know of a parent, by their own names."""
    return {
        "PI_SUBAGENT_PARENT_SESSION": boss["sessionId"],
        "PI_SUBAGENT_CHILD": "1",
        "PI_PARENT_SESSION": boss["sessionId"],
        "PI_PARENT_PID": str(boss["pid"]),
        "PI_TASK_REF": "GOAL-1/é",
        "PI_ORCHESTRATION_AGENT_ID": "logical-1",
        "PI_WORKER_ALLOWED_PATHS": json.dumps([str(rig.cwd)]),
    }


def stop(rig: Rig, name: str, *words: str) -> None:
    """The usual end of a test."""
    stopped = rig.run("stop", name, *words)
    assert stopped.code == 0, stopped.err
    rig.assert_nothing_left()
