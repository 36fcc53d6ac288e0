"""What an observer may conclude about an agent: a verdict with its evidence. Design §4 as code.

Pure: the caller has looked at the process table and the heartbeat; nothing here can look again.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from supervisor.core.entry import Entry, KeeperRef, is_live
from supervisor.core.identity import Gone, Machine, ProcessRef, Seen, Unreadable, same_process
from supervisor.core.text import span
from supervisor.core.timing import HEARTBEAT_REFRESH_MS, HEARTBEAT_STALE_MS, MS


class Verdict(StrEnum):
    """`unknown` authorises nothing: no adoption, no relaunch, no signal."""

    ALIVE = "alive"
    ABSENT = "absent"
    STALE = "stale"
    DEAD_PID = "dead_pid"
    UNKNOWN = "unknown"


class Beat(Struct, frozen=True, kw_only=True, rename="camel"):
    """A heartbeat file: who beats, the how-manieth beat, and when (epoch ms and system-wide monotonic ns)."""

    keeper_id: str
    pid: int
    start_ticks: int
    boot_id: str
    host_id: str
    beat: int
    updated_at: int
    monotonic_ns: int


class Judgement(Struct, frozen=True):
    """A verdict and the one line of evidence behind it. `keeper_gone`: the agent's keeper is certainly dead."""

    verdict: Verdict
    evidence: str
    keeper_gone: bool = False


class Now(Struct, frozen=True):
    """The observer: its machine and both clocks."""

    machine: Machine
    wall_ms: int
    monotonic_ns: int


def next_beat(keeper: KeeperRef, beat: int, now: Now) -> Beat:
    """A heartbeat of a keeper as of now; `beat` counts them from 1."""
    return Beat(
        keeper_id=keeper.keeper_id,
        pid=keeper.process.key.pid,
        start_ticks=keeper.process.key.start_ticks,
        boot_id=now.machine.boot_id,
        host_id=now.machine.host_id,
        beat=beat,
        updated_at=now.wall_ms,
        monotonic_ns=now.monotonic_ns,
    )


def comparable(there: Machine, here: Machine) -> bool:
    """Whether a pid recorded `there` means the same process `here`."""
    return there == here


def beat_age_ms(beat: Beat, now: Now) -> float | None:
    """Milliseconds since the beat, by the monotonic clock within one boot, else by the wall clock.

    None when the wall clock says that the beat lies in the future: that is no evidence of life.
    """
    if (beat.host_id, beat.boot_id) == (now.machine.host_id, now.machine.boot_id):
        return max(now.monotonic_ns - beat.monotonic_ns, 0) / MS
    age = now.wall_ms - beat.updated_at
    return float(age) if age >= 0 else None


def process_alive(ref: ProcessRef | None, seen: Seen | None, now: Now) -> bool | None:
    """True alive, False certainly gone, None when it cannot be judged by pid."""
    if ref is None:
        return None
    if ref.machine.host_id == now.machine.host_id and ref.machine.boot_id != now.machine.boot_id:
        return False
    if not comparable(ref.machine, now.machine) or seen is None or isinstance(seen, Unreadable):
        return None
    return not isinstance(seen, Gone) and same_process(ref.key, seen)


def judge(entry: Entry, *, agent: Seen | None, keeper: Seen | None, beat: Beat | None, now: Now) -> Judgement:
    """The verdict on one entry. `agent` and `keeper` are looks at the recorded pids (None: not looked)."""
    if not is_live(entry):
        return Judgement(Verdict.ABSENT, f"{entry.status}, no process expected")
    keeper_alive = process_alive(entry.keeper.process, keeper, now)
    gone = keeper_alive is False
    ref = entry.generation.process
    if ref is None:
        return _judge_unspawned(keeper_alive)
    alive = process_alive(ref, agent, now)
    if alive is None:
        return _judge_by_beat(ref, beat, now)
    if not alive:
        return Judgement(Verdict.DEAD_PID, _why_dead(ref, agent, now), gone)
    pid = f"pid {ref.key.pid} is the recorded process"
    if gone:
        return Judgement(Verdict.STALE, f"{pid}, but its keeper (pid {entry.keeper.process.key.pid}) is gone", True)
    age = beat_age_ms(beat, now) if beat else None
    if age is None:
        return Judgement(Verdict.STALE, f"{pid}, but its keeper has no heartbeat")
    if age >= HEARTBEAT_STALE_MS:
        return Judgement(Verdict.STALE, f"{pid}, but its keeper has not beaten for {span(age)}")
    return Judgement(Verdict.ALIVE, f"{pid}, beat {span(age)} ago")


def _judge_unspawned(keeper_alive: bool | None) -> Judgement:
    if keeper_alive:
        return Judgement(Verdict.ALIVE, "not spawned yet, its keeper is alive")
    if keeper_alive is False:
        return Judgement(Verdict.DEAD_PID, "no process recorded, and its keeper is gone", True)
    return Judgement(Verdict.UNKNOWN, "not spawned yet, and its keeper cannot be judged from here")


def _judge_by_beat(ref: ProcessRef, beat: Beat | None, now: Now) -> Judgement:
    where = "another pid namespace" if ref.machine.host_id == now.machine.host_id else "another host"
    if ref.machine == now.machine:
        where = "a process that cannot be read"
    age = beat_age_ms(beat, now) if beat else None
    if age is not None and age < HEARTBEAT_STALE_MS:
        return Judgement(Verdict.ALIVE, f"{where}, beat {span(age)} ago")
    if beat is not None and age is None:
        return Judgement(Verdict.UNKNOWN, f"{where}, and its heartbeat lies in the future")
    last = f"last beat {span(age)} ago" if age is not None else "no heartbeat"
    return Judgement(Verdict.UNKNOWN, f"{where}, {last}")


def _why_dead(ref: ProcessRef, seen: Seen | None, now: Now) -> str:
    if ref.machine.boot_id != now.machine.boot_id:
        return f"pid {ref.key.pid} is of an earlier boot"
    if seen is None or isinstance(seen, Gone | Unreadable):
        return f"pid {ref.key.pid} is gone"
    return f"pid {ref.key.pid} now belongs to another process (other start time)"


class Sighting(Struct, frozen=True):
    """What a long-running observer remembers of one beater: the last beat seen, and the misses observed since."""

    beat: int
    looked_ns: int
    silent_ms: float = 0.0


def watched(before: Sighting | None, *, beat: int, now_ns: int, age_ms: float = 0.0) -> Sighting:
    """One more look. A gap between looks counts at most one refresh: what we slept through proves nothing.

    Stale is `silent_ms >= HEARTBEAT_STALE_MS`: SIGSTOP of both sides, laptop sleep, or an observer that was starved
    declare nobody dead.
    """
    if before is None:  # what was missed before the first look is only known by the beat's own age
        return Sighting(beat, now_ns, age_ms)
    if beat != before.beat:
        return Sighting(beat, now_ns)
    gap = min((now_ns - before.looked_ns) / MS, HEARTBEAT_REFRESH_MS)
    return Sighting(beat, now_ns, before.silent_ms + max(gap, 0.0))
