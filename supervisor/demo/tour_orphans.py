"""The second act of the tour: a lead is killed while its children ask, and what becomes of each of them."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

from supervisor.demo.stage import Stage, runs

TREE = '''\
[agents.boss]
profile = "demo"
asks = "hold"
prompt = """
PRINT: I lead, and my children ask me.
SLEEP: 600
"""

[agents.tester]
profile = "demo"
parent = "boss"
prompt = """
ASK: bash make deploy
SLEEP: 600
"""

[agents.pusher]
profile = "demo"
parent = "boss"
prompt = """
ASK: bash git push
SLEEP: 600
"""

[agents.writer]
profile = "demo"
parent = "boss"
prompt = """
PRINT: chapter one
SLEEP: 600
"""

[agents.helper]
profile = "demo"
parent = "boss"
prompt = """
PRINT: I help.
SLEEP: 600
"""
'''


class Orphans:
    """Refused with the truth, adopted with an open ask, resumed with its history, released."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def play(self) -> None:
        """From `up` to nothing left."""
        path = self._stage.file("office.toml", TREE)
        try:
            self._start(path)
            self._kill_the_boss()
            self._adopt()
            self._resume()
            self._release()
        finally:
            self._finish(path)

    def _start(self, path: str) -> None:
        stage = self._stage
        stage.say("Second act: a boss whose children ask for permissions, and a deputy")
        stage.show("up", path)
        stage.show("launch", "demo", "--detach", "--name", "deputy", "--asks", "hold", "--prompt", "SLEEP: 600")
        stage.check("two asks wait for an answer", lambda: len(self._asks()) == 2)
        stage.show("asks")

    def _kill_the_boss(self) -> None:
        stage = self._stage
        stage.say("The boss gets SIGKILL while both wait; the deputy adopts the pusher at once")
        os.kill(stage.rows()["boss"]["pid"], signal.SIGKILL)
        stage.show("adopt", "pusher", "--as", "deputy")
        stage.check(
            "the tester is refused, and no person is said to have done it", lambda: "DENIED" in self._log("tester")
        )
        stage.show("logs", "tester")
        stage.show("orphans")

    def _adopt(self) -> None:
        stage = self._stage
        stage.say("The pusher's ask came along to its new parent")
        stage.check("it waits there", lambda: [a["agent"] for a in self._asks()] == ["pusher"])
        stage.show("answer", self._asks()[0]["id"], "allow")
        stage.check("the pusher goes on", lambda: "ALLOWED bash git push" in self._log("pusher"))

    def _resume(self) -> None:
        stage = self._stage
        row = stage.rows()["writer"]
        stage.say(f"The writer (pid {row['pid']}) is killed as well; it is resumed in its own session")
        os.kill(row["pid"], signal.SIGKILL)
        stage.check("its end is on record", lambda: self._ended("writer"))
        stage.show("recover")
        stage.show("resume", "writer", "--detach", "--parent", "deputy", "--prompt", "PRINT: chapter two\nSLEEP: 600")
        stage.check(
            "the same session, another process",
            lambda: (now := stage.rows()["writer"])["sessionId"] == row["sessionId"] and now["pid"] != row["pid"],
        )
        stage.check("it remembers its first turn", lambda: '"turn":2' in self._log("writer"))
        stage.show("logs", "writer")

    def _release(self) -> None:
        stage = self._stage
        stage.say("Nobody needs the helper any more: it is asked to end")
        pid = stage.rows()["helper"]["pid"]
        stage.show("release", "helper")
        stage.check("the helper has ended", lambda: not runs(pid) and self._ended("helper"))
        stage.tree()

    def _finish(self, path: str) -> None:
        stage = self._stage
        stage.say("The end of the second act")
        pids = [r["pid"] for r in stage.rows().values() if r["pid"]]
        stage.show("stop", "deputy", "--cascade")
        stage.show("down", path)
        stage.check("nothing is left", lambda: not any(map(runs, pids)))

    def _asks(self) -> list[dict[str, Any]]:
        done = self._stage.supervisor("asks", "--json")
        return list(json.loads(done.stdout or b"[]"))

    def _log(self, name: str) -> str:
        return self._stage.supervisor("logs", name, "-n", "200").stdout.decode(errors="replace")

    def _ended(self, name: str) -> bool:
        rows = json.loads(self._stage.supervisor("ps", "--all", "--json").stdout or b"[]")
        return next(r for r in rows if r["name"] == name)["status"] in ("resumable", "closed")
