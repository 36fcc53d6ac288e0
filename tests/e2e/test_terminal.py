"""A foreground launch on a real terminal: keys, job control, modes and hang-ups work as without us."""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pexpect
import pytest

from tests.e2e.processes import DEADLINE, alive, gone, stat_of, wait_for
from tests.e2e.rig import Supervisor, spins_not

Terminal = Any  # pexpect has no types of its own


@pytest.fixture
def terminal(sv: Supervisor) -> Iterator[Callable[..., Terminal]]:
    """Start a program on a terminal of its own."""
    opened: list[Terminal] = []

    def start(*argv: str) -> Terminal:
        env: Any = {**sv.env, "TERM": "dumb", "PS1": "> "}
        child = pexpect.spawn(argv[0], list(argv[1:]), env=env, cwd=str(sv.work), timeout=DEADLINE, encoding="utf-8")
        opened.append(child)
        return child

    yield start
    for child in opened:
        child.close(force=True)


def launch(sv: Supervisor, script: str) -> list[str]:
    return [*sv.argv, "launch", "--name", "a1", "shell", "--", "/bin/sh", "-c", script]


def code_of(terminal: Terminal) -> int:
    """How the program ended; a signal as a shell would say it."""
    terminal.expect(pexpect.EOF)
    terminal.wait()
    return int(terminal.exitstatus if terminal.exitstatus is not None else 128 + terminal.signalstatus)


def test_ctrl_c_reaches_the_agent_which_decides(sv: Supervisor, terminal: Callable[..., Terminal]) -> None:
    on = terminal(*launch(sv, "trap 'echo got it; exit 5' INT; echo ready-now; while :; do sleep 0.02; done"))
    on.expect("ready-now")

    on.sendintr()

    on.expect("got it")
    assert code_of(on) == 5
    assert sv.row("a1")["exitCode"] == 5


def test_ctrl_c_ends_an_agent_that_does_not_mind_it(sv: Supervisor, terminal: Callable[..., Terminal]) -> None:
    on = terminal(*launch(sv, "echo ready-now; exec sleep 1000"))
    on.expect("ready-now")

    on.sendintr()

    assert code_of(on) == 130
    assert sv.row("a1")["exitSignal"] == "INT"


def test_an_agent_that_ignores_ctrl_c_goes_on_and_so_does_its_keeper(
    sv: Supervisor, terminal: Callable[..., Terminal]
) -> None:
    on = terminal(
        *launch(sv, "trap 'echo no' INT; echo ready-now; while [ ! -e go ]; do sleep 0.02; done; echo bye; exit 3")
    )
    on.expect("ready-now")

    for _ in range(3):
        on.sendintr()
        on.expect("no")
    assert sv.row("a1")["verdict"] == "alive"
    (sv.work / "go").touch()

    on.expect("bye")
    assert code_of(on) == 3


def test_ctrl_backslash_ends_the_agent_and_is_reported(sv: Supervisor, terminal: Callable[..., Terminal]) -> None:
    on = terminal(*launch(sv, "ulimit -c 0; echo ready-now; exec sleep 1000"))
    on.expect("ready-now")

    on.send("\x1c")

    assert code_of(on) == 131


def test_an_agent_reads_what_is_typed(sv: Supervisor, terminal: Callable[..., Terminal]) -> None:
    on = terminal(*launch(sv, "stty -echo; echo ready-now; read word; echo heard $word"))
    on.expect("ready-now")

    on.sendline("hello")

    on.expect("heard hello")
    assert code_of(on) == 0


def test_ctrl_z_stops_agent_and_launcher_and_fg_lets_both_go_on(
    sv: Supervisor, terminal: Callable[..., Terminal]
) -> None:
    on = terminal("/bin/bash", "--norc", "--noprofile", "-i")
    on.sendline(f"{shlex.join(launch(sv, 'echo ready-now; while [ ! -e go ]; do sleep 0.02; done; exit 3'))}")
    on.expect("\nready-now")
    pids = (sv.pid("a1"), sv.keeper("a1"))

    on.send("\x1a")

    on.expect("Stopped")
    wait_for(lambda: {s.state for p in pids if (s := stat_of(p))} == {"T"}, "both stopped")
    on.sendline("fg")
    wait_for(lambda: sv.row("a1")["verdict"] == "alive", "the keeper beating again")
    (sv.work / "go").touch()
    wait_for(lambda: sv.row("a1")["status"] == "closed", "the end of the agent")
    on.sendline("echo code=$?")
    on.expect("code=3")
    on.sendline("exit")
    assert code_of(on) == 0


@pytest.mark.parametrize("end", ["exit 0", "kill -KILL $$", "kill -TERM $PPID; sleep 1000"])
def test_terminal_modes_are_restored_on_every_way_out(
    sv: Supervisor, terminal: Callable[..., Terminal], end: str
) -> None:
    inner = shlex.join(launch(sv, f"stty raw -echo; {end}"))
    on = terminal("/bin/sh", "-c", f"stty -a > before; {inner}; stty -a > after; echo done")

    on.expect("done")

    assert (sv.work / "after").read_text() == (sv.work / "before").read_text()
    assert " icanon" in (sv.work / "after").read_text()


def hung_up(terminal: Terminal) -> None:
    """The window is closed: the kernel sends SIGHUP to the session's leader and the foreground group."""
    terminal.ptyproc.fileobj.close()
    terminal.ptyproc.closed = terminal.closed = True
    terminal.ptyproc.fd = terminal.child_fd = -1


def test_a_closed_terminal_hangs_the_agent_up_and_its_end_is_recorded(
    sv: Supervisor, terminal: Callable[..., Terminal]
) -> None:
    """O6."""
    on = terminal(*launch(sv, "trap 'echo hup >> heard; exit 4' HUP; echo ready-now; while :; do sleep 0.02; done"))
    on.expect("ready-now")

    hung_up(on)

    assert sv.ended("a1")["code"] == 4
    assert (sv.work / "heard").read_text().startswith("hup")
    wait_for(lambda: not alive(on.pid), "the end of the launcher")
    assert not sv.alive()


def test_an_agent_that_minds_no_hang_up_goes_on_and_nothing_spins(
    sv: Supervisor, terminal: Callable[..., Terminal]
) -> None:
    """O6."""
    on = terminal(*launch(sv, "trap '' HUP; echo ready-now; while :; do sleep 1; done"))
    on.expect("ready-now")
    row = sv.row("a1")

    hung_up(on)

    assert alive(row["keeperPid"])
    assert spins_not(sv.home, row["keeperPid"])
    assert sv.row("a1")["verdict"] == "alive"
    sv.run("stop", "--grace", "1", "a1")
    assert gone(row["pid"])


def test_sighup_to_the_launcher_alone_is_handed_on(sv: Supervisor, terminal: Callable[..., Terminal]) -> None:
    on = terminal(*launch(sv, "trap 'echo hup; exit 4' HUP; echo ready-now; while :; do sleep 0.02; done"))
    on.expect("ready-now")

    os.kill(on.pid, signal.SIGHUP)

    on.expect("hup")
    assert code_of(on) == 4


def test_a_launcher_that_is_killed_leaves_an_agent_that_can_be_taken_over(
    sv: Supervisor, terminal: Callable[..., Terminal]
) -> None:
    on = terminal("/bin/sh", "-c", f"{shlex.join(launch(sv, 'echo ready-now; exec sleep 1000'))}; echo code=$?; cat")
    on.expect("ready-now")
    row = sv.row("a1")

    os.kill(row["keeperPid"], signal.SIGKILL)

    on.expect("code=137")
    assert alive(row["pid"])
    assert [d["name"] for d in sv.json("reconcile")] == ["a1"]
    assert (sv.pid("a1"), sv.row("a1")["verdict"]) == (row["pid"], "alive")


def test_a_foreground_launch_says_name_and_session_on_a_terminal(
    sv: Supervisor, terminal: Callable[..., Terminal]
) -> None:
    on = terminal(*launch(sv, "exit 0"))

    on.expect(r"supervisor: a1 · session ([0-9a-f-]{36})")
    session = on.match[1]
    assert code_of(on) == 0
    assert sv.row("a1")["sessionId"] == session


def test_a_transcript_cannot_drive_the_terminal_it_is_shown_on(
    sv: Supervisor, terminal: Callable[..., Terminal]
) -> None:
    """L3: colours stay, the rest is made visible."""
    sv.sh("a1", r"printf '\033[31mred\033[0m \033]0;owned\007 \033[2J \033[6n end\n'; exec sleep 1000")
    wait_for(lambda: "end" in sv.transcript("a1"), "its output")
    on = terminal(*sv.argv, "logs", "a1")

    assert code_of(on) == 0

    shown = on.before
    assert "\x1b[31mred" in shown
    assert not re.search("\x1b(?!\\[[0-9;]*m)|\x07", shown), repr(shown)


def test_an_interactive_demo_agent_takes_its_first_prompt_and_then_what_is_typed(
    sv: Supervisor, terminal: Callable[..., Terminal]
) -> None:
    on = terminal(*sv.argv, "launch", "--name", "a1", "demo", "--", "PRINT: first")
    on.expect("first")
    on.expect(r"DONE \[turn 1\]")

    on.sendline("PRINT: sec" + "ond")
    on.expect(r"DONE \[turn 2\]")
    on.sendeof()

    assert code_of(on) == 0
    assert sv.prompts("a1") == ["PRINT: first", "PRINT: second"]
