"""The demo agent as a real process."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import supervisor.demo

DEADLINE = 20.0  # seconds; only a broken agent takes that long
ROOT = Path(supervisor.demo.__path__[0]).parents[1]

FAKE_SUPERVISOR = """
import json, os, sys
from pathlib import Path
here = Path(os.environ["FAKE_DIR"])
(here / "call.json").write_text(json.dumps(sys.argv[1:]))
(here / "env.json").write_text(json.dumps(dict(os.environ)))
if "--prompt-file" in sys.argv:
    (here / "stdin").write_bytes(sys.stdin.buffer.read())
print((here / "says").read_text(), end="")
sys.exit(int((here / "code").read_text()))
"""


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.01)


class Pipe:
    """A FIFO that a tool holds as its stdout: the first line tells it runs, the end tells it is all gone."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._seen = b""

    def started(self) -> None:
        until(lambda: b"\n" in self._read(), f"a line in {self.path}")

    def ended(self) -> None:
        until(lambda: select.select([self._fd], [], [], 0)[0] and os.read(self._fd, 4096) == b"", "its end")

    def _read(self) -> bytes:
        try:
            self._seen += os.read(self._fd, 4096)
        except BlockingIOError:  # open at the other end, nothing written yet
            pass
        return self._seen

    def close(self) -> None:
        os.close(self._fd)


class Demo:
    """Starts demo agents with a folder of their own, and ends each of them."""

    def __init__(self, tmp: Path) -> None:
        self.tmp = tmp
        self.sessions = tmp / "sessions"
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp),
            "PYTHONPATH": str(ROOT),
            "SUPERVISOR_DEMO_DIR": str(self.sessions),
        }
        self._started: list[subprocess.Popen[bytes]] = []

    def start(
        self,
        *words: str | bytes,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        umask: int = -1,
    ) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "supervisor.demo", *words],
            cwd=self.tmp,
            env=self.env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            umask=umask,
        )
        self._started.append(child)
        return child

    def run(self, *words: str | bytes, stdin: bytes = b"", umask: int = -1) -> subprocess.CompletedProcess[bytes]:
        child = self.start(*words, stdin=subprocess.PIPE, umask=umask)
        out, err = child.communicate(stdin, timeout=DEADLINE)
        return subprocess.CompletedProcess(child.args, child.returncode, out, err)

    def records(self, session_id: str = "s") -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.sessions / f"{session_id}.jsonl").read_bytes().splitlines()]

    def fake_supervisor(self, *, code: int, says: str = "") -> None:
        """Put a stand-in for the rest of the package beside the real demo agent."""
        package = self.tmp / "fake" / "supervisor"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(FAKE_SUPERVISOR)
        (package / "demo").symlink_to(ROOT / "supervisor" / "demo")
        (self.tmp / "code").write_text(str(code))
        (self.tmp / "says").write_text(says)
        self.env |= {"PYTHONPATH": str(self.tmp / "fake"), "FAKE_DIR": str(self.tmp)}

    def close(self) -> None:
        for child in self._started:
            child.kill()  # does nothing once it is reaped
            child.wait(DEADLINE)
            for stream in (child.stdin, child.stdout, child.stderr):
                if stream is not None:
                    stream.close()


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    agents = Demo(tmp_path)
    yield agents
    agents.close()


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    fifo = Pipe(tmp_path / "pipe")
    yield fifo
    fifo.close()


def first_line(child: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert child.stdout is not None
    assert select.select([child.stdout], [], [], DEADLINE)[0], "it says nothing"
    found: dict[str, Any] = json.loads(child.stdout.readline())
    return found


PROMPTS = {
    "quotes": b"""it's "quoted" `and` \\ more""",
    "lines": b"one\n\ntwo\r\nthree\n\n",
    "shell": b"$(touch pwned) ; touch pwned `touch pwned` $HOME %s {x}",
    "dash": b"-rf --resume x --",
    "not utf-8": b"\xff\xfe\xc3( \xed\xa0\x80",
    "separators": "a\u2028b\x0cc\u0085d\ufeff".encode(),
    "empty": b"",
    "spaces": b"  \t ",
}


@pytest.mark.parametrize("raw", [*PROMPTS.values(), b"\0", b"x" * 2**20, b"\n" * 2**20], ids=lambda raw: repr(raw[:9]))
def test_a_prompt_on_stdin_arrives_exactly(demo: Demo, raw: bytes) -> None:
    done = demo.run("--session-id", "s", stdin=raw)
    assert (done.returncode, done.stderr) == (0, b"")
    prompt = demo.records()[1]
    assert raw == prompt["text"].encode("utf-8", "surrogateescape")
    assert not (demo.tmp / "pwned").exists()


@pytest.mark.parametrize("raw", PROMPTS.values(), ids=list(PROMPTS))
def test_a_prompt_after_the_dashes_arrives_exactly(demo: Demo, raw: bytes) -> None:
    done = demo.run("--session-id", "s", "--", raw, stdin=b"not this")
    assert (done.returncode, done.stderr) == (0, b"")
    prompt = demo.records()[1]
    assert raw == prompt["text"].encode("utf-8", "surrogateescape")
    assert not (demo.tmp / "pwned").exists()


def test_a_prompt_over_the_bound_is_refused_not_cut(demo: Demo) -> None:
    done = demo.run("--session-id", "s", stdin=b"PRINT: x\n" + b"x" * (8 * 2**20))
    assert done.returncode == 2
    assert b"longer than" in done.stderr
    assert [record["type"] for record in demo.records()] == ["session", "end"]


def test_the_session_is_on_disk_before_its_line_is_said(demo: Demo) -> None:
    agent = demo.start("--session-id", "s", "--", "WAIT_FILE: go")
    said = first_line(agent)
    assert said == {"type": "session", "session_id": "s", "resumed": False, "turn": 1}
    header = {"type": "session", "session_id": "s", "cwd": str(demo.tmp.resolve()), "pid": agent.pid}
    assert header == demo.records()[0]
    (demo.tmp / "go").touch()
    assert agent.wait(DEADLINE) == 0


def test_without_an_id_each_run_is_a_new_conversation(demo: Demo) -> None:
    ids = {json.loads(demo.run().stdout.splitlines()[0])["session_id"] for _ in range(2)}
    assert ids == {file.stem for file in demo.sessions.iterdir()}
    assert len(ids) == 2


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_a_session_is_its_users_alone_whatever_the_umask(demo: Demo, umask: int) -> None:
    assert demo.run("--session-id", "s", umask=umask).returncode == 0
    modes = [path.stat().st_mode & 0o777 for path in (demo.sessions, demo.sessions / "s.jsonl")]
    assert modes == [0o700, 0o600]


def test_resuming_keeps_the_id_and_counts_the_turns_on(demo: Demo) -> None:
    demo.run("--session-id", "s", "--", "PRINT: one")
    done = demo.run("--resume", "s", "--", "PRINT: two")
    said = done.stdout.splitlines()
    assert json.loads(said[0]) == {"type": "session", "session_id": "s", "resumed": True, "turn": 2}
    assert said[1:] == [b"two", b"DONE [turn 2]"]
    kinds = ["session", "prompt", "end", "prompt", "end"]
    assert kinds == [record["type"] for record in demo.records()]


def test_resuming_what_is_unknown_creates_nothing(demo: Demo) -> None:
    done = demo.run("--resume", "nope", "--", "RUN: touch ran")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"no conversation found with session ID: nope" in done.stderr
    assert list(demo.tmp.iterdir()) == []


def test_an_id_in_use_is_refused(demo: Demo) -> None:
    demo.run("--session-id", "s")
    done = demo.run("--session-id", "s", "--", "RUN: touch ran")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"session ID s is already in use" in done.stderr
    assert not (demo.tmp / "ran").exists()


@pytest.mark.parametrize("words", [["--nope"], ["words"], ["--resume"], ["--resume", "a", "--session-id", "b"]])
def test_misuse_exits_2_and_creates_nothing(demo: Demo, words: list[str]) -> None:
    done = demo.run(*words)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"usage:" in done.stderr
    assert list(demo.tmp.iterdir()) == []


def test_a_malformed_directive_stops_the_prompt_before_anything_was_run(demo: Demo) -> None:
    done = demo.run("--session-id", "s", "--", "RUN: touch ran\nSLEEP: x")
    assert done.returncode == 2
    assert b"line 2: SLEEP: 'x'" in done.stderr
    assert not (demo.tmp / "ran").exists()
    assert demo.records()[-1] == {"type": "end", "code": 2}


def test_a_tool_is_echoed_and_recorded_with_its_code(demo: Demo) -> None:
    done = demo.run("--session-id", "s", "--", "RUN: echo out; echo err >&2; exit 3\nRUN: kill -9 $$")
    assert done.stdout.splitlines()[1:] == [b"out", b"err", b"DONE [turn 1]"]
    assert demo.records()[2:4] == [
        {"type": "tool", "command": "echo out; echo err >&2; exit 3", "code": 3, "output": "out\nerr\n"},
        {"type": "tool", "command": "kill -9 $$", "code": 137, "output": ""},
    ]


def test_a_tools_long_output_is_echoed_whole_and_recorded_in_part(demo: Demo) -> None:
    done = demo.run("--session-id", "s", "--", "RUN: head -c 300000 /dev/zero | tr '\\0' x")
    assert done.stdout.splitlines()[1] == b"x" * 300000
    assert demo.records()[2]["output"] == "x" * 4096


def test_a_tool_has_a_session_of_its_own_and_knows_whose_tool_it_is(demo: Demo) -> None:
    probe = 'import os; print(os.getsid(0) == os.getpid(), *map(os.getenv, ("DEMO_AGENT", "DEMO_SESSION_ID")))'
    done = demo.run("--session-id", "s", "--", f"RUN: exec '{sys.executable}' -c '{probe}'")
    assert done.stdout.splitlines()[1] == b"True 1 s"


def test_a_helper_left_behind_does_not_hold_the_turn_up(demo: Demo, pipe: Pipe) -> None:
    waiting = f"(echo on >&9; while [ ! -e go ]; do sleep 0.05; done) 9>'{pipe.path}'"
    done = demo.run("--", f"RUN: {waiting} & echo left")
    assert done.stdout.splitlines()[1:] == [b"left", b"DONE [turn 1]"]
    pipe.started()
    (demo.tmp / "go").touch()
    pipe.ended()


def test_a_background_command_is_not_waited_for_and_outlives_the_agent(demo: Demo, pipe: Pipe) -> None:
    waiting = f"exec >'{pipe.path}'; echo on; while [ ! -e go ]; do sleep 0.05; done"
    agent = demo.start("--session-id", "s", "--", f"BG: {waiting}\nBG: echo heard", stderr=subprocess.DEVNULL)
    out, _ = agent.communicate(timeout=DEADLINE)
    assert {b"heard", b"DONE [turn 1]"} == set(out.splitlines()[1:])
    assert {"type": "tool", "command": waiting, "code": None, "output": ""} == demo.records()[2]
    pipe.started()
    (demo.tmp / "go").touch()
    pipe.ended()


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_agent_with_its_tool(demo: Demo, pipe: Pipe, signum: int, code: int) -> None:
    agent = demo.start("--session-id", "s", "--", f"RUN: exec >'{pipe.path}'; echo on; sleep 600 & sleep 600")
    pipe.started()
    agent.send_signal(signum)
    assert code == agent.wait(DEADLINE)
    pipe.ended()
    assert {"type": "end", "code": code} == demo.records()[-1]


def test_a_tool_that_ignores_term_is_ended_too(demo: Demo, pipe: Pipe) -> None:
    tool = f"trap '' TERM; exec >'{pipe.path}'; echo on; while :; do sleep 600; done"
    agent = demo.start("--", f"RUN: {tool}")
    pipe.started()
    agent.terminate()
    assert agent.wait(DEADLINE) == 143
    pipe.ended()


def test_a_tool_gets_a_moment_to_tidy_up(demo: Demo, pipe: Pipe) -> None:
    tool = f"trap 'echo x > tidied; exit' TERM; exec >'{pipe.path}'; echo on; while :; do sleep 0.05; done"
    agent = demo.start("--", f"RUN: {tool}")
    pipe.started()
    agent.terminate()
    assert agent.wait(DEADLINE) == 143
    assert (demo.tmp / "tidied").read_text() == "x\n"


@pytest.mark.parametrize("waiting", ["SLEEP: 600", "WAIT_FILE: never"])
def test_a_signal_ends_a_waiting_agent(demo: Demo, waiting: str) -> None:
    agent = demo.start("--session-id", "s", "--", f"RUN: touch ready\n{waiting}")
    until((demo.tmp / "ready").exists, "ready")
    agent.terminate()
    assert agent.wait(DEADLINE) == 143
    assert demo.records()[-1] == {"type": "end", "code": 143}


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP"])
def test_an_ignored_signal_changes_nothing_and_its_tools_do_not_inherit_that(demo: Demo, name: str) -> None:
    prompt = f"IGNORE: {name}\nRUN: touch ready\nWAIT_FILE: go\nRUN: kill -{name} $$; echo survived"
    agent = demo.start("--session-id", "s", "--", prompt)
    until((demo.tmp / "ready").exists, "ready")
    signum = signal.Signals["SIG" + name]
    agent.send_signal(signum)
    (demo.tmp / "go").touch()
    out, _ = agent.communicate(timeout=DEADLINE)
    assert (agent.returncode, out.splitlines()[-1]) == (0, b"DONE [turn 1]")
    assert 128 + signum == demo.records()[3]["code"]


def test_exit_leaves_at_once_with_its_code(demo: Demo) -> None:
    done = demo.run("--session-id", "s", "--", "EXIT: 7\nRUN: touch ran")
    assert (done.returncode, len(done.stdout.splitlines())) == (7, 1)
    assert demo.records()[-1] == {"type": "end", "code": 7}
    assert not (demo.tmp / "ran").exists()


@pytest.mark.parametrize("name", ["KILL", "SIGSEGV", "TERM", "PIPE"])
def test_a_crash_dies_of_its_signal_and_records_no_end(demo: Demo, name: str) -> None:
    done = demo.run("--session-id", "s", "--", f"CRASH: {name}")
    assert -signal.Signals["SIG" + name.removeprefix("SIG")] == done.returncode
    assert demo.records()[-1]["type"] == "prompt"


def test_an_allowed_ask_goes_on_as_allowed(demo: Demo) -> None:
    demo.fake_supervisor(code=0, says='{"approved": true}')
    done = demo.run("--", "ASK: Bash -x $(git push)")
    assert done.stdout.splitlines()[1:] == [b"ALLOWED Bash -x $(git push)", b"DONE [turn 1]"]
    asked = ["ask", "--tool", "Bash", "--value", "-x $(git push)", "--json"]
    assert asked == json.loads((demo.tmp / "call.json").read_text())


@pytest.mark.parametrize(
    ("code", "says", "reason"),
    [
        (1, '{"approved": false, "reason": "not today"}', "not today"),
        (0, '{"approved": false, "reason": "odd"}', "odd"),
        (4, "", "the ask ended with code 4 and gave no reason"),
    ],
)
def test_any_other_ask_is_denied_with_its_reason(demo: Demo, code: int, says: str, reason: str) -> None:
    demo.fake_supervisor(code=code, says=says)
    done = demo.run("--", "ASK: Bash git push")
    assert [f"DENIED Bash git push: {reason}", "DONE [turn 1]"] == done.stdout.decode().splitlines()[1:]


def test_without_the_command_an_ask_is_denied(demo: Demo) -> None:
    demo.fake_supervisor(code=0)
    (demo.tmp / "fake/supervisor/__main__.py").unlink()
    done = demo.run("--", "ASK: Bash git push")
    assert done.stdout.splitlines()[1].startswith(b"DENIED Bash git push: ")
    assert done.returncode == 0


def test_a_child_is_launched_with_its_prompt_on_stdin(demo: Demo) -> None:
    demo.fake_supervisor(code=0, says="launched w\n")
    prompt = "-x\nRUN: $(y) 'z' \"é\"" + "x" * 300_000
    done = demo.run("--session-id", "s", stdin=f"SPAWN: w demo {json.dumps(prompt)}".encode())
    assert done.stdout.splitlines()[1:] == [b"launched w", b"DONE [turn 1]"]
    launched = ["launch", "demo", "--name", "w", "--detach", "--prompt-file", "-"]
    assert launched == json.loads((demo.tmp / "call.json").read_text())
    assert prompt.encode() == (demo.tmp / "stdin").read_bytes()
    assert json.loads((demo.tmp / "env.json").read_text())["DEMO_SESSION_ID"] == "s"


def test_a_child_that_can_not_be_launched_is_said_and_the_turn_goes_on(demo: Demo) -> None:
    demo.fake_supervisor(code=3, says="no such profile\n")
    done = demo.run("--session-id", "s", "--", 'SPAWN: w nope "x"\nPRINT: on')
    said = [
        b"no such profile",
        b"can't spawn w: supervisor launch ended with code 3",
        b"on",
        b"DONE [turn 1]",
    ]
    assert said == done.stdout.splitlines()[1:]
    assert (done.returncode, demo.records()[2]["code"]) == (0, 3)


@pytest.mark.parametrize("prompt", ["PRINT: x", "RUN: echo x", "RUN: yes", "BG: echo x"])
def test_a_broken_stdout_neither_loops_nor_complains(demo: Demo, prompt: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    agent = demo.start("--session-id", "s", "--", f"{prompt}\n" * 3, stdout=writer)
    os.close(writer)
    _, err = agent.communicate(timeout=DEADLINE)
    assert agent.returncode == 0
    assert b"Traceback" not in err and b"Exception" not in err
    assert demo.records()[-1] == {"type": "end", "code": 0}


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_do_not_turn_the_session_file_into_stdout(demo: Demo, closed: str) -> None:
    words = [
        sys.executable,
        "-P",
        "-m",
        "supervisor.demo",
        "--session-id",
        "s",
        "--",
        "RUN: echo x\nBG: echo y >&2",
    ]
    closing = ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *words]
    done = subprocess.run(closing, cwd=demo.tmp, env=demo.env, timeout=DEADLINE, check=False)
    assert done.returncode == 0
    kinds = ["session", "prompt", "tool", "tool", "end"]
    assert kinds == [record["type"] for record in demo.records()]


def test_at_a_terminal_each_line_is_a_prompt_until_the_end(demo: Demo) -> None:
    ours, theirs = pty.openpty()
    try:
        agent = demo.start("--session-id", "s", stdin=theirs)
        os.write(ours, b"PRINT: one\n\nSLEEP: x\nPRINT: two\n\x04")
        out, err = agent.communicate(timeout=DEADLINE)
    finally:
        os.close(theirs)
        os.close(ours)
    assert out.splitlines()[1:] == [b"one", b"DONE [turn 1]", b"two", b"DONE [turn 3]"]
    assert b"line 1: SLEEP" in err
    assert agent.returncode == 0
    assert [record["text"] for record in demo.records() if record["type"] == "prompt"] == [
        "PRINT: one",
        "SLEEP: x",
        "PRINT: two",
    ]


def test_interactive_takes_the_prompt_given_first(demo: Demo) -> None:
    done = demo.run("--interactive", "--", "PRINT: one", stdin=b"PRINT: two\nEXIT: 5\nPRINT: three\n")
    assert done.stdout.splitlines()[1:] == [b"one", b"DONE [turn 1]", b"two", b"DONE [turn 2]"]
    assert done.returncode == 5


def test_it_starts_without_the_heavy_modules(demo: Demo) -> None:
    heavy = {"asyncio", "argparse", "dataclasses", "inspect", "logging", "subprocess", "uuid", "pathlib"}
    code = "import supervisor.demo.__main__, sys; print(*sorted(sys.modules))"
    argv = [sys.executable, "-P", "-S", "-c", code]
    done = subprocess.run(argv, env=demo.env, capture_output=True, timeout=DEADLINE, check=True)
    assert set() == heavy & set(done.stdout.decode().split())
