"""One tree of all CLIs: a claude launches the others by its tools, all ask, a person answers, a crash is recovered."""

import json
import re
from collections.abc import Callable, Iterator

import pytest

from tests.e2e_real.clis import FAKE_MODEL, ROOT, Clis
from tests.e2e_real.driven import codex_escalates
from tests.e2e_real.panes import Panes
from tests.e2e_real.processes import below, command, runs, until
from tests.e2e_real.rig import Rig, Row
from tests.e2e_real.test_asks import asks, waiting_ask
from tests.e2e_real.test_mcp import calls
from tests.e2e_real.test_recovery import crash

pytestmark = pytest.mark.real

BUSY = "tail -f quiet"
EXTENSION = ["--no-extensions", "-e", str(Clis(ROOT).permission_extension), "--model", FAKE_MODEL]
# a codex goes on with its turn after half a minute, whatever its tool does: it has enough to do
CODEX_BUSY = [f"TOOL: exec_command {json.dumps({'cmd': BUSY, 'yield_time_ms': 60_000})}"] * 20
KIDS: dict[str, dict[str, object]] = {
    "codex": {"prompt": "\n".join([codex_escalates("touch codex"), *CODEX_BUSY])},
    "gemini": {"prompt": f"RUN: touch gemini\nRUN: {BUSY}"},
    "opencode": {"prompt": f"RUN: touch opencode\nRUN: {BUSY}"},
    "pi": {"prompt": f"RUN: touch pi\nRUN: {BUSY}", "args": EXTENSION},
}
DEAD, LIVING = ("codex", "opencode"), ("gemini", "pi")
LEFT = "the person has left"


@pytest.fixture
def panes(rig: Rig) -> Iterator[Panes]:
    """Somebody at an inbox."""
    made = Panes(rig)
    try:
        made.open(f"supervisor inbox; echo {LEFT}; read wait")
        made.reads("No ask waits")
        yield made
    finally:
        made.close()


def launches() -> bytes:
    """A prompt by which a claude launches them, each once the one before it asks."""
    lines = []
    for name, how in KIDS.items():
        lines.append(calls(("launch_agent", {"profile": name, "name": name, **how})).decode())
        lines.append(f"RUN: until test -e {name}-asks; do sleep 0.1; done")
    return "\n".join([*lines, f"RUN: {BUSY}"]).encode()


def tools(row: Row) -> list[int]:
    """The agent's tool that runs the command that never ends."""
    return [pid for pid in below(row["pid"]) if command(pid) == BUSY]


def all_busy(rig: Rig) -> bool:
    """Whether the tool of each runs."""
    rows = rig.rows()
    return all(tools(rows[name]) for name in ("lead", *KIDS))


def answers(rig: Rig, panes: Panes) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Say yes to whatever is on the screen until all are at work, and leave; whose ask for what was allowed.

    The first of each, in order; and those that came later, of which nobody can tell who is the first.
    """
    until(lambda: panes.types("a") and all_busy(rig), lambda: f"all at work:\n{panes.text()}")
    until(lambda: panes.types("q") and LEFT in panes.text(), panes.text)
    allowed = re.findall(r"^allowed: (\w+) bash (.*\S)", panes.text(), re.M)
    return allowed[: len(KIDS)], sorted(allowed[len(KIDS) :])


def told(rig: Rig, name: str) -> str:
    """The end of what an agent has said."""
    return rig.transcript(rig.row(name))[-2000:]


def assert_begun_again(rig: Rig, name: str) -> None:
    """In the session in which it was, and its model knows what was said there."""
    until(lambda: "[turn 2]" in told(rig, name), lambda: told(rig, name))
    generation = rig.entry(name)["generation"]
    assert generation["resumes"] == generation["session"]


def assert_as_it_was(rig: Rig, name: str, before: Row, busy: list[int]) -> None:
    """The same processes, at the same work, and no longer in their grace."""
    until(lambda: rig.entry(name)["state"]["status"] == "running", f"{name} runs on")
    row = rig.row(name)
    assert (row["pid"], row["keeperPid"]) == (before["pid"], before["keeperPid"])
    assert tools(row) == busy != []


def test_a_claude_and_its_children_of_all_kinds_ask_are_answered_and_are_recovered_after_a_crash(
    rig: Rig, panes: Panes, record_property: Callable[[str, object], None]
) -> None:
    record_property("cli", "claude")
    (rig.cwd / "quiet").touch()
    words = ("--mcp", "--task-ref", "GOAL-7", "--prompt-file", "-", "--", "--allowedTools", "mcp__supervisor", "Bash")
    lead = rig.launch("claude", "--name", "lead", *words, stdin=launches())

    # all ask, and one person answers by keys, in order of arrival
    for name in KIDS:
        assert waiting_ask(rig, value=f"touch {name}")["session"] == lead["sessionId"]
        (rig.cwd / f"{name}-asks").touch()
    panes.reads("3 more wait")
    assert not any((rig.cwd / name).exists() for name in KIDS)
    first, then = answers(rig, panes)
    assert first == [(name, f"touch {name}") for name in KIDS]
    assert then == [("opencode", BUSY), ("pi", BUSY)], "the others need nobody's leave to read a file"
    assert (asks(rig), [(rig.cwd / name).exists() for name in KIDS]) == ([], [True] * 4)
    (tree,) = rig.tree()
    assert (tree["name"], sorted(c["name"] for c in tree["children"])) == ("lead", sorted(KIDS))

    # the parent is killed, and then two of its children, each with its keeper; the others live on as orphans
    before = rig.rows()
    left = [pid for name in DEAD for pid in below(before[name]["pid"])]
    busy = {name: tools(before[name]) for name in LIVING}
    crash(rig, "lead")
    until(lambda: all(rig.entry(name)["state"].get("grace") for name in KIDS), "the children know")
    for name in DEAD:
        crash(rig, name)

    # it is resumed in its session and its own come back to it: two begun again, two as they were; nobody runs twice
    resumed = rig.run("resume", "lead", "--detach", "--prompt", f"RUN: {BUSY}")
    assert resumed.code == 0, resumed.err
    wanted = {f"supervisor: {n}: {how}" for how, names in (("resumed", DEAD), ("adopted", LIVING)) for n in names}
    assert wanted <= set(resumed.err.splitlines()), resumed.err
    assert [pid for pid in left if runs(pid)] == [], "what the dead had left is ended"
    for name in DEAD:
        assert_begun_again(rig, name)
    for name in LIVING:
        assert_as_it_was(rig, name, before[name], busy[name])
    rows = rig.rows()
    assert {n: rows[n]["sessionId"] for n in rows} == {n: before[n]["sessionId"] for n in before}
    assert {rows[name]["parent"] for name in KIDS} == {"lead"}
    assert rig.run("stop", "lead", "--cascade").code == 0
    panes.close()
    rig.assert_no_process_left()


def test_the_calls_of_the_prompt_are_whole_lines() -> None:
    """A prompt within a prompt must not look like a directive of the outer one."""
    text = launches().decode().splitlines()
    assert [json.loads(line.split(" ", 2)[2])["profile"] for line in text if line.startswith("TOOL")] == list(KIDS)
