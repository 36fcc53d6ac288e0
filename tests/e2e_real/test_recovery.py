"""Real agents after a crash: resumed in their own vendor session with its history, once, or left as they were."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e_real.clis import claude_session_file, pi_session_files
from tests.e2e_real.processes import runs, send, until
from tests.e2e_real.rig import Rig, Row
from tests.e2e_real.test_real_agents import await_tool

pytestmark = pytest.mark.real

BUSY = "tail -f quiet"
ASLEEP = "SLEEP: 1000"


def session_files(rig: Rig, cli: str, session: str) -> list[Path]:
    """The vendor's own files of a session."""
    if cli == "pi":
        return list(pi_session_files(rig.env, session))
    path = claude_session_file(rig.env, rig.cwd, session)
    return [path] if path.exists() else []


def kill(*pids: int) -> None:
    for pid in pids:
        send(pid, signal.SIGKILL)
        until(lambda pid=pid: not runs(pid), f"the end of {pid}")


def busy_child(rig: Rig, cli: str) -> Row:
    """A real child of a scripted lead, in the midst of a turn: its tool runs a command that never ends."""
    (rig.cwd / "quiet").touch()
    rig.launch("demo", "--name", "lead", "--task-ref", "GOAL-7", "--prompt", ASLEEP)
    rig.agent(cli, "kid", f"RUN: {BUSY}", options=("--parent", "lead"))
    row = rig.row("kid")
    await_tool(row["pid"])
    return row


def crash(rig: Rig, name: str) -> None:
    """An agent with its keeper; a tool of it is left running."""
    row = rig.row(name)
    kill(row["keeperPid"], row["pid"])


def test_a_child_whose_parent_is_killed_in_mid_turn_is_resumed_with_its_history(rig: Rig, cli: str) -> None:
    before = busy_child(rig, cli)
    crash(rig, "lead")
    until(lambda: rig.entry("kid")["state"].get("grace"), "the child wound down")
    tool = await_tool(before["pid"])
    crash(rig, "kid")
    assert runs(tool)

    resumed = rig.run("resume", "lead", "--detach", "--prompt", ASLEEP)

    assert resumed.code == 0, resumed.err
    assert "kid: resumed" in resumed.err
    assert not runs(tool), "what it had left does not work beside it"
    entry = rig.entry("kid")
    assert entry["agent"]["resumeContext"]["providerSessionId"] == before["sessionId"]
    assert entry["generation"]["session"] == before["sessionId"]
    assert entry["taskRef"] == "GOAL-7"
    until(lambda: "[turn 2]" in rig.transcript(before), lambda: f"its history: {rig.transcript(before)[-1500:]}")
    (file,) = session_files(rig, cli, before["sessionId"])
    assert BUSY in file.read_text() and "resumed in the same session" in file.read_text()
    assert rig.run("stop", "lead", "--cascade").code == 0
    rig.assert_no_process_left()


def test_a_session_is_resumed_once_and_only_where_its_folder_and_file_are(rig: Rig, cli: str) -> None:
    before = busy_child(rig, cli)
    assert rig.run("checkpoint", "kid", "--summary", f"RUN: {BUSY}").code == 0
    crash(rig, "kid")
    words = ("resume", "kid", "--detach", "--prompt", f"RUN: {BUSY}")

    first, second = rig.run("recover", "--as", "lead"), rig.run(*words)

    assert (first.code, first.out, second.code) == (0, "kid: resumed\n", 5), first.err + second.err
    assert "[alive]" in second.err
    row = rig.row("kid")
    assert row["parentSessionId"] == rig.row("lead")["sessionId"]
    await_tool(row["pid"])
    crash(rig, "kid")
    rig.run("reconcile")
    aside, home = rig.cwd.with_name("aside"), rig.cwd
    shutil.move(rig.cwd, aside)
    record = rig.state / "process-matrix" / f"worker-{before['sessionId']}.json"
    on_disk = record.read_bytes()
    rig.cwd = aside

    refused = rig.run(*words)

    assert (refused.code, "[cwd_gone]" in refused.err) == (5, True), refused.err
    assert record.read_bytes() == on_disk
    shutil.move(aside, home)
    rig.cwd = home
    (file,) = session_files(rig, cli, before["sessionId"])
    file.unlink()
    requests = len(rig.model.requests())
    unknown = rig.run(*words)
    assert (unknown.code, "[session_file_gone]" in unknown.err) == (5, True), unknown.err
    assert (session_files(rig, cli, before["sessionId"]), len(rig.model.requests())) == ([], requests)
    assert rig.run("stop", "lead", "--cascade").code == 0
    rig.assert_no_process_left()


SWAP = {
    "claude": ("--resume", "--session-id"),
    "pi": ("--session", "--session-id"),
}
OTHER = "00000000-0000-4000-8000-00000000000a"


def test_a_cli_that_answers_with_another_session_leaves_the_stored_one_as_it_was(rig: Rig, cli: str) -> None:
    busy_child(rig, cli)
    crash(rig, "kid")
    rig.run("reconcile")
    option, start = SWAP[cli]
    real = rig.entry("kid")["plan"]["argv"][0]
    wrapper = rig.tmp / "strange"
    lines = [
        "#!/bin/sh",
        "# what a CLI would do that begins anew instead of going on",
        'for word; do shift; case "$last" in',
        f'{option}) set -- "$@" {OTHER} ;;',
        f'*) case "$word" in {option}) set -- "$@" {start} ;; *) set -- "$@" "$word" ;; esac ;;',
        'esac; last="$word"; done',
        f'exec "{real}" "$@"',
    ]
    wrapper.write_text("\n".join(lines) + "\n")
    wrapper.chmod(0o755)
    edit(rig, "kid", wrapper)
    before = rig.entry("kid")

    refused = rig.run("resume", "kid", "--detach", "--prompt", f"RUN: {BUSY}")

    assert refused.code == 1, refused.out
    assert f"it came up in another session, {OTHER}" in refused.err
    after = rig.entry("kid")
    assert (after["agent"], after["state"]["status"]) == (before["agent"], "resumable")
    assert OTHER in after["state"]["failedResume"]["why"]
    assert rig.run("stop", "lead", "kid", "--cascade").code == 0
    rig.assert_no_process_left()


def edit(rig: Rig, name: str, program: Path) -> None:
    """From now on the agent is resumed by another program, as a CLI that was replaced meanwhile."""
    row = rig.row(name)
    path = rig.state / "process-matrix" / f"worker-{row['sessionId']}.json"
    record: Any = json.loads(path.read_text())
    for line in record["plan"]["resumeLines"].values():
        line["argv"][0] = str(program)
    path.write_text(json.dumps(record))
