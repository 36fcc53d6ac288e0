"""Carries out one fault after the other, with the commands and asks that race them. Notes what it did in a log."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from tests.chaos.decoys import Decoys
from tests.chaos.plan import CLOCKS, Fault
from tests.chaos.world import Command, Proc, Record, World, is_live
from tests.e2e.processes import stat_of

AT_ONCE = 5
ASKS_AT_ONCE = 3
STOPPED_AT_ONCE = 8
DECOYS = 40
AGENTS = 51
PROMPT = "SLEEP: 3000"


class Injector:
    """`torn`: entry ids whose record it has truncated; `torn_asks`: the same of asks."""

    def __init__(self, world: World, decoys: Decoys, log: Path) -> None:
        self._world, self._decoys = world, decoys
        self._log = log.open("w")
        self.commands: list[Command] = []
        self.asks: dict[str, Command] = {}
        self.done: list[Command] = []
        self.asked: dict[str, Command] = {}
        self.torn: set[str] = set()
        self.torn_asks: set[str] = set()
        self.counts: dict[str, int] = {}
        self.racing: dict[str, int] = {}
        self._stopped: list[tuple[int, int]] = []

    # -- faults

    def inject(self, fault: Fault, records: list[Record], processes: dict[int, Proc]) -> bool:
        """Whether there was somebody to hit."""
        verb, what = fault.kind.partition(" ")[::2]
        if verb == "clock":
            self._world.clock_ms = CLOCKS[int(fault.dice * len(CLOCKS))]
            hit = [f"offset {self._world.clock_ms}"]
        elif verb == "truncate":
            hit = self._truncate(what, fault, records)
        elif verb == "cont":
            hit = self._continue(fault.dice)
        else:
            hit = self._signal(verb, what, fault, records, processes)
        if hit:
            self.counts[fault.kind] = self.counts.get(fault.kind, 0) + 1
        row = {"at": time.time(), **fault._asdict(), "hit": hit}
        self._log.write(json.dumps(row) + "\n")
        self._log.flush()
        return bool(hit)

    def _signal(
        self, verb: str, what: str, fault: Fault, records: list[Record], processes: dict[int, Proc]
    ) -> list[str]:
        number = signal.SIGKILL if verb == "kill" else signal.SIGSTOP
        if what == "command":
            running = [c for c in self.commands if c.process.poll() is None]
            if not running:
                return []
            command = running[int(fault.dice * len(running))]
            command.hit = command.hit or verb == "kill"
            return self._send([(command.process.pid, command.start)], number)
        record = _of(fault.who, records)
        if record is None:
            return []
        keeper, agent = record["keeper"]["process"], record["generation"]["process"]
        refs = {"agent": (agent,), "keeper": (keeper,), "both": (keeper, agent)}[what]
        targets = [(r["key"]["pid"], r["key"]["startTicks"]) for r in refs if r and r["key"]["pid"] in processes]
        hit = self._send(targets, number)
        if what == "both" and hit:
            self._replace([pid for pid, _ in targets])
        return hit

    def _send(self, targets: Iterable[tuple[int, int]], number: signal.Signals) -> list[str]:
        hit = [(pid, start) for pid, start in targets if self._world.signal(pid, start, number)]
        if number == signal.SIGSTOP:
            self._stopped += hit
            if len(self._stopped) > STOPPED_AT_ONCE:
                self._continue(0.0)
        return [f"pid {pid}" for pid, _ in hit]

    def _replace(self, pids: list[int]) -> None:
        """Strangers on the pids of those who were just killed."""
        deadline = time.monotonic() + 0.05
        while any(stat_of(p) for p in pids) and time.monotonic() < deadline:
            self.reap()
            time.sleep(0.001)
        for pid in pids:
            if len(self._decoys.pids) < DECOYS:
                self._decoys.on(pid)

    def _continue(self, dice: float) -> list[str]:
        if not self._stopped:
            return []
        pid, start = self._stopped.pop(int(dice * len(self._stopped)))
        self._world.signal(pid, start, signal.SIGCONT)
        return [f"pid {pid}"]

    def continue_all(self) -> None:
        while self._continue(0.0):
            pass

    def _truncate(self, what: str, fault: Fault, records: list[Record]) -> list[str]:
        if what == "entry":
            record = _of(fault.who, records)
            files = [record["path"]] if record else []
        elif what == "heartbeat":
            files = sorted((self._world.home / "run" / "heartbeats").glob("*.json"))
        else:
            files = sorted((self._world.home / "forwarding" / "sessions").glob("*/*/*.json"))
        if not files:
            return []
        path = files[int(fault.dice * len(files))]
        try:
            size = path.stat().st_size
            if what == "entry" and record:
                self.torn.add(record["entryId"])
            elif what == "ask":
                self.torn_asks.add(path.name.removesuffix(".json"))
            os.truncate(path, int(size * 0.9 * fault.dice))
        except OSError:
            return []
        return [f"{what} {path.name}"]

    # -- what races

    def race(self, fault: Fault, records: list[Record]) -> None:
        """The command of this fault, if there is room for one."""
        if len(self.commands) >= AT_ONCE:
            return
        words = _words(fault, records)
        if words:
            self.racing[words[0]] = self.racing.get(words[0], 0) + 1
            self.commands.append(self._world.start(*words))

    def keep_asking(self, fault: Fault, records: list[Record]) -> None:
        """Asks are outstanding all the time, in the name of children that live.

        Without the mark of its entry an ask is no tool of the agent's, which would be ended with it.
        """
        kids = [r for r in records if r["parent"] and r["state"]["status"] == "running"]
        if not kids or len(self.asks) >= ASKS_AT_ONCE:
            return
        kid = kids[int(fault.dice * len(kids))]
        tool = f"{('allow', 'deny', 'other', 'other')[fault.number % 4]}-{len(self.asked)}"
        env = {
            "SUPERVISOR_SESSION_ID": kid["sessionId"],
            "SUPERVISOR_PARENT_SESSION": kid["parent"]["sessionId"],
        }
        self.asks[tool] = self.asked[tool] = self._world.start("ask", "--tool", tool, "--value", "x", env=env)

    def collect(self) -> None:
        """Take note of what has ended, and wait for orphans as process 1 has to."""
        self.reap()
        for command in [c for c in self.commands if c.process.poll() is not None]:
            self.commands.remove(command)
            self.done.append(command)
        for tool in [t for t, c in self.asks.items() if c.process.poll() is not None]:
            del self.asks[tool]

    def reap(self) -> None:
        ours = {c.process.pid: c for c in (*self.commands, *self.asks.values())}
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None or found.si_pid in self._decoys.pids:
                return
            if found.si_pid in ours:
                ours[found.si_pid].process.poll()
            else:
                os.waitpid(found.si_pid, 0)


def _of(name: str, records: list[Record]) -> Record | None:
    """The live record of that name, else its latest."""
    mine = [r for r in records if r["name"] == name]
    return max(mine, key=lambda r: (is_live(r), r["startedAt"]), default=None)


def _wanted(fault: Fault, records: list[Record]) -> Record | None:
    """Whoever was killed comes back, so that there is always a tree; when all are there, who lives is tried."""
    live = {r["name"]: r for r in records if is_live(r)}
    dead = [n for n in sorted({r["name"] for r in records}) if n not in live]
    names = dead if dead and len(live) < AGENTS else sorted(live)
    return _of(names[int(fault.dice * len(names))], records) if names else None


def _words(fault: Fault, records: list[Record]) -> tuple[str, ...]:
    record, other = _of(fault.on, records), _of(fault.other, records)
    if fault.command in ("resume", "launch"):
        record = _wanted(fault, records)
    parent = ("--parent", other["entryId"]) if other and is_live(other) and fault.dice < 0.7 else ()
    if fault.command == "launch" or record is None:
        name = record["name"] if record else fault.on
        return ("launch", "--detach", "--name", name, *parent, "--task-ref", "t", "demo", "--prompt", PROMPT)
    if fault.command == "resume":
        return ("resume", record["entryId"], *parent, "--detach", "--prompt", PROMPT)
    if fault.command == "adopt":
        return ("adopt", record["entryId"], "--as", other["entryId"]) if other else ()
    if fault.command == "release":
        return ("release", record["entryId"])
    if fault.command == "recover":
        return ("recover", "--as", other["entryId"], "--yes-exact-only", "--json") if other else ()
    return ("reconcile", "--json")
