"""The plugin that an opencode on a terminal loads: run by node, told events, with a hook that answers as it is told."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from supervisor.runtime import hook_install

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not on PATH")

PLUGIN = Path(hook_install.__file__).with_name("opencode_plugin.js")
HOOK = """\
import json, signal, sys
event = json.load(sys.stdin)
def told(number, frame):
    open({log!r}, "a").write("withdrawn\\n")
    sys.exit()
signal.signal(signal.SIGTERM, told)
open({log!r}, "a").write(json.dumps(event) + "\\n")
command = event.get("ask", {{}}).get("metadata", {{}}).get("command")
if command == "wait":
    signal.pause()
if command in ("allow", "deny"):
    decision = {{"behavior": command, "message": "not on a Friday"}}
    print(json.dumps({{"hookSpecificOutput": {{"decision": decision}}}}))
"""
RUN = """\
import {{ readFileSync }} from "node:fs"
import {{ Supervisor }} from {plugin}
const posted = []
const client = {{
  _client: {{ post: async (request) => posted.push(request) }},
  session: {{ get: async ({{ path }}) => ({{ data: {{ parentID: path.id === "child" ? "parent" : undefined }} }}) }},
}}
const seen = (count) => readFileSync({log}, "utf8").split("\\n").length > count
const hooks = await Supervisor({{ client, directory: "/work" }})
for (const step of {steps}) {{
  if (typeof step === "object") await hooks.event?.({{ event: step }})
  while (typeof step === "number" && !seen(step)) await new Promise((done) => setTimeout(done, 10))
  while (step === "posted" && !posted.length) await new Promise((done) => setTimeout(done, 10))
}}
const output = {{ env: {{}} }}
await hooks["shell.env"]?.({{}}, output)
console.log(JSON.stringify({{ posted, env: output.env, hooks: Object.keys(hooks) }}))
"""


class World:
    """A folder with the plugin; what the hook was told is in `heard`."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.log.touch()
        (folder / "hook.py").write_text(HOOK.format(log=str(self.log)))
        self.plugin = folder / "plugin.mjs"
        shim = json.dumps([sys.executable, str(folder / "hook.py")])
        self.plugin.write_text(PLUGIN.read_text().replace("SHIM_OF_THIS_LAUNCH", shim))

    def run(self, *steps: Any, env: dict[str, str] | None = None) -> dict[str, Any]:
        """Tell it events; a number waits until that many lines are in the log, `posted` for a reply."""
        values = {"plugin": self.plugin.as_uri(), "log": str(self.log), "steps": steps}
        script = RUN.format(**{name: json.dumps(value) for name, value in values.items()})
        argv = [NODE or "", "--input-type=module", "-e", script]
        done = subprocess.run(argv, env=env or {}, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        out: dict[str, Any] = json.loads(done.stdout)
        return out

    def heard(self) -> list[Any]:
        lines = self.log.read_text().splitlines()
        return [line if line == "withdrawn" else json.loads(line) for line in lines]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def ask(command: str) -> dict[str, Any]:
    about = {"id": "per_1", "sessionID": "ses_1", "permission": "bash", "metadata": {"command": command}}
    return {"type": "permission.asked", "properties": about}


def status(session: str, kind: str = "busy") -> dict[str, Any]:
    return {"type": "session.status", "properties": {"sessionID": session, "status": {"type": kind}}}


def idle(session: str) -> dict[str, Any]:
    return {"type": "session.idle", "properties": {"sessionID": session}}


@pytest.mark.parametrize(
    ("command", "body"),
    [("allow", {"reply": "once"}), ("deny", {"reply": "reject", "message": "not on a Friday"})],
)
def test_an_answer_of_the_hook_is_given_to_opencode(world: World, command: str, body: dict[str, str]) -> None:
    (posted,) = world.run(ask(command), "posted")["posted"]
    assert (posted["path"], posted["body"]) == ({"requestID": "per_1"}, body)
    (event,) = world.heard()
    assert (event["hook_event_name"], event["cwd"], event["ask"]["id"]) == ("PermissionAsked", "/work", "per_1")


def test_what_the_hook_has_no_opinion_on_is_left_to_the_dialog(world: World) -> None:
    assert world.run(ask("nobody"), 1)["posted"] == []


@pytest.mark.parametrize(
    "end",
    [{"type": "permission.replied", "properties": {"requestID": "per_1", "reply": "once"}}, idle("ses_1")],
    ids=["answered in the dialog", "the turn is over"],
)
def test_an_ask_that_nobody_needs_is_taken_back(world: World, end: dict[str, Any]) -> None:
    assert world.run(ask("wait"), 1, end, 2)["posted"] == []
    assert world.heard()[1] == "withdrawn"


def test_the_session_that_a_turn_begins_in_is_told_but_not_a_subagents(world: World) -> None:
    created = {"type": "session.created", "properties": {"info": {"id": "sub", "parentID": "a"}}}
    begun = [status("a"), 1, created, status("sub"), status("child"), status("b"), 2]
    world.run(*begun, status("a"), idle("a"), status("a"), 3)  # amid its turn, `a` is not gone back to
    assert [(e["hook_event_name"], e["session_id"]) for e in world.heard()] == [
        ("SessionStart", "a"), ("SessionStart", "b"), ("SessionStart", "a"),
    ]  # fmt: skip


def test_a_tool_gets_the_users_configuration_without_the_plugin(world: World) -> None:
    config = {"plugin": ["theirs", world.plugin.as_uri()], "theme": "x"}
    env = world.run(env={"OPENCODE_CONFIG_CONTENT": json.dumps(config)})["env"]
    assert json.loads(env["OPENCODE_CONFIG_CONTENT"]) == {"plugin": ["theirs"], "theme": "x"}


def test_a_drivers_server_asks_by_its_driver_alone(world: World) -> None:
    assert world.run(env={"OPENCODE_SERVER_PASSWORD": "p"})["hooks"] == []
