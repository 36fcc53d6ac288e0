"""The main job: a real agent's own shell tool runs `supervisor launch` for a real agent of the other vendor."""

import os
import shlex
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e_real.clis import claude_session_file, pi_session_files
from tests.e2e_real.processes import below, command, environ, runs, send, stat, until
from tests.e2e_real.rig import TOOLS_ALLOWED, Rig, Row, kill_keeper

pytestmark = pytest.mark.real

CHILD_OF = {"claude": "pi", "pi": "claude"}
TASK = "GOAL-7"
BUSY = "tail -f quiet"  # a file in the working directory: claude's rule for tail covers no other folder
KID_PROMPT = f"RUN: {BUSY}"

# what the narrow permission rules of a claude parent must be for these two commands
PARENT_TOOLS = {"claude": ("--allowedTools", "Bash(supervisor:*)", "Bash(tail:*)"), "pi": TOOLS_ALLOWED["pi"]}

# seen in the tools' environments of claude 2.1.332 and pi 1.6.0; a shell sets the rest
IDENTITY = {
    "claude": {
        "AI_AGENT", "CLAUDECODE", "CLAUDE_CODE_CHILD_NOTES_DIR", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_EXECPATH", "CLAUDE_CODE_MESSAGING_SOCKET", "CLAUDE_CODE_MESSAGING_TOKEN",
        "CLAUDE_CODE_SESSION_ATTENDED", "CLAUDE_CODE_SESSION_ID", "CLAUDE_EFFORT", "CLAUDE_PID",
    },
    "pi": {
        "AI_AGENT", "PI_CODING_AGENT", "PI_MODEL", "PI_PROVIDER", "PI_REASONING_LEVEL", "PI_SESSION_FILE",
        "PI_SESSION_ID",
    },
}  # fmt: skip
OF_ANY_SHELL = {"PWD", "OLDPWD", "SHLVL", "SHELL", "_"}


@dataclass(frozen=True)
class Family:
    """A running parent and its running child, as `ps` shows them, and the tool that each waits for."""

    lead: Row
    kid: Row
    lead_tool: int
    kid_tool: int


def start_family(rig: Rig, parent: str) -> Family:
    """A parent that launches a child of the other vendor and then, like the child, runs a command that never ends."""
    child = CHILD_OF[parent]
    (rig.cwd / "quiet").touch()
    words = [
        *("supervisor", "launch", child, "--name", "kid", "--task-ref", TASK, "--prompt", KID_PROMPT),
        *("--", *TOOLS_ALLOWED[child]),
    ]
    prompt = f"RUN: {shlex.join(words)}\nRUN: {BUSY}"
    rig.launch(parent, "--name", "lead", "--prompt-file", "-", "--", *PARENT_TOOLS[parent], stdin=prompt.encode())
    until(lambda: rig.rows().get("kid", {}).get("ready"), lambda: f"a ready child; the parent said {_said(rig)}")
    rows = rig.rows()
    lead, kid = rows["lead"], rows["kid"]
    return Family(lead, kid, lead_tool=await_tool(lead["pid"]), kid_tool=await_tool(kid["pid"]))


def await_tool(agent: int) -> int:
    """The agent's own tool process that runs the busy command (another agent's tools are not below it)."""

    def tool() -> int | None:
        return next((pid for pid in below(agent) if command(pid) == BUSY), None)

    return until(tool, f"a tool below pid {agent}")


def _said(rig: Rig) -> str:
    return rig.transcript(rig.row("lead"))[-2000:]


def session_text(rig: Rig, cli: str, session: str) -> str:
    """The content of the vendor's own session file."""
    if cli == "claude":
        path = claude_session_file(rig.env, rig.cwd, session)
    else:
        (path,) = pi_session_files(rig.env, session)
    return path.read_text()


def test_a_tree_of_both_vendors_is_shown_as_it_is(rig: Rig, cli: str) -> None:
    family = start_family(rig, cli)

    (lead,) = rig.tree()
    (kid,) = lead["children"]

    assert (lead["role"], kid["role"]) == ("master", "worker")
    assert (lead["profile"], kid["profile"]) == (cli, CHILD_OF[cli])
    assert (lead["verdict"], kid["verdict"]) == ("alive", "alive")
    assert (kid["parent"], kid["parentSessionId"]) == ("lead", lead["sessionId"])
    assert kid["taskRef"] == TASK
    assert lead["pid"] != kid["pid"]
    for row, of in ((lead, cli), (kid, CHILD_OF[cli])):
        assert os.path.realpath(f"/proc/{row['pid']}/exe") == program(rig, of)
        assert row["sessionId"] in session_text(rig, of, row["sessionId"])
    assert stat(family.lead_tool) and stat(family.kid_tool), "both wait for their tools"
    stop_all(rig)


def program(rig: Rig, cli: str) -> str:
    """What a process of the CLI executes: pi is a script of node, claude a binary of its own."""
    folder = Path(rig.env["PATH"].partition(os.pathsep)[0])
    return os.path.realpath(folder / {"claude": "claude", "pi": "node"}[cli])


def test_the_childs_own_session_file_holds_its_prompt(rig: Rig, cli: str) -> None:
    family = start_family(rig, cli)

    assert KID_PROMPT in session_text(rig, CHILD_OF[cli], family.kid["sessionId"])
    context = rig.entry("kid")["agent"]["resumeContext"]
    assert context["providerSessionId"] == family.kid["sessionId"]
    assert Path(context["sessionFile"]).read_text() == session_text(rig, CHILD_OF[cli], family.kid["sessionId"])
    stop_all(rig)


def test_a_child_does_not_inherit_who_its_parent_is(rig: Rig, cli: str) -> None:
    family = start_family(rig, cli)
    given, tool = environ(family.lead["pid"]), environ(family.lead_tool)
    kid = environ(family.kid["pid"])

    exported = {name for name in tool if tool[name] != given.get(name)} - OF_ANY_SHELL - {"PATH"}
    assert exported >= IDENTITY[cli], "the parent's tool has an identity to pass on"
    assert {name for name in exported if kid.get(name) == tool[name]} == set()
    assert IDENTITY[cli] & set(kid) == set()
    if CHILD_OF[cli] == "pi":
        assert kid["PI_SUBAGENT_PARENT_SESSION"] == family.lead["sessionId"]

    entry = rig.entry("kid")
    assert {name: value for name, value in kid.items() if name.startswith("SUPERVISOR_")} == {
        "SUPERVISOR_SESSION_ID": family.kid["sessionId"],
        "SUPERVISOR_ENTRY_ID": family.kid["entryId"],
        "SUPERVISOR_GENERATION": entry["generation"]["nonce"],
        "SUPERVISOR_AGENT_ID": entry["agent"]["agentId"],
        "SUPERVISOR_PARENT_SESSION": family.lead["sessionId"],
        "SUPERVISOR_PARENT_PID": str(family.lead["pid"]),
        "SUPERVISOR_TASK_REF": TASK,
        "SUPERVISOR_ALLOWED_PATHS": "[]",
        "SUPERVISOR_HOME": str(rig.state),
    }
    stop_all(rig)


def test_stop_with_cascade_leaves_nothing_behind(rig: Rig, cli: str) -> None:
    family = start_family(rig, cli)
    agents = (family.lead["pid"], family.kid["pid"])

    stopped = rig.run("stop", "lead", "--cascade", "--json")

    assert stopped.code == 0, stopped.err
    assert [(s["name"], s["result"]) for s in stopped.data] == [("kid", "stopped"), ("lead", "stopped")]
    assert [s["handOff"]["code"] for s in stopped.data] == [143, 143], "both CLIs end cooperatively on TERM"
    rig.assert_nothing_left()
    assert not any(map(runs, (*agents, family.lead_tool, family.kid_tool)))
    assert sockets_of(agents) == []
    assert [p for p in Path(rig.env["CLAUDE_CODE_TMPDIR"]).rglob("*") if p.is_file()] == []
    assert rig.tree() == []


def sockets_of(agents: tuple[int, ...]) -> list[Path]:
    """claude's sockets in the machine's /tmp, named by pid: it removes its own when it ends by itself."""
    return [p for folder in Path("/tmp").glob("cc-socks*") for pid in agents for p in folder.glob(f"{pid}.*")]


def test_a_childs_killed_keeper_is_replaced_by_its_parents_keeper(rig: Rig, cli: str) -> None:
    family = start_family(rig, cli)

    kill_keeper(family.kid)

    # `ps` only looks: nothing but the parent's keeper can have started the new one
    until(lambda: rig.row("kid")["keeperPid"] != family.kid["keeperPid"], "another keeper of the child")
    until(lambda: rig.row("kid")["verdict"] == "alive", "the child to be alive")
    assert rig.row("kid")["pid"] == family.kid["pid"]
    tools = [pid for pid in rig.running() if command(pid) == BUSY]
    assert sorted(tools) == sorted([family.lead_tool, family.kid_tool]), "nothing was started twice"
    assert rig.run("stop", "lead", "--cascade").code == 0
    rig.assert_no_process_left()


def test_a_killed_parents_child_lives_on_below_its_tombstone(rig: Rig, cli: str) -> None:
    family = start_family(rig, cli)

    send(family.lead["keeperPid"], signal.SIGKILL)
    send(family.lead["pid"], signal.SIGKILL)
    until(lambda: not runs(family.lead["pid"]), "the end of the parent")

    (lead,) = rig.tree()
    (kid,) = lead["children"]
    assert lead["verdict"] == "dead_pid"
    assert (kid["verdict"], kid["pid"]) == ("alive", family.kid["pid"])
    assert runs(family.lead_tool) and runs(family.kid_tool), "nobody was signalled"

    stopped = rig.run("stop", "lead", "--cascade")
    assert stopped.code == 0, stopped.err
    assert not runs(family.lead_tool), f"what the killed parent had left behind still runs: {stopped.out}"
    rig.assert_no_process_left()


def stop_all(rig: Rig) -> None:
    """The usual end of a test."""
    stopped = rig.run("stop", "lead", "--cascade")
    assert stopped.code == 0, stopped.err
    rig.assert_nothing_left()
