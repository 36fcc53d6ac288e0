"""What is true about an ask right now: who serves, who attends, whether its asker lives, which authority is on record.

Reads only; used by the serving side and by the views.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from supervisor.adapters.approval_files import ApprovalFiles
from supervisor.adapters.ask_files import AskFiles
from supervisor.adapters.inbox_files import ALL_SESSIONS, DECIDES, InboxFiles
from supervisor.adapters.review_log import ReviewLog
from supervisor.core.answering import Mode, Presence
from supervisor.core.ask_wire import Request
from supervisor.core.entry import Entry
from supervisor.core.identity import ProcessKey, Seen, Unreadable
from supervisor.core.ids import encode
from supervisor.core.liveness import Now
from supervisor.core.rules import Authority, Rule
from supervisor.core.serving import Here, Judgement, ServingBeat, judge, parse_beat
from supervisor.runtime.asking import MAX_SERVING_TOLD, evidence
from supervisor.runtime.parts import Parts


def here_of(now: Now) -> Here:
    """The observer, for what the children's side shares."""
    machine = now.machine
    return Here(machine.host_id, machine.boot_id, machine.pid_namespace, now.wall_ms, now.monotonic_ns)


class AskSettings(Struct, frozen=True, kw_only=True):
    """The settings of asks, read live."""

    mode: Mode = "attended"
    rules: tuple[Rule, ...] = ()
    timeout_ms: int = 600_000
    notify: tuple[str, ...] = ()
    popup: bool = False


class AskParts(Struct, frozen=True, kw_only=True):
    """What serving needs besides the keeper's own parts."""

    files: AskFiles
    approvals: ApprovalFiles
    inboxes: InboxFiles
    review: ReviewLog
    settings: Callable[[], AskSettings]


class AskFacts:
    """Looks at files and processes for the asks of one state root."""

    def __init__(self, parts: Parts, asks: AskParts) -> None:
        self._parts = parts
        self._asks = asks
        self._parents: dict[str, bool] = {}
        self._askers: tuple[int, dict[int, Seen]] = (0, {})

    def serving(self, session_id: str, now: Now) -> Judgement:
        """Whether a session serves, by its heartbeat and identity."""
        return self.judge(self.beat_of(session_id), now)

    def forget_parents(self) -> None:
        """A new beat: parents are judged again, each once."""
        self._parents.clear()

    def _parent_serves(self, session_id: str, now: Now) -> bool:
        if session_id not in self._parents:
            self._parents[session_id] = self.serving(session_id, now).answer == "serving"
        return self._parents[session_id]

    def beat_of(self, session_id: str) -> ServingBeat | None:
        """A session's serving heartbeat."""
        data = self._asks.files.read_beat(session_id)
        return parse_beat(data) if data else None

    def judge(self, beat: ServingBeat | None, now: Now) -> Judgement:
        """Judge any mark of the same form."""
        return judge("entry", beat=beat, ticks=self._ticks(beat.pid) if beat else None, here=here_of(now))

    def evidence(self, seen: Judgement | None) -> dict[str, object]:
        """How a target was judged, and who serves, for the log."""
        return evidence(seen, self._asks.files.serving_sessions(MAX_SERVING_TOLD))

    def attended(self, now: Now) -> set[str]:
        """The sessions (or `*`, or trees) that somebody has an inbox open for, and those that a program decides for."""
        marks = self._asks.inboxes.marks()
        return {m.session_id for m in marks if self.judge(m, now).answer == "serving"}

    def has_inbox(self, entry: Entry, persons: set[str]) -> bool:
        """Whether an inbox is open for a session."""
        return bool(persons & {ALL_SESSIONS, entry.session_id, entry.tree or ALL_SESSIONS})

    def presence(self, entry: Entry, persons: set[str], now: Now, *, on_terminal: bool) -> Presence:
        """Who could decide for a session."""
        person = self.has_inbox(entry, persons) or (on_terminal and entry.terminal.kind != "detached")
        parent = entry.parent.session_id if entry.parent else entry.session_id
        return Presence(
            person=person,
            program=f"{DECIDES}{entry.session_id}" in persons,
            parent=parent != entry.session_id and self._parent_serves(parent, now),
        )

    def claim(self, session_id: str, ask_id: str, now: Now) -> ServingBeat | None:
        """Who looks at an ask right now."""
        data = self._asks.files.read_claim(session_id, ask_id)
        claim = parse_beat(data) if data else None
        return claim if claim is not None and self.judge(claim, now).answer == "serving" else None

    def requester_dead(self, request: Request, now: Now) -> bool:
        """Provably gone; an asker that says nothing of its process is taken at its word."""
        process = request.ours.get("process")
        if not isinstance(process, Mapping):
            return False
        machine = now.machine
        if process.get("hostId") != machine.host_id:
            return False
        boot, pid, ticks = process.get("bootId"), process.get("pid"), process.get("startTicks")
        if not boot or not isinstance(pid, int) or not isinstance(ticks, int):
            return False  # it could not tell itself
        if boot != machine.boot_id:
            return True
        if process.get("pidNamespace") != machine.pid_namespace:
            return False
        seen = self._seen_of_asker(pid, now)
        return not isinstance(seen, Unreadable) and _ticks_of(seen) != ticks

    def lineage(self, entry: Entry, rules: tuple[Rule, ...]) -> list[Authority]:
        """Who decides, from this session up to the root, by what is on record."""
        chain: list[Authority] = []
        seen: set[str] = set()
        at: Entry | None = entry
        while at is not None and at.session_id not in seen:
            seen.add(at.session_id)
            own = (*rules, *at.plan.asks_rules)
            approvals = self._asks.approvals.of(at.session_id)
            chain.append(Authority(session_id=at.session_id, rules=own, approvals=approvals))
            at = self.entry_of(at.parent.session_id) if at.parent else None
        return chain

    def lineage_of(self, session_id: str, rules: tuple[Rule, ...]) -> list[Authority]:
        """The same by a session's id; of one that is not on record, the rules of all."""
        entry = self.entry_of(session_id)
        return self.lineage(entry, rules) if entry else [Authority(session_id=session_id, rules=rules)]

    def alive(self, pid: int) -> bool:
        """Whether a pid runs (only to sweep what dead writers left)."""
        return self._ticks(pid) is not None

    def entry_of(self, session_id: str) -> Entry | None:
        """A session's record, None where it has none."""
        for role in ("worker", "master"):
            entry = self._parts.store.read(f"{role}-{encode(session_id)}")
            if entry is not None:
                return entry
        return None

    def _seen_of_asker(self, pid: int, now: Now) -> Seen:
        """Looked at once for each `now`: ten thousand asks may be one process's."""
        at, known = self._askers
        if at != now.monotonic_ns:
            self._askers = (now.monotonic_ns, known := {})
        if pid not in known:
            known[pid] = self._parts.processes.probe(pid)
        return known[pid]

    def _ticks(self, pid: int) -> int | None:
        return _ticks_of(self._parts.processes.probe(pid))


def _ticks_of(seen: Seen) -> int | None:
    return seen.start_ticks if isinstance(seen, ProcessKey) else None
