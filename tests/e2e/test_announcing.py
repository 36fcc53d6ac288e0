"""An agent owns the terminal, a child of it asks: the person there is told, and answers from elsewhere."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pexpect

from tests.e2e.processes import DEADLINE, wait_for
from tests.e2e.rig import Supervisor


def test_a_childs_ask_is_announced_on_the_terminal_of_its_parent_and_answered_from_another(sv: Supervisor) -> None:
    notified = sv.work / "notified"
    tell = ["/bin/sh", "-c", f"env | grep ^SUPERVISOR_ASK >> {shlex.quote(str(notified))}"]
    sv.run("settings", "set", "notify.command", json.dumps(tell))
    ours = shlex.join(sv.argv)
    kid = f"{ours} launch --detach --wait spawned --name kid shell -- {ours} ask --tool bash --value 'rm -rf build'"
    script = f"echo ready-now; {kid} >/dev/null; while [ ! -e go ]; do sleep 0.02; done; echo bye"
    env: Any = {**sv.env, "TERM": "xterm"}
    on: Any = pexpect.spawn(
        sv.argv[0],
        [*sv.argv[1:], "launch", "--name", "lead", "shell", "--", "/bin/sh", "-c", script],
        env=env,
        cwd=str(sv.work),
        timeout=DEADLINE,
        encoding="utf-8",
    )
    try:
        on.expect("ready-now")
        on.expect_exact("\x1b[22;2t\x1b]2;kid asks to use bash (lead): supervisor inbox\a\a")
        (ask,) = sv.json("asks")
        wait_for(lambda: notified.exists() and "SUPERVISOR_ASKS_WAITING=1" in notified.read_text(), "the command ran")
        said = notified.read_text()
        assert f"SUPERVISOR_ASK_ID={ask['id']}\n" in said and "SUPERVISOR_ASK_VALUE=rm -rf build\n" in said
        assert said.count("SUPERVISOR_ASK_ID=") == 1

        sv.run("answer", ask["id"], "allow")

        on.expect_exact("\x1b]2;lead\a\x1b[23;2t")
        wait_for(lambda: sv.row("kid")["exitCode"] == 0, "the child allowed")
        (sv.work / "go").touch()
        on.expect("bye")
        on.expect(pexpect.EOF)
    finally:
        on.close(force=True)
    assert sv.row("lead")["exitCode"] == 0
