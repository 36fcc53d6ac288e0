"""`make run`: the main job, live, in a throw-away state root. Drives the real command; kills with SIGKILL; tidies up.

Everything it starts is ended before it leaves, also after Ctrl-C or a failure.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile

from supervisor.demo.stage import Stage, runs
from supervisor.demo.tour_orphans import Orphans

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


class Keeping:
    """The first act: agents and keepers are killed, and nothing is lost or doubled."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def play(self) -> None:
        """From `up` to `down`."""
        path = self._stage.file("team.toml", TREE)
        try:
            self._start(path)
            self._kill_an_agent()
            self._kill_the_keeper()
        finally:
            self._finish(path)

    def _start(self, path: str) -> None:
        stage = self._stage
        stage.say("A lead and three children from one file; the lead launches a grandchild from its own shell")
        stage.show("up", path)
        stage.check("the grandchild has the lead as its parent", lambda: stage.rows()["scout"]["parent"] == "lead")
        stage.tree()

    def _kill_an_agent(self) -> None:
        stage = self._stage
        old = stage.rows()["builder"]["pid"]
        stage.say(f"builder (pid {old}) gets SIGKILL; its policy is permanent")
        os.kill(old, signal.SIGKILL)
        stage.check(
            "builder runs again, as a new process",
            lambda: (row := stage.rows()["builder"])["verdict"] == "alive" and row["pid"] not in (None, old),
        )
        stage.show("why", "builder")
        stage.tree()

    def _kill_the_keeper(self) -> None:
        stage = self._stage
        before = {n: r["pid"] for n, r in stage.rows().items()}
        keeper = stage.rows()["lead"]["keeperPid"]
        stage.say(f"The keeper itself (pid {keeper}) gets SIGKILL; its agents live on")
        os.kill(keeper, signal.SIGKILL)
        stage.check("all agents live on without a keeper", lambda: all(map(runs, before.values())))
        stage.show("tree")  # not `watch`: it would re-attach them at once
        stage.say("Reconcile: a new keeper takes them over, by identity")
        stage.show("reconcile")
        stage.check(
            "all are alive under a keeper again",
            lambda: all(r["verdict"] == "alive" for r in stage.rows().values()),
        )
        stage.check("none was started twice", lambda: {n: r["pid"] for n, r in stage.rows().items()} == before)
        stage.tree()

    def _finish(self, path: str) -> None:
        stage = self._stage
        stage.say("Down: children first, each verified gone")
        pids = [r["pid"] for r in stage.rows().values()]
        stage.show("down", path)
        stage.check("nothing is left", lambda: not stage.rows() and not any(map(runs, pids)))


def _leave(number: int, _frame: object) -> None:
    """The terminal was closed, or we are to end: tidy up first, and say nothing to a terminal that is gone."""
    if number == signal.SIGHUP:
        null = os.open(os.devnull, os.O_WRONLY)
        for fd in (1, 2):
            os.dup2(null, fd)
    raise KeyboardInterrupt


def main() -> int:
    """Run the tour in a folder that is removed afterwards; the number of things that did not come true."""
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, _leave)
    folder = tempfile.mkdtemp(prefix="supervisor-tour-")
    stage = Stage(folder)
    try:
        Keeping(stage).play()
        Orphans(stage).play()
        stage.say("Summary")
        for line in stage.failures or ["everything came true; nothing is left running"]:
            print(f"  {line}")
        return len(stage.failures)
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
