"""`make run`: the main job, live, in a throw-away state root. Drives the real command; kills with SIGKILL; tidies up.

Everything it starts is ended before it leaves, also after Ctrl-C or a failure.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

_DEADLINE_S = 30.0
_LIVE_S = 1.5

TREE = '''\
[agents.lead]
profile = "demo"
prompt = """
PRINT: I lead. My own child is launched from inside me.
SPAWN: scout demo "PRINT: I am the grandchild.\\\\nSLEEP: 600"
SLEEP: 600
"""

[agents.builder]
profile = "demo"
parent = "lead"
restart = "permanent"
prompt = """
PRINT: I build. Kill me and I come back.
SLEEP: 600
"""

[agents.tester]
profile = "demo"
parent = "lead"
after = ["builder"]
prompt = """
PRINT: I test.
SLEEP: 600
"""

[agents.writer]
profile = "demo"
parent = "lead"
prompt = """
PRINT: I write.
SLEEP: 600
"""
'''


class Tour:
    """One run. `failures` collects what did not come true; the exit code is their count."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._env = {n: v for n, v in os.environ.items() if not n.startswith("SUPERVISOR_")}
        self._env["SUPERVISOR_HOME"] = os.path.join(folder, "state")
        self._env["XDG_CONFIG_HOME"] = os.path.join(folder, "config")
        self._colour = sys.stdout.isatty()
        self.failures: list[str] = []

    def run(self) -> int:
        """The whole story; 0 when everything came true."""
        path = os.path.join(self._folder, "team.toml")
        with open(path, "w") as file:
            file.write(TREE)
        try:
            self._start(path)
            self._kill_an_agent()
            self._kill_the_keeper()
        finally:
            self._finish(path)
        self._say("Summary")
        for line in self.failures or ["everything came true; nothing is left running"]:
            print(f"  {line}")
        return len(self.failures)

    def _start(self, path: str) -> None:
        self._say("A lead and three children from one file; the lead launches a grandchild from its own shell")
        self._show("up", path)
        self._check("the grandchild has the lead as its parent", lambda: self._rows()["scout"]["parent"] == "lead")
        self._tree()

    def _kill_an_agent(self) -> None:
        old = self._rows()["builder"]["pid"]
        self._say(f"builder (pid {old}) gets SIGKILL; its policy is permanent")
        os.kill(old, signal.SIGKILL)
        self._check(
            "builder runs again, as a new process",
            lambda: (row := self._rows()["builder"])["verdict"] == "alive" and row["pid"] not in (None, old),
        )
        self._show("why", "builder")
        self._tree()

    def _kill_the_keeper(self) -> None:
        before = {n: r["pid"] for n, r in self._rows().items()}
        keeper = self._rows()["lead"]["keeperPid"]
        self._say(f"The keeper itself (pid {keeper}) gets SIGKILL; its agents live on")
        os.kill(keeper, signal.SIGKILL)
        self._check("all agents live on without a keeper", lambda: all(map(_runs, before.values())))
        self._show("tree")  # not `watch`: it would re-attach them at once
        self._say("Reconcile: a new keeper takes them over, by identity")
        self._show("reconcile")
        self._check(
            "all are alive under a keeper again",
            lambda: all(r["verdict"] == "alive" for r in self._rows().values()),
        )
        self._check("none was started twice", lambda: {n: r["pid"] for n, r in self._rows().items()} == before)
        self._tree()

    def _finish(self, path: str) -> None:
        self._say("Down: children first, each verified gone")
        pids = [r["pid"] for r in self._rows().values()]
        self._show("down", path)
        self._check("nothing is left", lambda: not self._rows() and not any(map(_runs, pids)))

    def _rows(self) -> dict[str, Any]:
        done = self._supervisor("ps", "--json")
        return {r["name"]: r for r in json.loads(done.stdout or b"[]")}

    def _tree(self) -> None:
        """On a terminal the live view for a moment, else one picture."""
        if not self._colour:
            return self._show("tree")
        view = subprocess.Popen(self._argv("watch"), env=self._env)
        try:
            view.wait(_LIVE_S)
        except subprocess.TimeoutExpired:
            view.send_signal(signal.SIGINT)
            view.wait(_DEADLINE_S)
        return None

    def _check(self, what: str, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + _DEADLINE_S
        while not (true := _holds(condition)) and time.monotonic() < end:
            time.sleep(0.05)
        mark = "\033[32m✓\033[0m" if self._colour else "ok:"
        cross = "\033[31m✗\033[0m" if self._colour else "NOT TRUE:"
        print(f"  {mark if true else cross} {what}", flush=True)
        if not true:
            self.failures.append(f"not true: {what}")

    def _show(self, *words: str) -> None:
        print(f"$ supervisor {' '.join(w.replace(self._folder + os.sep, '') for w in words)}", flush=True)
        subprocess.run(self._argv(*words), env=self._env, check=False)

    def _supervisor(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(self._argv(*words), env=self._env, capture_output=True, check=False)

    def _argv(self, *words: str) -> list[str]:
        return [sys.executable, "-P", "-m", "supervisor", *words]

    def _say(self, text: str) -> None:
        print(f"\n\033[1m{text}\033[0m" if self._colour else f"\n== {text}", flush=True)


def _holds(condition: Callable[[], bool]) -> bool:
    """A row that is not there yet makes the condition false, not an error."""
    try:
        return condition()
    except KeyError:
        return False


def _runs(pid: int) -> bool:
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


def main() -> int:
    """Run the tour in a folder that is removed afterwards."""
    folder = tempfile.mkdtemp(prefix="supervisor-tour-")
    try:
        return Tour(folder).run()
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
