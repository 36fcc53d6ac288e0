"""What must hold when the dust has settled, from the records, the logs and the process table."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections import defaultdict
from typing import Any

from tests.chaos.decoys import Decoys
from tests.chaos.injector import Injector
from tests.chaos.witness import Witness
from tests.chaos.world import Command, World, is_live
from tests.e2e.processes import named

CODES = (0, 1, 3, 5, 6)
OUTCOMES = {
    "auto_approved": 0,
    "answered_above": None,
    "auto_denied": 1,
    "answered": None,
    "unavailable": 4,
    "undecidable": 4,
    "inbox_full": 4,
    "expired": 4,
    "malformed": 4,
    "misaddressed": 4,
    "cycle": 4,
    "abandoned": 4,
}
"""Events that are an outcome, and the code of `ask` that goes with each; None: the event's `approved` says it."""
Found = dict[str, list[str]]


class Judge:
    """Asked twice: once everything is calm, and again after the final stop."""

    def __init__(
        self,
        world: World,
        injector: Injector,
        witness: Witness,
        decoys: Decoys,
        *,
        lock_wait_s: float = 5,
        end_wait_s: float = 30,
    ) -> None:
        self._world, self._injector, self._witness, self._decoys = world, injector, witness, decoys
        self._lock_wait_s, self._end_wait_s = lock_wait_s, end_wait_s
        self.lost_by_design: set[str] = set()

    def calm(self) -> Found:
        """Everything that can be judged while the agents live."""
        records, processes = self._witness.look()
        by_id = {r["entryId"]: r for r in records}
        lost, unrecorded = [], []
        for entry_id, last in self._witness.entries.items():
            record = by_id.get(entry_id)
            if record is None and entry_id in self._injector.torn and not self._kept(last):
                self.lost_by_design.add(entry_id)
            elif record is None:
                lost.append(f"{last['name']} {entry_id} is gone, last seen {last['state']['status']}")
            elif not self._accounted(record):
                lost.append(f"{last['name']} {entry_id}: {json.dumps(record['state'])[:200]}")
        for proc in processes.values():
            entry_id = proc.env.get("SUPERVISOR_ENTRY_ID", "")
            record = by_id.get(entry_id)
            if not proc.is_agent or entry_id in self.lost_by_design:
                continue
            key = ((record or {}).get("generation", {}).get("process") or {}).get("key", {})
            if record is None or not is_live(record) or key.get("pid") != proc.pid:
                status = record["state"]["status"] if record else "not on record"
                unrecorded.append(f"pid {proc.pid} {entry_id} ({status}, pid on record {key.get('pid')})")
        return {
            "doubled agents": sorted(self._witness.doubled),
            "lost hand-offs": lost,
            "unrecorded live agents": unrecorded,
            "stuck locks": self._locks(),
            "asks without one outcome": self._asks(),
            "commands that hung or ended wrongly": self._commands(),
            "torn records that block others": self._blocked(),
        }

    def _kept(self, last: dict[str, Any]) -> bool:
        """Whether somebody still had it in hand, and would have written it again."""
        return is_live(last) and self._world.lives(last["keeper"]["process"])

    def _accounted(self, record: dict[str, Any]) -> bool:
        if is_live(record):
            status = record["state"]["status"]
            lives = self._world.lives(record["generation"]["process"])
            return self._world.lives(record["keeper"]["process"]) and (lives or status == "starting")
        return record["state"]["status"] in ("resumable", "closed") and bool(record["state"].get("handOff"))

    def _locks(self) -> list[str]:
        stuck = []
        for path in (self._world.home / "locks").iterdir():
            fd = os.open(path, os.O_RDWR)
            try:
                deadline = time.monotonic() + self._lock_wait_s
                while True:
                    try:
                        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:
                        if time.monotonic() > deadline:
                            stuck.append(path.name)
                            break
                        time.sleep(0.01)
            finally:
                os.close(fd)
        return stuck

    def _asks(self) -> list[str]:
        events: dict[str, list[dict[str, Any]]] = defaultdict(list)
        ids: dict[str, str] = {}
        for name in ("asks.jsonl.1", "asks.jsonl"):
            path = self._world.home / "logs" / name
            for line in path.read_text().splitlines() if path.exists() else ():
                event = json.loads(line)
                if event.get("ask"):
                    events[event["ask"]].append(event)
                if event.get("tool"):
                    ids[event["tool"]] = event["ask"]
        wrong = []
        for tool, command in self._injector.asked.items():
            code = command.process.poll()
            ask = ids.get(tool, "")
            told = [_code(e) for e in events[ask] if e["event"] in OUTCOMES]
            fine = code in (0, 1, 4) and (code in told or ask in self._injector.torn_asks)
            if not fine or (0 in told and 1 in told):
                what = [f"{e['event']} {e.get('code', '')}" for e in events[ask]]
                wrong.append(f"{tool} ended with {code}, {ask}: {what} {command.output()[-300:]}")
        return wrong

    def _commands(self) -> list[str]:
        wrong = []
        for command in (*self._injector.done, *self._injector.commands, *self._injector.asked.values()):
            code = command.process.poll()
            if command.hit:
                continue
            allowed = (0, 1, 4) if command.words[0] == "ask" else CODES
            if code not in allowed or "Traceback" in command.output():
                wrong.append(_told(command, code))
        log = self._world.home / "logs" / "keepers.log"
        text = log.read_text(errors="replace") if log.exists() else ""
        return wrong + [f"keepers.log: {text[at : at + 1500]}" for at in [text.find("Traceback")] if at >= 0]

    def _blocked(self) -> list[str]:
        wrong = []
        for words in (
            ("ps", "--all", "--json"),
            ("reconcile",),
            ("launch", "--detach", "demo", "--prompt", "SLEEP: 9"),
        ):
            code, out = self._world.run(*words)
            if code != 0:
                wrong.append(f"{words[0]} ended with {code}: {out[-400:]}")
        _, out = self._world.run("doctor", "--json")
        wrong += [
            f"doctor tells nothing of {p.name}" for p in self._world.matrix.glob("*.corrupt") if p.name not in out
        ]
        return wrong

    def final(self) -> Found:
        """Stop everything, and see what is left."""
        ids = [r["entryId"] for r in self._world.records() if is_live(r)]
        code, out = self._world.run("stop", "--cascade", "--grace", "1", *ids) if ids else (0, "")
        deadline = time.monotonic() + self._end_wait_s
        while (left := self._left()) and time.monotonic() < deadline:
            self._injector.reap()
            time.sleep(0.1)
        survivors = [named([p]) for p in left] + ([f"stop ended with {code}: {out[-600:]}"] if code else [])
        for proc in self._world.processes().values():  # those that are lost by design
            self._world.signal(proc.pid, proc.start, 9)  # type: ignore[arg-type]
        self._world.clock_ms = 3_600_000  # temp files are swept when they are a minute old
        self._world.run("doctor")
        temps = [str(p) for p in self._world.home.rglob(".*.tmp")]
        return {
            "signals to strangers": self._decoys.heard(),
            "survivors of the final stop": survivors,
            "temp files of dead writers": temps,
        }

    def _left(self) -> list[int]:
        lost = self.lost_by_design
        return [p.pid for p in self._world.processes().values() if p.env.get("SUPERVISOR_ENTRY_ID") not in lost]


def _code(event: dict[str, Any]) -> int:
    code = OUTCOMES[event["event"]]
    return code if code is not None else (0 if event.get("approved") else 1)


def _told(command: Command, code: int | None) -> str:
    how = "hung" if code is None else f"ended with {code}"
    return f"{' '.join(command.words)} {how} after {time.monotonic() - command.began:.0f} s: {command.output()[-1500:]}"
