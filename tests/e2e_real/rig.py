"""One test's world: a private state root, agent homes, a fake model, and the `supervisor` command on PATH.

Owns a temporary folder and the mark in the environment of everything started in it; ends by pid what a test leaves.
"""

import json
import os
import re
import secrets
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import supervisor
from tests.e2e_real.clis import FAKE_MODEL, Clis, FakeModel, claude_home, pi_home
from tests.e2e_real.homes import codex_home, gemini_home, opencode_home
from tests.e2e_real.processes import MARK, command, end_marked, marked, runs, send, until

COMMAND_SECONDS = 120.0  # one supervisor command; only a hung one takes that long
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
TEMP_FILE = re.compile(r"\.tmp$|\.tmp\.|~$|\.corrupt$")
Row = dict[str, Any]


@dataclass(frozen=True)
class Done:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Its JSON."""
        assert self.code == 0, f"exit code {self.code}\n{self.out}\n{self.err}"
        return json.loads(self.out)


class Rig:
    """What a test works with. `clis` and `model` are None for tests that need no agent CLI."""

    def __init__(self, tmp: Path, *, clis: Clis | None = None, model: FakeModel | None = None) -> None:
        self.tmp = tmp
        self.mark = secrets.token_hex(8)
        self.state = tmp / "state"
        self.cwd = _folder(tmp / "work")
        self.config = _folder(tmp / "config")
        self._bin = _folder(tmp / "bin")
        self._write_command()
        self._model = model
        path = f"{self._bin}{os.pathsep}{SYSTEM_PATH}"
        self.env = {
            "HOME": str(_folder(tmp / "home")),
            "PATH": clis.path(path) if clis else path,
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "TMPDIR": str(_folder(tmp / "tmp")),
            "XDG_CONFIG_HOME": str(self.config),
            "SUPERVISOR_HOME": str(self.state),
            "PYTHONPATH": str(Path(supervisor.__path__[0]).parent),  # the checkout that these tests are of
            MARK: self.mark,
        }
        if clis and model:
            home = Path(self.env["HOME"])
            self.env |= claude_home(tmp, model.port, self.cwd) | pi_home(tmp, model.port)
            self.env |= codex_home(tmp, model.port) | gemini_home(home, model.port) | opencode_home(home, model.port)

    def _write_command(self) -> None:
        """A `supervisor` on PATH that is the package under test, whatever else the machine has of that name."""
        self.command = self._bin / "supervisor"
        self.command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m supervisor "$@"\n')
        self.command.chmod(0o755)

    @property
    def model(self) -> FakeModel:
        """The fake model."""
        assert self._model is not None
        return self._model

    # -- commands

    def run(
        self, *words: str, stdin: bytes = b"", env: dict[str, str] | None = None, seconds: float = COMMAND_SECONDS
    ) -> Done:
        """Run `supervisor WORDS…` to its end."""
        done = subprocess.run(
            [str(self.command), *words],
            env=self.env | (env or {}),
            cwd=self.cwd,
            input=stdin,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *words: str, out: Path) -> subprocess.Popen[bytes]:
        """Start `supervisor WORDS…` with its stdout in a file (stderr beside it); the test waits for its end."""
        with out.open("wb") as file, out.with_suffix(".err").open("wb") as errors:
            return subprocess.Popen(
                [str(self.command), *words],
                env=self.env,
                cwd=self.cwd,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=errors,
            )

    def launch(self, profile: str, *words: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> Row:
        """`launch --detach --json`, which must succeed."""
        launched = self.run("launch", "--detach", "--json", profile, *words, stdin=stdin, env=env)
        assert launched.code == 0, f"launch {profile}: {launched.code}\n{launched.out}\n{launched.err}"
        row: Row = json.loads(launched.out)
        return row

    def agent(self, cli: str, name: str, prompt: str | bytes, *words: str, options: tuple[str, ...] = ()) -> Row:
        """Launch a real agent that may use its shell tool, its prompt given by standard input."""
        data = prompt.encode() if isinstance(prompt, str) else prompt
        return self.launch(
            cli, "--name", name, "--prompt-file", "-", *options, "--", *words, *TOOLS_ALLOWED[cli], stdin=data
        )

    def rows(self) -> dict[str, Row]:
        """Every agent on record by name."""
        return {row["name"]: row for row in self.run("ps", "--all", "--json").data}

    def row(self, name: str) -> Row:
        """One agent."""
        return self.rows()[name]

    def tree(self) -> list[Row]:
        """The roots of `tree --json`, each with its children."""
        roots: list[Row] = self.run("tree", "--json").data
        return roots

    def entry(self, name: str) -> Row:
        """The whole record of one agent."""
        record: Row = self.run("show", name, "--json").data["entry"]
        return record

    def hand_off(self, name: str) -> Row:
        """How an agent ended, once it is on record."""

        def ended() -> Row | None:
            state = self.entry(name)["state"]
            return state.get("handOff") if state["status"] in ("closed", "resumable") else None

        return until(ended, f"a record of the end of {name}")

    def transcript(self, row: Row) -> str:
        """What an agent has said."""
        return Path(row["transcript"]).read_text(errors="replace")

    # -- what is there

    def running(self) -> list[int]:
        """Every process of this test that runs."""
        return marked(self.mark)

    def all_gone(self) -> bool:
        """Whether no process of this test runs."""
        return not self.running()

    def await_file(self, path: Path) -> str:
        """The content of a file that a tool writes, once it is there and whole (it ends with a newline)."""

        def content() -> str | None:
            try:
                text = path.read_text()
            except FileNotFoundError:
                return None
            return text if text.endswith("\n") else None

        return until(content, f"a whole {path}")

    def temp_files(self) -> list[str]:
        """What a finished writer must not leave below the state root."""
        return sorted(str(p.relative_to(self.state)) for p in self.state.rglob("*") if TEMP_FILE.search(p.name))

    def run_files(self) -> list[str]:
        """Heartbeats, bells and pane requests: only those of live keepers may exist."""
        folders = ("run/heartbeats", "run/bells", "requests")
        return sorted(str(p.relative_to(self.state)) for f in folders for p in (self.state / f).iterdir())

    def assert_no_process_left(self) -> None:
        """Keepers may need a moment to leave after their agents' ends are on record."""
        until(self.all_gone, lambda: f"nothing runs: {[(p, command(p)[:120]) for p in self.running()]}")

    def assert_nothing_left(self) -> None:
        """No process, heartbeat, bell or temp file."""
        self.assert_no_process_left()
        left = self.temp_files() + self.run_files()
        assert not left, f"left in the state root: {left}"

    def end_all(self) -> list[str]:
        """Kill what is left; what it was."""
        return end_marked(self.mark)

    def profile(self, name: str, toml: str) -> None:
        """A profile of this test's user."""
        folder = _folder(self.config / "supervisor-agents" / "launch_profiles")
        (folder / f"{name}.toml").write_text(toml)


TOOLS_ALLOWED = {"claude": ("--allowedTools", "Bash"), "pi": ("--model", FAKE_MODEL)}
"""Words after `--`: claude denies a tool that no rule allows; pi asks nobody."""


def kill_keeper(row: Row) -> None:
    """SIGKILL the keeper of an agent."""
    keeper = row["keeperPid"]
    send(keeper, signal.SIGKILL)
    until(lambda: not runs(keeper), f"the end of keeper {keeper}")


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path
