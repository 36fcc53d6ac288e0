"""One tree of all CLIs: a claude launches the others by its tools, all ask, a person answers, a crash is recovered."""

import json
import signal
from collections.abc import Callable

import pytest

from tests.e2e_real.clis import FAKE_MODEL, ROOT, Clis
from tests.e2e_real.driven import codex_escalates
from tests.e2e_real.processes import below, command, runs, send, until
from tests.e2e_real.rig import Rig, Row
from tests.e2e_real.test_asks import answer, asks, mode
from tests.e2e_real.test_mcp import calls

pytestmark = pytest.mark.real

BUSY = "tail -f quiet"
EXTENSION = ["--no-extensions", "-e", str(Clis(ROOT).permission_extension), "--model", FAKE_MODEL]
CODEX_BUSY = f"TOOL: exec_command {json.dumps({'cmd': BUSY, 'yield_time_ms': 60_000})}"
KIDS: dict[str, dict[str, object]] = {
    "codex": {"prompt": f"{codex_escalates('touch codex')}\n{CODEX_BUSY}"},
    "gemini": {"prompt": f"RUN: touch gemini\nRUN: {BUSY}"},
    "opencode": {"prompt": f"RUN: touch opencode\nRUN: {BUSY}"},
    "pi": {"prompt": f"RUN: touch pi\nRUN: {BUSY}", "args": EXTENSION},
}


def tools(row: Row) -> list[int]:
    """The agent's tool that runs the command that never ends."""
    return [pid for pid in below(row["pid"]) if command(pid) == BUSY]


def busy(row: Row) -> bool:
    """Whether it runs."""
    return bool(tools(row))


def back_again(rig: Rig, name: str) -> bool:
    """Adopted, and no longer in its grace."""
    return bool(rig.entry(name)["state"]["status"] == "running")


def done(rig: Rig, name: str) -> bool:
    """A codex goes on with its turn after half a minute, whatever its tool does, and has then ended well."""
    return name == "codex" and bool((rig.entry(name)["state"].get("handOff") or {}).get("success"))


def test_a_claude_and_its_children_of_all_kinds_ask_are_answered_and_are_recovered_after_a_crash(
    rig: Rig, record_property: Callable[[str, object], None]
) -> None:
    record_property("cli", "claude")
    (rig.cwd / "quiet").touch()
    mode(rig, "hold")
    launches = [("launch_agent", {"profile": name, "name": name, **how}) for name, how in KIDS.items()]
    lead = rig.launch(
        "claude", "--name", "lead", "--mcp", "--task-ref", "GOAL-7", "--prompt-file", "-",
        "--", "--allowedTools", "mcp__supervisor", "Bash",
        stdin=calls(*launches) + f"\nRUN: {BUSY}".encode(),
    )  # fmt: skip

    # all ask, and one person answers
    answered: dict[str, set[str]] = {name: set() for name in KIDS}

    def all_busy() -> bool:
        rows = rig.rows()
        others = all(name in rows and busy(rows[name]) for name in KIDS if name != "codex")
        for ask in asks(rig):
            assert ask["session"] == lead["sessionId"]
            if ask["agent"] == "codex" and not others:
                continue  # the last: it goes on with its turn after a while, whatever its tool does
            answered[ask["agent"]].add(ask["value"])
            answer(rig, ask, "allow")
        return others and busy(rig.row("codex"))

    until(all_busy, lambda: f"all at work: {answered}, {rig.transcript(lead)[-2000:]}")
    assert all(f"touch {name}" in values for name, values in answered.items()), answered
    assert all((rig.cwd / name).exists() for name in KIDS)
    (tree,) = rig.tree()
    assert (tree["name"], sorted(c["name"] for c in tree["children"])) == ("lead", sorted(KIDS))
    before = {name: row["pid"] for name, row in rig.rows().items() if name in KIDS}

    # the parent is killed with its keeper and its tool: its children live on as orphans
    row = rig.row("lead")
    for pid in (row["keeperPid"], row["pid"], *tools(row)):
        send(pid, signal.SIGKILL)
        until(lambda pid=pid: not runs(pid), f"the end of {pid}")
    until(lambda: all(rig.entry(n)["state"].get("grace") or done(rig, n) for n in KIDS), "the children know")

    # it is resumed in its session, and its own come back to it: nobody was ended, nobody runs twice
    resumed = rig.run("resume", "lead", "--detach", "--prompt", f"RUN: {BUSY}")
    assert resumed.code == 0, resumed.err
    back = [name for name in KIDS if not done(rig, name)]
    until(lambda: all(back_again(rig, n) or done(rig, n) for n in back), lambda: rig.run("tree").out)
    rows = rig.rows()
    assert rows["lead"]["sessionId"] == lead["sessionId"]
    assert {name: rows[name]["pid"] for name in KIDS} == before
    assert {rows[name]["parent"] for name in KIDS} == {"lead"}
    assert set(KIDS) - set(back) <= {"codex"}
    assert rig.run("stop", "lead", "--cascade").code == 0
    rig.assert_no_process_left()


def test_the_calls_of_the_prompt_are_whole_lines() -> None:
    """A prompt within a prompt must not look like a directive of the outer one."""
    text = calls(*[("launch_agent", {"profile": name, **how}) for name, how in KIDS.items()]).decode()
    assert [json.loads(line.split(" ", 2)[2])["profile"] for line in text.splitlines()] == list(KIDS)
