"""Observe → decide → act over the whole matrix: judge every entry, carry out the reconcile plan. Never signals.

Every master activation, `reconcile`, `up`, `launch` and `watch` start with it; what it finds without a keeper is handed
back to be attached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from supervisor.adapters.driver_box import DriverBox
from supervisor.core.entry import Entry, is_live
from supervisor.core.identity import Seen
from supervisor.core.liveness import Beat, Judgement, Sighting, beat_age_ms, judge, process_alive, watched
from supervisor.core.reconcile import Action, Attach, Change, Remove, reconcile
from supervisor.core.timing import MS
from supervisor.runtime.parts import Parts


class Scan(Struct, frozen=True):
    """What was on record and what it was worth at one moment."""

    entries: Sequence[Entry]
    judgements: Mapping[str, Judgement]
    beats: Mapping[str, Beat | None]


class Done(Struct, frozen=True):
    """What a reconcile did: changes made, and live agents that need a keeper."""

    changed: tuple[Change | Remove, ...]
    attach: tuple[Attach, ...]


Sightings = dict[str, Sighting]
"""What one long-running observer remembers of each keeper, by keeper id."""


def scan(parts: Parts, sightings: Sightings | None = None) -> Scan:
    """Read and judge everything, each process and heartbeat looked at once.

    With `sightings` staleness is measured in misses that this observer has seen itself: what it slept through, as the
    others may have, proves nothing.
    """
    entries = parts.store.list()
    beats: dict[str, Beat | None] = {}
    for entry in entries:
        keeper = entry.keeper.keeper_id
        if is_live(entry) and keeper not in beats:
            beats[keeper] = _seen(parts, parts.beats.read(keeper), sightings)
    return Scan(entries, judge_all(parts, entries, beats), beats)


def _seen(parts: Parts, beat: Beat | None, sightings: Sightings | None) -> Beat | None:
    if beat is None or sightings is None:
        return beat
    now = parts.now()
    age = beat_age_ms(beat, now)
    if age is None:
        return beat
    before = sightings.get(beat.keeper_id)
    seen = sightings[beat.keeper_id] = watched(before, beat=beat.beat, now_ns=now.monotonic_ns, age_ms=age)
    silent = int(min(age, seen.silent_ms) * MS)
    return replace(beat, monotonic_ns=now.monotonic_ns - silent, updated_at=now.wall_ms - silent // MS)


def judge_all(parts: Parts, entries: Sequence[Entry], beats: Mapping[str, Beat | None]) -> dict[str, Judgement]:
    """The verdict on every entry, by entry id."""
    now = parts.now()
    seen: dict[int, Seen] = {}

    def probe(pid: int | None) -> Seen | None:
        if pid is None:
            return None
        if pid not in seen:
            seen[pid] = parts.processes.probe(pid)
        return seen[pid]

    out = {}
    for entry in entries:
        live = is_live(entry)
        process = entry.generation.process
        out[entry.entry_id] = judge(
            entry,
            agent=probe(process.key.pid) if live and process else None,
            keeper=probe(entry.keeper.process.key.pid) if live else None,
            beat=beats.get(entry.keeper.keeper_id),
            now=now,
        )
    return out


def alive(parts: Parts, entry: Entry) -> bool | None:
    """Whether the recorded process of an entry lives, whatever its state says; None when it cannot be judged."""
    ref = entry.generation.process
    return process_alive(ref, parts.processes.probe(ref.key.pid) if ref else None, parts.now())


def plan(parts: Parts, seen: Scan) -> tuple[Action, ...]:
    """The pure plan for what was seen."""
    return reconcile(
        seen.entries,
        judgements=seen.judgements,
        boot_id=parts.processes.machine().boot_id,
        now=parts.clock.wall_ms(),
    )


def carry_out(parts: Parts, actions: Sequence[Action]) -> Done:
    """Make the record changes that still apply; attaching is the caller's (it needs a keeper)."""
    changed: list[Change | Remove] = []
    for action in actions:
        if isinstance(action, Change):
            if isinstance(parts.store.replace_if_unchanged(action.entry, action.after), Entry):
                changed.append(action)
        elif isinstance(action, Remove) and parts.store.remove_if_unchanged(action.entry):
            parts.transcripts.remove(action.entry.entry_id)
            if action.entry.plan.driven:
                DriverBox(parts.home, action.entry.entry_id).remove()
            parts.proofs.remove(action.entry.entry_id)
            changed.append(action)
    parts.store.sync()
    return Done(tuple(changed), tuple(a for a in actions if isinstance(a, Attach)))
