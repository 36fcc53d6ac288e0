"""`supervisor attach`, and the tmux adapter against a real tmux on a private socket."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from supervisor.adapters import tmux
from supervisor.adapters.tmux import Pane
from supervisor.cli.main import run
from supervisor.core.entry import KeeperRef, Terminal
from supervisor.core.errors import Refused
from supervisor.core.identity import ProcessKey, ProcessRef
from supervisor.runtime.compose import Context
from supervisor.testing import make_entry

DEADLINE_S = 10.0
Captured = pytest.CaptureFixture[str]
needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

WRITE_ARGV = (
    "import json, os, sys, time\n"
    "with open(sys.argv[1] + '.part', 'w') as f: json.dump([sys.argv[2:], os.getcwd()], f)\n"
    "os.rename(sys.argv[1] + '.part', sys.argv[1])\n"
    "time.sleep(600)\n"
)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


class Server:
    """Private tmux servers: the default one of a folder of this test's, and one at a socket with a space in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = str(folder / "so cket")
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TMUX_TMPDIR": str(folder),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        }
        self.output = str(folder / "out.json")

    def run(self, *words: str, socket: str | None = None) -> str:
        at = ["-S", socket] if socket else []
        done = subprocess.run(
            ["tmux", *at, *words], env=self.env, capture_output=True, text=True, check=True, timeout=10
        )
        return done.stdout

    def open(self, *words: str, name: str = "agent", cwd: str | None = None, socket: str | None = None) -> Pane:
        argv = [sys.executable, "-c", WRITE_ARGV, self.output, *words]
        return tmux.new_window(argv, name=name, cwd=cwd or str(self.folder), env=self.env, socket=socket)

    def told(self) -> tuple[list[str], str]:
        until(lambda: os.path.exists(self.output))
        words, cwd = json.loads(Path(self.output).read_text())
        return words, cwd

    def inside(self, pane: Pane) -> dict[str, str]:
        return {**self.env, "TMUX": f"{pane.socket},123,0", "TMUX_PANE": pane.pane_id}

    def current(self, pane: Pane) -> str:
        return self.run("display-message", "-p", "-t", f"={pane.session}:", "#{pane_id}", socket=pane.socket).strip()

    def kill(self) -> None:
        for at in ([], ["-S", self.socket]):
            subprocess.run(["tmux", *at, "kill-server"], env=self.env, capture_output=True, check=False, timeout=10)


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="tm"))  # short: a socket's path holds 107 bytes
    made = Server(folder)
    try:
        yield made
    finally:
        made.kill()
        shutil.rmtree(folder, ignore_errors=True)


# The adapter


@needs_tmux
def test_the_version_is_told(server: Server) -> None:
    version = tmux.available(server.env)
    assert version is not None
    assert server.run("-V").split()[1] == version


def test_without_tmux_there_is_no_version() -> None:
    assert tmux.available({"PATH": "/nowhere"}) is None


@pytest.mark.parametrize(
    ("version", "good"),
    [
        ("3.1c", False),
        ("2.9", False),
        ("3.2", True),
        ("3.2a", True),
        ("3.10", True),
        ("next-3.4", True),
        ("master", True),
    ],
)
def test_which_versions_are_recent_enough(version: str, good: bool) -> None:
    assert tmux.recent_enough(version) is good


@needs_tmux
@pytest.mark.parametrize("own_socket", [True, False])
def test_arguments_reach_the_process_exactly(server: Server, own_socket: bool) -> None:
    words = [
        "", " ", "a b", "$HOME", "$(id)", "`id`", ";", "x;", "x\\;", "\\", "'", '"', "#{pane_id}", "#[bold]", "##", "~",
        "-x", "--", "%0", "{a,b}", "é", "two\nlines", "a\tb",
    ]  # fmt: skip
    pane = server.open(*words, socket=server.socket if own_socket else None)
    assert server.told()[0] == words
    assert (pane.socket == server.socket) is own_socket


@needs_tmux
def test_the_working_directory_is_exact(server: Server) -> None:
    cwd = server.folder / "a #{pid} ##b #[c] $d;"
    cwd.mkdir()
    server.open(cwd=str(cwd))
    assert server.told()[1] == str(cwd)


@needs_tmux
@pytest.mark.parametrize("name", ["lead", "a b", "#{pid}", "#(id)", "##", "-d", "x;", "a:b.c", "$x"])
def test_a_windows_name_is_not_interpreted_and_stays(server: Server, name: str) -> None:
    pane = server.open(name=name)
    server.told()
    assert server.run("display-message", "-p", "-t", pane.pane_id, "#{window_name}") == f"{name}\n"


@needs_tmux
def test_a_single_word_is_not_given_to_a_shell(server: Server) -> None:
    program = server.folder / "my prog;$(touch x)"
    program.write_text(f"#!/bin/sh\ntouch '{server.folder}/ran'\nexec sleep 600\n")
    program.chmod(0o755)
    tmux.new_window([str(program)], name="x", cwd=str(server.folder), env=server.env)
    until((server.folder / "ran").exists)
    assert not (server.folder / "x").exists()


@needs_tmux
def test_outside_of_tmux_the_session_is_made_once(server: Server) -> None:
    first = server.open()
    second = server.open()
    assert (first.session, second.session) == (tmux.SESSION, tmux.SESSION)
    assert first.pane_id != second.pane_id
    assert server.run("list-sessions", "-F", "#{session_name} #{session_windows}") == "supervisor 2\n"


@needs_tmux
def test_another_session_whose_name_begins_the_same_is_not_taken(server: Server) -> None:
    server.run("new-session", "-d", "-s", "supervisor-of-mine", "sleep 600")
    assert server.open().session == tmux.SESSION


@needs_tmux
def test_inside_tmux_the_window_is_opened_in_our_session(server: Server) -> None:
    server.run("new-session", "-d", "-s", "work", "sleep 600", socket=server.socket)
    here = server.run("list-panes", "-a", "-F", "#{pane_id}", socket=server.socket).strip()
    env = server.inside(Pane(here, "work", server.socket))
    pane = tmux.new_window(["sleep", "600"], name="x", cwd="/", env=env)
    assert (pane.session, pane.socket) == ("work", server.socket)


@needs_tmux
def test_a_new_window_does_not_take_the_users_screen(server: Server) -> None:
    first = server.open()
    server.open()
    assert server.current(first) == first.pane_id


@needs_tmux
def test_a_variable_of_a_server_that_is_gone_is_ignored(server: Server) -> None:
    env = server.inside(Pane("%0", "work", str(server.folder / "gone")))
    assert tmux.new_window(["sleep", "600"], name="x", cwd="/", env=env).session == tmux.SESSION


@needs_tmux
def test_a_server_that_we_start_does_not_inherit_who_launched(server: Server) -> None:
    server.env["SUPERVISOR_SESSION_ID"] = "me"
    server.open()
    shown = server.run("show-environment", "-g")
    assert "HOME=" in shown
    assert "SUPERVISOR_" not in shown


def test_without_tmux_a_window_is_refused_with_what_to_do() -> None:
    with pytest.raises(Refused, match="Install tmux"):
        tmux.new_window(["sleep", "1"], name="x", cwd="/", env={"PATH": "/nowhere"})


@needs_tmux
def test_what_tmux_says_is_passed_on(server: Server) -> None:
    with pytest.raises(Refused, match="tmux opened no window: .+"):
        tmux.new_window(["sleep", "1"], name="x", cwd="/", env=server.env, socket=str(server.folder / "no" / "such"))


@needs_tmux
def test_a_pane_lives_until_its_command_ends(server: Server) -> None:
    pane = server.open(socket=server.socket)
    assert tmux.pane_pid(pane.pane_id, pane.socket, env=server.env) is not None
    assert tmux.pane_pid("%99", pane.socket, env=server.env) is None
    assert tmux.pane_pid(pane.pane_id, None, env=server.env) is None
    server.run("kill-pane", "-t", pane.pane_id, socket=server.socket)
    assert tmux.pane_pid(pane.pane_id, pane.socket, env=server.env) is None


@needs_tmux
def test_a_dead_pane_that_remains_on_screen_is_not_alive(server: Server) -> None:
    server.run("new-session", "-d", "-s", "work", "sleep 600")
    server.run("set-option", "-g", "remain-on-exit", "on")
    pane = tmux.new_window(["sh", "-c", "exit 3"], name="x", cwd="/", env=server.env)
    until(lambda: server.run("display-message", "-p", "-t", pane.pane_id, "#{pane_dead}") == "1\n")
    assert tmux.pane_pid(pane.pane_id, None, env=server.env) is None


@needs_tmux
def test_the_pid_of_a_pane_is_the_opened_process(server: Server) -> None:
    pane = server.open("word")
    server.told()
    pid = tmux.pane_pid(pane.pane_id, None, env=server.env)
    command = Path(f"/proc/{pid}/cmdline")
    if command.exists():
        assert command.read_bytes().endswith(b"\0word\0")


def test_without_tmux_no_pane_is_alive() -> None:
    assert tmux.pane_pid("%0", None, env={"PATH": "/nowhere"}) is None
    assert not tmux.server_alive(None, env={"PATH": "/nowhere"})


def test_which_server_we_are_in(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert tmux.is_inside("/s", {}) is False
    assert tmux.is_inside("/s,x", {"TMUX": "/s,x,12,0"}) is True
    assert tmux.is_inside("/other", {"TMUX": "/s,12,0"}) is None
    assert tmux.is_inside(str(tmp_path / "link"), {"TMUX": f"{tmp_path}/a,12,0"}) is True


@needs_tmux
def test_inside_the_client_is_switched_to_window_and_pane(server: Server) -> None:
    mine = server.open(socket=server.socket)
    theirs = server.open(socket=server.socket)
    server.run("split-window", "-d", "-t", theirs.pane_id, "sleep 600", socket=server.socket)
    other = server.run("list-panes", "-t", theirs.pane_id, "-F", "#{pane_id}", socket=server.socket).split()[1]
    with Client(server, mine):
        tmux.attach(other, server.socket, True, env=server.inside(mine))
        assert server.current(mine) == other


class Client:
    """A real tmux client on a terminal of its own."""

    def __init__(self, server: Server, pane: Pane, *, argv: list[str] | None = None, env: dict[str, str] | None = None):
        self._server, self._pane = server, pane
        self._argv = argv or ["tmux", "-S", pane.socket, "attach-session", "-t", pane.session]
        self._env = env or server.env
        self.ours = -1

    def __enter__(self) -> Client:
        self.ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            self._argv, env=self._env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        until(self._attached)
        return self

    def _attached(self) -> bool:
        if select.select([self.ours], [], [], 0)[0]:
            try:
                os.read(self.ours, 65536)  # a client whose terminal is full does not go on
            except OSError:
                pass
        return self.name() != ""

    def name(self) -> str:
        return self._server.run("list-clients", "-F", "#{client_name}", socket=self._pane.socket).strip()

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self.ours)


# The command


class Matrix:
    """A state root with one agent of ours on record: the keeper is the pane's process."""

    def __init__(self, home: Path) -> None:
        self.context = Context(dict(os.environ), cwd=str(home))
        self.context.prepare()

    def add(self, terminal: Terminal, *, keeper: int | None = None, status: str = "running") -> None:
        key = self.context.processes.identify(keeper or os.getpid())
        assert isinstance(key, ProcessKey)
        ref = ProcessRef(self.context.processes.machine(), key)
        entry = make_entry("lead", status=status, keeper=KeeperRef("k1", ref))  # type: ignore[arg-type]
        self.context.store.create(replace(entry, terminal=terminal))


@pytest.fixture
def matrix(home: Path, monkeypatch: pytest.MonkeyPatch) -> Matrix:
    for name in ("TMUX", "TMUX_PANE"):
        monkeypatch.delenv(name, raising=False)
    return Matrix(home)


@pytest.mark.parametrize(
    ("terminal", "status", "said"),
    [
        (Terminal(), "running", "lead runs detached. `supervisor logs -f lead` follows it"),
        (Terminal(kind="foreground"), "running", "lead runs in the foreground of another terminal"),
        (Terminal(), "closed", "lead has ended (exited with 0). See: supervisor show lead"),
        (Terminal(kind="tmux", pane="%0", socket="/nowhere"), "closed", "lead has ended (exited with 0)"),
        (Terminal(kind="tmux", pane="%0", socket="/nowhere"), "running", "lead: the tmux server is gone"),
    ],
)
def test_an_agent_without_a_pane_is_answered_with_what_to_do(
    matrix: Matrix, capsys: Captured, terminal: Terminal, status: str, said: str
) -> None:
    matrix.add(terminal, status=status)
    assert run(["attach", "lead"]) == 1
    assert said in capsys.readouterr().err


def test_an_unknown_agent_is_not_found(matrix: Matrix) -> None:
    assert run(["attach", "lead"]) == 3


@needs_tmux
def test_a_pane_that_is_gone_is_said_to_be(matrix: Matrix, server: Server, capsys: Captured) -> None:
    server.open(socket=server.socket)
    matrix.add(Terminal(kind="tmux", pane="%99", socket=server.socket))
    assert run(["attach", "lead"]) == 1
    assert "its tmux pane %99 is gone" in capsys.readouterr().err


@needs_tmux
def test_a_pane_id_given_anew_is_not_taken_for_the_agents(matrix: Matrix, server: Server, capsys: Captured) -> None:
    """A restarted server begins at %0 again."""
    pane = server.open(socket=server.socket)
    matrix.add(Terminal(kind="tmux", pane=pane.pane_id, socket=server.socket), keeper=os.getpid())
    assert run(["attach", "lead"]) == 1
    assert f"tmux pane {pane.pane_id} is another one now" in capsys.readouterr().err


@needs_tmux
def test_without_a_terminal_it_says_so(
    matrix: Matrix, server: Server, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    pane = server.open(socket=server.socket)
    matrix.add(Terminal(kind="tmux", pane=pane.pane_id, socket=server.socket), keeper=_pid(server, pane))
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert run(["attach", "lead"]) == 1
    assert "standard input is no terminal" in capsys.readouterr().err


@needs_tmux
def test_from_another_tmux_server_it_says_how(
    matrix: Matrix, server: Server, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    pane = server.open(socket=server.socket)
    matrix.add(Terminal(kind="tmux", pane=pane.pane_id, socket=server.socket), keeper=_pid(server, pane))
    monkeypatch.setenv("TMUX", "/another,1,0")
    assert run(["attach", "lead"]) == 1
    assert f"env -u TMUX tmux -S '{server.socket}' attach-session -t '{pane.pane_id}'" in capsys.readouterr().err


@needs_tmux
def test_inside_tmux_it_goes_to_the_pane(matrix: Matrix, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = server.open(socket=server.socket)
    pane = server.open(socket=server.socket)
    matrix.add(Terminal(kind="tmux", pane=pane.pane_id, socket=server.socket), keeper=_pid(server, pane))
    for name, value in server.inside(mine).items():
        if name.startswith("TMUX"):
            monkeypatch.setenv(name, value)
    with Client(server, mine):
        assert run(["attach", "lead"]) == 0
        assert server.current(mine) == pane.pane_id


@needs_tmux
def test_outside_it_becomes_a_tmux_client_at_the_pane(matrix: Matrix, server: Server) -> None:
    server.open(socket=server.socket)
    pane = server.open(socket=server.socket)
    matrix.add(Terminal(kind="tmux", pane=pane.pane_id, socket=server.socket), keeper=_pid(server, pane))
    argv = [sys.executable, "-P", "-m", "supervisor", "attach", "lead"]
    env = {**matrix.context.env, **server.env}
    with Client(server, pane, argv=argv, env=env):
        assert server.current(pane) == pane.pane_id


def _pid(server: Server, pane: Pane) -> int:
    pid = tmux.pane_pid(pane.pane_id, pane.socket, env=server.env)
    assert pid is not None
    return pid


def test_help_holds_an_example(capsys: Captured) -> None:
    assert run(["attach", "--help"]) == 0
    assert "Example: supervisor attach lead" in capsys.readouterr().out
