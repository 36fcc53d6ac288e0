"""Whether a session serves its asks: one judge for all sources of a target. Pure, standard library only.

`registry` (in-process) is judged by the registry, `env` and `entry` by heartbeat and identity, `self` not at all.
"""

from __future__ import annotations

import json
from typing import Literal, NamedTuple

from supervisor.core.timing import HEARTBEAT_STALE_MS, MS

Source = Literal["registry", "env", "entry", "self"]
Channel = Literal["registry", "heartbeat", "process", "none"]
"""By what a target was judged; `process`: a pi that writes no heartbeat, by its process and what it takes up."""
State = Literal["alive", "absent", "stale", "dead_pid", "unknown"]
Answer = Literal["serving", "not_serving", "not_judgeable"]


class Target(NamedTuple):
    """Where an ask goes, and how that was learned.

    `folder`: a pi that was not launched by us takes it there; then `process` is its pid and start ticks, if known.
    """

    session_id: str
    source: Source
    folder: str | None = None
    process: tuple[int, int] | None = None


class ServingBeat(NamedTuple):
    """A serving heartbeat: pi's three fields, and ours where a supervisor wrote it (else None). Times in ms, ns.

    `since` (epoch ms) is a claim's: when somebody began to look.
    """

    session_id: str
    pid: int
    updated_at: float
    start_ticks: int | None = None
    boot_id: str | None = None
    host_id: str | None = None
    pid_namespace: int | None = None
    monotonic_ns: int | None = None
    keeper_id: str | None = None
    since: int | None = None


class Here(NamedTuple):
    """The observer: its machine and clocks."""

    host_id: str
    boot_id: str
    pid_namespace: int
    wall_ms: int
    monotonic_ns: int


class Judgement(NamedTuple):
    """The answer and what was seen; `age_ms` of the last heartbeat where there is one."""

    answer: Answer
    channel: Channel
    state: State
    age_ms: int | None = None


def parse_beat(data: bytes) -> ServingBeat | None:
    """A serving heartbeat; anything malformed reads as absent, as it does for pi."""
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict):
        return None
    session, pid, updated = raw.get("sessionId"), _whole(raw.get("pid")), raw.get("updatedAt")
    if not isinstance(session, str) or not session or pid is None or pid <= 0:
        return None
    if isinstance(updated, bool) or not isinstance(updated, int | float) or not abs(updated) < 2**63:
        return None
    return ServingBeat(
        session_id=session,
        pid=pid,
        updated_at=updated,
        start_ticks=_whole(raw.get("startTicks")),
        boot_id=raw["bootId"] if isinstance(raw.get("bootId"), str) else None,
        host_id=raw["hostId"] if isinstance(raw.get("hostId"), str) else None,
        pid_namespace=_whole(raw.get("pidNamespace")),
        monotonic_ns=_whole(raw.get("monotonicNs")),
        keeper_id=raw["keeperId"] if isinstance(raw.get("keeperId"), str) else None,
        since=_whole(raw.get("since")),
    )


def encode_beat(beat: ServingBeat) -> bytes:
    """The record with numbers of fixed width, so that rewriting it in place never tears it."""
    since = f',"since":{beat.since}' if beat.since is not None else ""
    return (
        f'{{"sessionId":{json.dumps(beat.session_id)},"pid":{beat.pid:>10},"updatedAt":{int(beat.updated_at):>16},'
        f'"startTicks":{beat.start_ticks or 0:>20},"bootId":{json.dumps(beat.boot_id)},'
        f'"hostId":{json.dumps(beat.host_id)},"pidNamespace":{beat.pid_namespace or 0:>12},'
        f'"monotonicNs":{beat.monotonic_ns or 0:>20},"keeperId":{json.dumps(beat.keeper_id)}{since}}}\n'
    ).encode()


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


def judge(
    source: Source, *, registered: bool = False, beat: ServingBeat | None = None, ticks: int | None = None, here: Here
) -> Judgement:
    """Judge a target. `ticks` are the start ticks of the beat's pid as it runs now (None: gone or a zombie)."""
    if source == "self":
        return Judgement("not_judgeable", "none", "unknown")
    if source == "registry":
        return Judgement("serving" if registered else "not_serving", "registry", "alive" if registered else "absent")
    if beat is None:
        return Judgement("not_serving", "heartbeat", "absent")
    age = _age(beat, here)
    if _dead(beat, ticks, here):
        return Judgement("not_serving", "heartbeat", "dead_pid", None if age is None else int(age))
    if age is None:  # a beat from the future is no evidence of life
        return Judgement("not_serving", "heartbeat", "unknown")
    if age >= HEARTBEAT_STALE_MS:
        return Judgement("not_serving", "heartbeat", "stale", int(age))
    return Judgement("serving", "heartbeat", "alive", int(age))


def _age(beat: ServingBeat, here: Here) -> float | None:
    if beat.monotonic_ns is not None and (beat.host_id, beat.boot_id) == (here.host_id, here.boot_id):
        return max(here.monotonic_ns - beat.monotonic_ns, 0) / MS
    age = here.wall_ms - beat.updated_at
    return age if age >= 0 else None


def _dead(beat: ServingBeat, ticks: int | None, here: Here) -> bool:
    """Certainly not running. Of another host or pid namespace nothing is certain."""
    if beat.host_id is None:  # pi's own record: a pid on this host, as far as anybody can know
        return ticks is None
    if beat.host_id != here.host_id:
        return False
    if beat.boot_id != here.boot_id:
        return True
    return beat.pid_namespace == here.pid_namespace and ticks != beat.start_ticks
