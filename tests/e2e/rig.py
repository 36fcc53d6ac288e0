"""One private supervisor: a state root, a configuration, a mark, and the real command to run in them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

import supervisor
from tests.e2e.processes import alive, end_marked, marked, named, stat_of, wait_for

PATIENCE = 60  # seconds until a command that hangs fails its test
APP = "supervisor-agents"
Row = dict[str, Any]


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


class Canary:
    """A process of nobody's: it notes every signal that it hears."""

    def __init__(self, folder: Path) -> None:
        self._heard = folder / f"canary-{uuid.uuid4().hex[:8]}"
        traps = "for s in HUP INT QUIT USR1 USR2 TERM CONT; do trap \"echo $s >> '$1'\" $s; done"
        script = f'{traps}; echo up >> "$1"; while :; do sleep 0.05; done'
        self._process = subprocess.Popen(["/bin/sh", "-c", script, "sh", self._heard], env={"PATH": os.environ["PATH"]})
        self.pid = self._process.pid
        wait_for(lambda: self._heard.exists() and "up" in self._heard.read_text(), "the canary")
        self.start_ticks = self._now().start_ticks

    def is_unharmed(self) -> bool:
        """It lives, is not stopped, and has heard nothing."""
        return alive(self.pid) and self._now().state not in "Tt" and self._heard.read_text() == "up\n"

    def _now(self) -> Any:
        seen = stat_of(self.pid)
        assert seen is not None, "the canary is dead"
        return seen

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Supervisor:
    """The command under test in a world of its own. `close` stops everything and fails when something is left."""

    def __init__(self, root: Path, *, exit_watch: str = "kernel") -> None:
        self.root = root
        self.home, self.config, self.work = root / "s", root / "c", root / "w"
        for folder in (root / "h", self.config, self.work):
            folder.mkdir(parents=True, mode=0o700)
        self.mark = f"mark-{uuid.uuid4().hex}"
        self.argv = [sys.executable, "-P", "-m", "supervisor"]
        self.command = shlex.join(self.argv)
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(root / "h"),
            "XDG_CONFIG_HOME": str(self.config),
            "SUPERVISOR_HOME": str(self.home),
            "PYTHONPATH": str(Path(supervisor.__path__[0]).parent),  # the checkout that these tests are of
            "SVE2E_MARK": self.mark,
        }
        if exit_watch == "poll":
            self.env["SUPERVISOR_EXIT_WATCH"] = "poll"
        self._commands: list[subprocess.Popen[bytes]] = []
        self._canaries: list[Canary] = []
        self._may_leave = ""

    # -- commands

    def run(
        self,
        *words: str | Path,
        code: int | None = 0,
        input: bytes = b"",
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
        via: Sequence[str] = (),
        umask: int = -1,
    ) -> Done:
        """Run one command to its end; `code` is what it must end with. A variable that is None is taken away."""
        ran = subprocess.run(
            [*via, *self.argv, *words],
            input=input,
            capture_output=True,
            env=self.environment(env),
            cwd=cwd or self.work,
            timeout=PATIENCE,
            umask=umask,
            check=False,
        )
        done = Done(ran.returncode, os.fsdecode(ran.stdout), os.fsdecode(ran.stderr))
        assert code in (None, done.code), f"{words} ended with {done.code}, not {code}:\n{done.err}{done.out}"
        return done

    def json(self, *words: str | Path, **how: Any) -> Any:
        end = words.index("--") if "--" in words else len(words)
        return json.loads(self.run(*words[:end], "--json", *words[end:], **how).out)

    def start(
        self, *words: str | Path, env: Mapping[str, str | None] | None = None, via: Sequence[str] = (), **how: Any
    ) -> Any:
        """A command that goes on beside the test."""
        command = subprocess.Popen(
            [*via, *self.argv, *words],
            **{
                "env": self.environment(env),
                "cwd": self.work,
                "stdin": subprocess.DEVNULL,
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
                **how,
            },
        )
        self._commands.append(command)
        return command

    def environment(self, changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
        return {n: v for n, v in {**self.env, **(changes or {})}.items() if v is not None}

    # -- agents

    def launch(self, name: str, *command: str | Path, options: Sequence[str] = (), **how: Any) -> Any:
        """Start a detached agent of profile `shell`; what `--json` says."""
        words = [str(w) for w in command or ("sleep", "1000")]
        return self.json("launch", "--detach", "--name", name, *options, "shell", "--", *words, **how)

    def sh(self, name: str, script: str, *options: str, **how: Any) -> Any:
        """The same with a line of shell."""
        return self.launch(name, "/bin/sh", "-c", script, options=options, **how)

    def demo(self, name: str, prompt: str, *options: str, **how: Any) -> Any:
        """Start a detached scripted agent."""
        words = ("launch", "--detach", "--name", name, "--prompt-file", "-", *options, "demo")
        return self.json(*words, input=prompt.encode(), **how)

    def profile(self, name: str, text: str) -> None:
        """A profile of the user's own."""
        folder = self.config / APP / "launch_profiles"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.toml").write_text(f'schema = 1\nname = "{name}"\nsummary = "of a test"\n{text}')

    def setting(self, key: str, value: int | str) -> None:
        section, _, leaf = key.partition(".")
        (self.config / APP).mkdir(parents=True, exist_ok=True)
        (self.config / APP / "settings.toml").write_text(tomli_w.dumps({section: {leaf: value}}))

    def script(self, name: str, body: str) -> Path:
        """A program for agents to be."""
        path = self.work / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    def tree_file(self, agents: Mapping[str, Mapping[str, Any]], name: str = "team.toml") -> Path:
        path = self.work / name
        path.write_text(tomli_w.dumps({"agents": agents}))
        return path

    def canary(self) -> Canary:
        self._canaries.append(Canary(self.root))
        return self._canaries[-1]

    # -- what is to be seen

    def ps(self, *, all: bool = True) -> dict[str, Row]:
        """The rows of `ps --json` by name."""
        return {r["name"]: r for r in self.json("ps", *(["--all"] if all else []))}

    def row(self, name: str) -> Row:
        return self.ps()[name]

    def pid(self, name: str) -> int:
        return int(self.row(name)["pid"])

    def keeper(self, name: str) -> int:
        return int(self.row(name)["keeperPid"])

    def record_path(self, name: str) -> Path:
        """The file of the entry of that name (the latest, if there are several)."""
        found = [(r["startedAt"], p) for p in self.records() if (r := json.loads(p.read_text()))["name"] == name]
        return max(found)[1]

    def records(self) -> list[Path]:
        return sorted((self.home / "process-matrix").glob("*.json"))

    def record(self, name: str) -> Any:
        """The entry as it stands in its file: no command looks at it."""
        return json.loads(self.record_path(name).read_text())

    def edit(self, name: str, change: Callable[[Any], None]) -> None:
        """Rewrite a record as another program, or another time, would have left it."""
        path = self.record_path(name)
        record = json.loads(path.read_text())
        change(record)
        self.replace(path, json.dumps(record).encode())

    @staticmethod
    def replace(path: Path, data: bytes) -> None:
        spare = path.with_name(f".{path.name}.test")
        spare.write_bytes(data)
        spare.rename(path)

    def ended(self, name: str) -> Any:
        """The hand-off, once it is on record."""
        return wait_for(lambda: self.record(name)["state"].get("handOff"), f"the end of {name} on record")

    def wait_ready(self, *names: str) -> dict[str, Row]:
        """The rows once all of these agents are there and proven up."""

        def ready() -> dict[str, Row] | None:
            rows = self.ps(all=False)
            return rows if all(n in rows and rows[n]["ready"] for n in names) else None

        return wait_for(ready, f"{', '.join(names)} ready") or {}

    def prompts(self, name: str) -> list[str]:
        """What a demo agent was really told, by its own session file."""
        file = self.home / "demo-sessions" / f"{self.row(name)['sessionId']}.jsonl"
        lines = [json.loads(line) for line in file.read_bytes().splitlines()]
        return [line["text"] for line in lines if line["type"] == "prompt"]

    def transcript(self, name: str) -> str:
        return Path(self.row(name)["transcript"]).read_text(errors="surrogateescape")

    def alive(self) -> set[int]:
        """Everything that bears the mark: agents, what they started, keepers, commands."""
        return marked(self.mark)

    def traces(self) -> list[str]:
        """What a launch that was refused must not leave: a process, a record, a prompt, a transcript, a temp file."""
        folders = [self.home / n for n in ("process-matrix", "prompts", "transcripts", "requests")]
        files = [f for folder in folders if folder.is_dir() for f in folder.iterdir()]
        files += [f for f in self.home.rglob("*") if f.name.endswith(".tmp") and f not in files]
        return [*(named([p]) for p in self.alive()), *(str(f) for f in files)]

    # -- the end

    def may_leave(self, why: str) -> None:
        """This test leaves processes that no `stop` can be expected to find."""
        self._may_leave = why

    def close(self) -> None:
        """Stop every agent, see that nothing is left, and end what is left all the same."""
        try:
            for command in self._commands:
                command.kill()  # does nothing once it has ended
                command.wait(PATIENCE)
            if not self._may_leave:
                self._stop_all()
                left = self._left()
                assert not left, f"left running after stop: {named(left)}"
        finally:
            end_marked(self.mark)
            for stream in (s for c in self._commands for s in (c.stdin, c.stdout, c.stderr) if s):
                stream.close()
            for canary in self._canaries:
                canary.close()

    def _stop_all(self) -> None:
        if not self.home.is_dir() or not self.alive():
            return
        ids = [r["entryId"] for r in self.json("ps", "--all")]
        if ids:
            self.run("stop", "--cascade", "--grace", "0.5", *ids)

    def _left(self) -> set[int]:
        try:
            wait_for(lambda: not self.alive(), "nothing left")
        except AssertionError:
            return self.alive()
        return set()


def spawn(name: str, prompt: str, profile: str = "demo") -> str:
    """The directive with which a demo agent launches a child, as real agents do: from its own shell tool."""
    return f"SPAWN: {name} {profile} {json.dumps(prompt)}"


def beats(home: Path, keeper: int) -> int:
    """How often a keeper has beaten, by its heartbeat file."""
    found = [f.read_text() for f in (home / "run" / "heartbeats").glob("*.json")]
    mine = next(json.loads(text) for text in found if json.loads(text)["pid"] == keeper)
    return int(mine["beat"])


def spins_not(home: Path, keeper: int) -> bool:
    """Whether a keeper uses next to no CPU over four of its beats."""
    first, before = beats(home, keeper), stat_of(keeper)
    wait_for(lambda: beats(home, keeper) >= first + 4, "four beats")
    after = stat_of(keeper)
    assert before is not None and after is not None
    return after.cpu_ticks - before.cpu_ticks < 0.4 * os.sysconf("SC_CLK_TCK")
