"""Why an ask waits, or how it ended, in words for people: from inboxes, marks and the review log. Reads only."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from supervisor.core.ask_wire import hops_of
from supervisor.core.entry import Entry, is_live
from supervisor.core.errors import NotFound
from supervisor.core.text import one_line, span
from supervisor.runtime.ask_facts import AskFacts, AskParts
from supervisor.runtime.deciding import Desk, Pending, lineage
from supervisor.runtime.parts import Parts

MOST = 3
"""So many asks of one agent are explained; the rest is counted."""

_DECIDED = frozenset({"answered", "answered_above", "auto_approved", "auto_denied", "decided"})
_UNDECIDED = frozenset(
    {"abandoned", "unavailable", "undecidable", "expired", "malformed", "misaddressed", "cycle", "gate_error"}
)


class Explained(Struct, frozen=True):
    """One ask: whether it waits, how it ended (`gone`: no answer is on record), and why."""

    ask: str
    state: Literal["waiting", "allowed", "denied", "undecided", "gone"]
    why: str


class AskWhy:
    """Explains the asks of one state root, as they are now."""

    def __init__(self, parts: Parts, asks: AskParts, entries: Sequence[Entry]) -> None:
        self._parts, self._asks, self._entries = parts, asks, entries
        self._facts, self._desk = AskFacts(parts, asks), Desk(parts, asks)
        self._now = parts.now()

    def ask(self, wanted: str) -> Explained:
        """The ask that an id or a unique prefix names, waiting or ended.

        Raises:
            NotFound: none, or several.
        """
        try:
            return self.waiting(self._desk.find(wanted))
        except NotFound as problem:
            if problem.fields.get("several"):
                raise
            events = [e for e in self._asks.review.read(wanted) if str(e.get("ask", "")).startswith(wanted)]
            ids = sorted({str(e["ask"]) for e in events})
            if not ids:
                raise problem
            if wanted not in ids and len(ids) > 1:
                raise NotFound(f"{one_line(wanted, 60)!r} is ambiguous: {', '.join(ids[:10])}") from None
            chosen = wanted if wanted in ids else ids[0]
            return self._ended(chosen, [e for e in events if e["ask"] == chosen])

    def of_agent(self, entry: Entry) -> list[str]:
        """What an agent waits for, what waits for it, and its last ask that nobody decided: a sentence or two each."""
        session = entry.session_id
        pending = self._desk.pending() if is_live(entry) else []
        own = [p for p in pending if p.request.requester == session]
        out = [self.waiting(p).why for p in own[:MOST]]
        if len(own) > MOST:
            out.append(f"{len(own) - MOST} more asks of it wait.")
        below = sum(p.session_id == session and p.request.requester != session for p in pending)
        if below:
            out.append(f"{below} ask{'s' * (below > 1)} of others wait{'s' * (below == 1)} in its inbox.")
        return out or self._last_undecided(session)

    def waiting(self, item: Pending) -> Explained:
        """Where it waits, for whom, how long still, and what to do."""
        request, here = item.request, self._name(item.session_id)
        hops = [self._name(h) for h in hops_of(request)]
        by_way = f", by way of {' > '.join(hops)}" if hops else ""
        who = " > ".join(lineage(self._entries, request))
        what = f"{request.surface or 'a tool'} {one_line(request.value or request.message, 100)}"
        text = [f"{who} asks to use {what} since {span(item.age_ms)} ({request.id}). It waits at {here}{by_way}."]
        seen = self._facts.serving(item.session_id, self._now)
        if item.asker_dead:
            text.append("Its asker is gone, nobody needs an answer any more.")
        elif seen.answer == "not_serving":
            age = f", last heartbeat {span(seen.age_ms)} ago" if seen.age_ms is not None else ""
            text.append(
                f"{here} is not serving ({seen.state}{age}): the asker gives up when that lasts 2 s on end. To have it "
                f"decided, attend: supervisor inbox {here}."
            )
        else:
            text.append(self._patience(item))
            text.append(f"To decide: supervisor inbox, or supervisor answer {request.id} allow|deny.")
        return Explained(request.id, "waiting", " ".join(text))

    def _patience(self, item: Pending) -> str:
        if item.looked_by is not None:
            since = item.looked_by.since
            at = f" since {local_time(since)}" if since is not None else ""
            return f"Somebody looks at it{at} (pid {item.looked_by.pid}); its timeout waits."
        left = self._asks.settings().timeout_ms - item.age_ms
        return f"Nobody looks at it; in {span(left)} it is refused as undecided."

    def _last_undecided(self, session: str) -> list[str]:
        last = None
        for event in self._asks.review.read(session):
            if event.get("requester") == session:
                last = event if event.get("event") in _UNDECIDED else None if event.get("event") in _DECIDED else last
        if last is None:
            return []
        ended = self._ended(str(last.get("ask")), [last])
        return [f"Its last ask was decided by nobody: {ended.why} More: supervisor why {ended.ask}."]

    def _ended(self, ask: str, events: Sequence[Mapping[str, Any]]) -> Explained:
        last = next((e for e in reversed(events) if e.get("event") in _DECIDED | _UNDECIDED), None)
        if last is None:
            why = "It was withdrawn, or its asker was killed: no answer is on record."
            return Explained(ask, "gone", f"{_way(events, self._name)} {why}")
        about = _way(events, self._name) if len(events) > 1 else f"{local_time(last.get('at'))}:"
        if last["event"] in _DECIDED:
            allowed = last.get("approved") is True
            said = f": {one_line(str(last['reason']), 300)}" if last.get("reason") else ""
            why = f"{'Allowed' if allowed else 'Denied'} by {_decider(last.get('by'))}{said}."
            return Explained(ask, "allowed" if allowed else "denied", f"{about} {why}")
        reason = last.get("reason") or "no reason is on record"
        return Explained(ask, "undecided", f"{about} Nobody decided: {one_line(str(reason), 600)}.{_evidence(events)}")

    def _name(self, session: str) -> str:
        found = next((e.name for e in self._entries if e.session_id == session), None)
        return found or one_line(session, 60)


def _way(events: Sequence[Mapping[str, Any]], name: Any) -> str:
    """Who asked for what when, and by way of whom."""
    first = events[0]
    agent, tool = one_line(str(first.get("agent", "somebody")), 60), one_line(str(first.get("tool", "a tool")), 60)
    to = [name(str(e["to"])) for e in events if e.get("event") == "escalated" and e.get("to")]
    route = f", passed on to {' > '.join(to)}" if to else ""
    return f"{agent} asked {name(str(first.get('session', '')))} at {local_time(first.get('at'))} to use {tool}{route}."


def _decider(by: object) -> str:
    if not isinstance(by, Mapping):
        return "somebody"
    kind = by.get("kind")
    if kind == "forwarded":
        return _decider(by.get("decision"))
    if kind == "rule":
        return one_line(f"the rule {by.get('surface')} {by.get('pattern')} of {by.get('origin')}", 200)
    if kind == "session_approval":
        return one_line(f"what is remembered: {by.get('surface')} {by.get('pattern')}", 200)
    return one_line(str(by.get("who") or by.get("name") or kind or "somebody"), 60)


def _evidence(events: Sequence[Mapping[str, Any]]) -> str:
    seen = next((e for e in reversed(events) if e.get("channel")), None)
    if seen is None:
        return ""
    serving = seen.get("serving")
    names = ", ".join(one_line(str(s), 60) for s in serving) if isinstance(serving, list) and serving else "nobody"
    age = seen.get("heartbeatAgeMs")
    beat = f", its last heartbeat {span(age)} old" if isinstance(age, int) else ""
    return f" Seen by {seen['channel']}: {seen.get('state')}{beat}; with a serving heartbeat then: {names}."


def local_time(at: object) -> str:
    """A time of the log (Unix milliseconds) for people, in their time zone."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at / 1000))  # type: ignore[operator]
    except (TypeError, ValueError, OverflowError, OSError):  # a strange line in the log
        return "some time"
