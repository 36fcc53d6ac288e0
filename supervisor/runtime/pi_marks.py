"""Who serves an id in pi's own folder: our marks there, those of other keepers, and real pi sessions. Owns our marks.

Several keepers may have children that ask under one id: one of them holds its mark, the others leave it alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from supervisor.adapters.ask_files import AskFiles
from supervisor.core.entry import Entry, KeeperRef, is_live
from supervisor.core.identity import ProcessKey, ProcessRef, same_process
from supervisor.core.liveness import Now
from supervisor.core.serving import encode_beat, parse_beat
from supervisor.runtime.ask_facts import AskFacts
from supervisor.runtime.logs import warn
from supervisor.runtime.parts import Parts
from supervisor.runtime.serving_marks import serving_beat


class Child(Struct):
    """A pi agent of this keeper: its folder, and the id under which it asks there."""

    entry: Entry
    files: AskFiles
    asked: str
    stamp: int = -1
    stands_back: bool = False

    @property
    def target(self) -> str:
        """Whom it is to ask: its parent on record, which may have changed since its start, else its own session."""
        parent = self.entry.parent
        return parent.session_id if parent else self.entry.session_id


class PiMarks:
    """The serving heartbeats that one keeper has in pi's folders."""

    def __init__(self, parts: Parts, keeper: KeeperRef, facts: AskFacts) -> None:
        self._parts = parts
        self._keeper = keeper
        self._facts = facts
        self._marks: dict[tuple[str, str], AskFiles] = {}

    def renew(self, children: Iterable[Child], now: Now) -> None:
        """A mark for each id that is asked, while whom it is passed on to serves; the others come down."""
        wanted: dict[tuple[str, str], AskFiles] = {}
        for child in children:
            where = (child.files.root, child.asked)
            if child.stands_back or where in wanted:
                continue
            if self._facts.serving(child.target, now).answer == "serving" and not self.of_another(child, now):
                wanted[where] = child.files
        for where in set(self._marks) - set(wanted):
            self._marks[where].stop_serving(where[1])
        for (root, asked), files in wanted.items():
            try:
                files.beat(asked, encode_beat(serving_beat(asked, self._keeper, now)))
            except OSError as error:
                warn("pi's folder takes no serving heartbeat", folder=root, why=str(error))
        self._marks = wanted

    def of_another(self, child: Child, now: Now) -> bool:
        """Whether somebody else serves this id there: a sibling's keeper, or pi itself."""
        data = child.files.read_beat(child.asked)
        beat = parse_beat(data) if data else None
        if beat is None or beat.keeper_id == self._keeper.keeper_id:
            return False
        return self._facts.judge(beat, now).answer == "serving"

    def served_by_pi(self, child: Child, now: Now) -> bool:
        """Whether the session that it asks is a real pi with a person before it: then the two speak by themselves."""
        data = child.files.read_beat(child.asked)
        beat = parse_beat(data) if data else None
        if beat is not None and beat.keeper_id is None and self._facts.judge(beat, now).answer == "serving":
            return True
        parent = child.entry.parent
        if parent is None or parent.session_id != child.asked:
            return False
        if parent.asks_folder is not None:
            return parent.asks_folder == child.files.root and self._runs(parent.process)
        above = self._facts.entry_of(parent.session_id)
        if above is None or not has_screen(above):
            return False
        return above.plan.asks_folder == child.files.root and self._runs(above.generation.process)

    def _runs(self, process: ProcessRef | None) -> bool:
        if process is None:
            return False
        seen = self._parts.processes.probe(process.key.pid)
        return isinstance(seen, ProcessKey) and same_process(process.key, seen)


def asks_by_files(entry: Entry) -> bool:
    """Whether it is a running agent that writes its asks into a folder of its own CLI: one without a screen."""
    return _runs_with_folder(entry) and entry.plan.mode == "headless"


def has_screen(entry: Entry) -> bool:
    """Whether it is a running agent that takes asks from a folder of its own CLI: a person sits before it."""
    return _runs_with_folder(entry) and entry.plan.mode == "interactive"


def _runs_with_folder(entry: Entry) -> bool:
    return is_live(entry) and entry.generation.process is not None and entry.plan.asks_folder is not None
