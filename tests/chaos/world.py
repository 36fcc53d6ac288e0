"""The world of one run: its state root, its processes as /proc tells them, and the only way to signal one of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

import supervisor
from tests.e2e.processes import all_pids, cmdline, environment, stat_of

MARK = "CHAOS_RUN"
Record = dict[str, Any]
GRACE_MS = 8_000
ASK_MS = 6_000
_SETTINGS = {
    "processMatrix": {"heartbeat_ms": 1_000, "watcher_poll_ms": 1_000, "adoption_grace_ms": GRACE_MS},
    "limits": {"max_children": 1_000},
    "asks": {
        "mode": "hold",
        "forwarding_timeout_ms": ASK_MS,
        "rules": [{"action": "allow", "tool": "allow-*"}, {"action": "deny", "tool": "deny-*", "reason": "no"}],
    },
    "notify": {"command": ["true"]},
}


class Proc(NamedTuple):
    """A live process of this world."""

    pid: int
    start: int
    state: str
    argv: list[str]
    env: dict[str, str]

    @property
    def is_agent(self) -> bool:
        return "supervisor.demo" in self.argv and "SUPERVISOR_ENTRY_ID" in self.env


class Command:
    """One `supervisor …` beside the others. `hit`: a fault has killed it."""

    def __init__(self, words: tuple[str, ...], process: subprocess.Popen[bytes], files: tuple[Path, Path]) -> None:
        self.words, self.process = words, process
        self._files = files
        self.began = time.monotonic()
        self.hit = False
        seen = stat_of(process.pid)
        self.start = seen.start_ticks if seen else 0

    def output(self) -> str:
        return "".join(f.read_text(errors="replace") for f in self._files)

    def forget(self) -> None:
        for file in self._files:
            file.unlink()


class World:
    """Everything below one throw-away folder."""

    def __init__(self, root: Path) -> None:
        self.home, self._config, self.work = root / "s", root / "c", root / "w"
        for folder in (root / "h", self._config / "supervisor-agents", self.work):
            folder.mkdir(parents=True, mode=0o700)
        (self._config / "supervisor-agents" / "settings.toml").write_text(tomli_w.dumps(_SETTINGS))
        self.mark = uuid.uuid4().hex
        self.clock_ms = 0
        self._count = 0
        self._env = {
            "PATH": os.environ["PATH"],
            "HOME": str(root / "h"),
            "XDG_CONFIG_HOME": str(self._config),
            "SUPERVISOR_HOME": str(self.home),
            "PYTHONPATH": str(Path(supervisor.__path__[0]).parent),
            MARK: self.mark,
        }

    # -- commands

    def start(self, *words: str, env: Mapping[str, str] | None = None) -> Command:
        """A command in the background, by the clock of now."""
        self._count += 1
        files = (self.work / f"{self._count}.out", self.work / f"{self._count}.err")
        offset = {"SUPERVISOR_CLOCK_OFFSET_MS": str(self.clock_ms)} if self.clock_ms else {}
        with files[0].open("wb") as out, files[1].open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "supervisor", *words],
                env={**self._env, **offset, **(env or {})},
                cwd=self.work,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        return Command(words, process, files)

    def run(self, *words: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
        """A command to its end: code and output."""
        command = self.start(*words, env=env)
        code = command.process.wait(180)
        out = command.output()
        command.forget()
        return code, out

    # -- records

    def records(self) -> list[Record]:
        """Every record that can be read now."""
        found = []
        for path in self.matrix.glob("*.json"):
            try:
                record = json.loads(path.read_bytes())
                record["path"] = path
                found.append(record)
            except (OSError, ValueError):
                continue
        return found

    @property
    def matrix(self) -> Path:
        return self.home / "process-matrix"

    # -- processes

    def processes(self) -> dict[int, Proc]:
        """Every live process that bears the mark."""
        found = {}
        for pid in all_pids():
            env = environment(pid)
            seen = stat_of(pid) if env.get(MARK) == self.mark else None
            if seen is not None and seen.state not in "ZX":
                found[pid] = Proc(pid, seen.start_ticks, seen.state, cmdline(pid), env)
        return found

    def lives(self, process: Mapping[str, Any] | None) -> bool:
        """Whether the process of a record is there."""
        seen = stat_of(process["key"]["pid"]) if process else None
        return seen is not None and seen.state not in "ZX" and seen.start_ticks == process["key"]["startTicks"]  # type: ignore[index]

    def signal(self, pid: int, start: int, number: signal.Signals) -> bool:
        """Signal a process of this world and nobody else: opened, verified, signalled through what was opened."""
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            return False
        try:
            seen = stat_of(pid)
            if seen is None or seen.state in "ZX" or seen.start_ticks != start:
                return False
            if environment(pid).get(MARK) != self.mark:
                return False
            signal.pidfd_send_signal(fd, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(fd)
        return True


def is_live(record: Record) -> bool:
    """Whether a process may run behind it."""
    state = record["state"]
    return state["status"] in ("starting", "running", "winding_down", "adopted") or bool(state.get("grace"))
