"""The stage of the tour: the real command in a throw-away state root, shown and checked as it goes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

_DEADLINE_S = 30.0
_LIVE_S = 1.5


class Stage:
    """Runs commands, prints what they print, and collects in `failures` what did not come true."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._env = {n: v for n, v in os.environ.items() if not n.startswith("SUPERVISOR_")}
        self._env["SUPERVISOR_HOME"] = os.path.join(folder, "state")
        self._env["XDG_CONFIG_HOME"] = os.path.join(folder, "config")
        self._colour = sys.stdout.isatty()
        self.failures: list[str] = []

    def file(self, name: str, text: str) -> str:
        """A file beside the state root; its path."""
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def rows(self) -> dict[str, Any]:
        done = self.supervisor("ps", "--json")
        return {r["name"]: r for r in json.loads(done.stdout or b"[]")}

    def tree(self) -> None:
        """On a terminal the live view for a moment, else one picture."""
        if not self._colour:
            return self.show("tree")
        view = subprocess.Popen(self._argv("watch"), env=self._env)
        try:
            view.wait(_LIVE_S)
        except subprocess.TimeoutExpired:
            view.send_signal(signal.SIGINT)
            view.wait(_DEADLINE_S)
        return None

    def check(self, what: str, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + _DEADLINE_S
        while not (true := _holds(condition)) and time.monotonic() < end:
            time.sleep(0.05)
        mark = "\033[32m✓\033[0m" if self._colour else "ok:"
        cross = "\033[31m✗\033[0m" if self._colour else "NOT TRUE:"
        print(f"  {mark if true else cross} {what}", flush=True)
        if not true:
            self.failures.append(f"not true: {what}")

    def show(self, *words: str) -> None:
        print(f"$ supervisor {' '.join(w.replace(self.folder + os.sep, '') for w in words)}", flush=True)
        # without a terminal to read from no command stays to ask something
        subprocess.run(self._argv(*words), env=self._env, stdin=subprocess.DEVNULL, check=False)

    def supervisor(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(self._argv(*words), env=self._env, capture_output=True, check=False)

    def _argv(self, *words: str) -> list[str]:
        return [sys.executable, "-P", "-m", "supervisor", *words]

    def say(self, text: str) -> None:
        print(f"\n\033[1m{text}\033[0m" if self._colour else f"\n== {text}", flush=True)


def _holds(condition: Callable[[], bool]) -> bool:
    """A row that is not there yet makes the condition false, not an error."""
    try:
        return condition()
    except KeyError:
        return False


def runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        if os.path.isdir("/proc/self"):
            return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
