"""Design §4, row by row: what an observer may conclude, and never more."""

import pytest
from msgspec.structs import replace

from supervisor.core.entry import Entry, Generation, Status
from supervisor.core.identity import Gone, Machine, ProcessKey, ProcessRef, Seen, Unreadable, same_process
from supervisor.core.liveness import (
    Beat,
    Judgement,
    Now,
    Sighting,
    Verdict,
    beat_age_ms,
    comparable,
    judge,
    process_alive,
    watched,
)
from supervisor.core.timing import HEARTBEAT_REFRESH_MS, HEARTBEAT_STALE_MS, MS
from supervisor.testing import MACHINE, make_beat, make_entry, make_ref

OTHER_BOOT = replace(MACHINE, boot_id="boot-2")
OTHER_HOST = replace(MACHINE, host_id="host-2")
OTHER_NAMESPACE = replace(MACHINE, pid_namespace=1)
NOW = Now(MACHINE, wall_ms=1_750_000_600_000, monotonic_ns=10_000_000 * MS)
GONE, UNREADABLE = Gone(), Unreadable()
AGENT = ProcessKey(300, 7000)
KEEPER = ProcessKey(200, 6000)
STRANGER = ProcessKey(300, 7001)


def entry_of(machine: Machine = MACHINE, *, inode: int | None = None, status: Status = "running") -> Entry:
    entry = make_entry(status=status)
    agent = ProcessRef(machine, ProcessKey(300, 7000, inode))
    return replace(
        entry,
        generation=replace(entry.generation, process=None if status == "starting" else agent),
        keeper=replace(entry.keeper, process=ProcessRef(machine, KEEPER)),
    )


def beat_of(entry: Entry, *, age_ms: float) -> Beat:
    wall, monotonic = int(NOW.wall_ms - age_ms), int(NOW.monotonic_ns - age_ms * MS)
    return make_beat(entry.keeper, wall_ms=wall, monotonic_ns=monotonic)


def judged(
    entry: Entry, agent: Seen | None = AGENT, *, keeper: Seen | None = KEEPER, age_ms: float | None = 300
) -> Judgement:
    beat = beat_of(entry, age_ms=age_ms) if age_ms is not None else None
    return judge(entry, agent=agent, keeper=keeper, beat=beat, now=NOW)


ROWS = [
    ("the pid is gone", entry_of(), GONE, KEEPER, 300, "dead_pid", False),
    ("the pid is a stranger's now", entry_of(), STRANGER, KEEPER, 300, "dead_pid", False),
    ("same pid and ticks, other pidfd", entry_of(inode=5), ProcessKey(300, 7000, 6), KEEPER, 300, "dead_pid", False),
    ("same pid, ticks and pidfd", entry_of(inode=5), ProcessKey(300, 7000, 5), KEEPER, 300, "alive", False),
    ("a record without pidfd", entry_of(), ProcessKey(300, 7000, 5), KEEPER, 300, "alive", False),
    ("the agent and its keeper are gone", entry_of(), GONE, GONE, 300, "dead_pid", True),
    ("fresh beat", entry_of(), AGENT, KEEPER, 0, "alive", False),
    ("beat just not stale", entry_of(), AGENT, KEEPER, HEARTBEAT_STALE_MS - 1, "alive", False),
    ("beat just stale", entry_of(), AGENT, KEEPER, HEARTBEAT_STALE_MS, "stale", False),
    ("no beat at all", entry_of(), AGENT, KEEPER, None, "stale", False),
    ("its keeper is gone, its last beat fresh", entry_of(), AGENT, GONE, 300, "stale", True),
    ("its keeper's pid is a stranger's", entry_of(), AGENT, ProcessKey(200, 1), 300, "stale", True),
    ("its keeper cannot be read", entry_of(), AGENT, UNREADABLE, 300, "alive", False),
    ("other boot", entry_of(OTHER_BOOT), AGENT, KEEPER, 300, "dead_pid", True),
    ("other boot, nobody looked", entry_of(OTHER_BOOT), None, None, None, "dead_pid", True),
    ("other host, fresh beat", entry_of(OTHER_HOST), AGENT, KEEPER, 300, "alive", False),
    ("other host, old beat", entry_of(OTHER_HOST), GONE, GONE, HEARTBEAT_STALE_MS, "unknown", False),
    ("other host, no beat", entry_of(OTHER_HOST), GONE, GONE, None, "unknown", False),
    ("other host, future beat", entry_of(OTHER_HOST), AGENT, KEEPER, -1, "unknown", False),
    ("other namespace, fresh beat", entry_of(OTHER_NAMESPACE), GONE, GONE, 300, "alive", False),
    ("other namespace, old beat", entry_of(OTHER_NAMESPACE), GONE, GONE, 5000, "unknown", False),
    ("other namespace, no beat", entry_of(OTHER_NAMESPACE), AGENT, KEEPER, None, "unknown", False),
    ("unreadable, fresh beat", entry_of(), UNREADABLE, KEEPER, 300, "alive", False),
    ("unreadable, old beat", entry_of(), UNREADABLE, KEEPER, 5000, "unknown", False),
    ("nobody looked at the pid, no beat", entry_of(), None, KEEPER, None, "unknown", False),
    ("not spawned, its keeper lives", entry_of(status="starting"), None, KEEPER, 300, "alive", False),
    ("not spawned, its keeper is gone", entry_of(status="starting"), None, GONE, 300, "dead_pid", True),
    ("not spawned, other boot", entry_of(OTHER_BOOT, status="starting"), None, KEEPER, 300, "dead_pid", True),
    ("not spawned, other host", entry_of(OTHER_HOST, status="starting"), None, KEEPER, 300, "unknown", False),
    ("resumable", entry_of(status="resumable"), AGENT, KEEPER, 300, "absent", False),
    ("closed", entry_of(status="closed"), AGENT, KEEPER, 300, "absent", False),
]


@pytest.mark.parametrize(
    ("entry", "agent", "keeper", "age_ms", "verdict", "keeper_gone"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS]
)
def test_the_verdict_is_that_of_the_design(
    entry: Entry, agent: Seen | None, keeper: Seen | None, age_ms: float | None, verdict: str, keeper_gone: bool
) -> None:
    found = judged(entry, agent, keeper=keeper, age_ms=age_ms)
    assert (Verdict(verdict), keeper_gone) == (found.verdict, found.keeper_gone)


@pytest.mark.parametrize(
    ("found", "evidence"),
    [
        (judged(entry_of(), GONE), "pid 300 is gone"),
        (judged(entry_of(), STRANGER), "pid 300 now belongs to another process (other start time)"),
        (judged(entry_of(OTHER_BOOT), AGENT), "pid 300 is of an earlier boot"),
        (judged(entry_of(), AGENT), "pid 300 is the recorded process, beat 300ms ago"),
        (judged(entry_of(), AGENT, keeper=GONE), "pid 300 is the recorded process, but its keeper (pid 200) is gone"),
        (judged(entry_of(), age_ms=7000), "pid 300 is the recorded process, but its keeper has not beaten for 7s"),
        (judged(entry_of(), age_ms=None), "pid 300 is the recorded process, but its keeper has no heartbeat"),
        (judged(entry_of(OTHER_HOST), age_ms=None), "another host, no heartbeat"),
        (judged(entry_of(OTHER_HOST), age_ms=-60_000), "another host, and its heartbeat lies in the future"),
        (judged(entry_of(OTHER_NAMESPACE), age_ms=9000), "another pid namespace, last beat 9s ago"),
        (judged(entry_of(), UNREADABLE), "a process that cannot be read, beat 300ms ago"),
        (judged(entry_of(status="closed")), "closed, no process expected"),
    ],
)
def test_a_verdict_comes_with_its_evidence(found: Judgement, evidence: str) -> None:
    assert evidence == found.evidence


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000, -31_536_000_000])
def test_a_step_of_the_wall_clock_changes_no_verdict_within_a_boot(step_ms: int) -> None:
    entry = entry_of()
    stepped = replace(NOW, wall_ms=NOW.wall_ms + step_ms)
    verdicts = {
        age: judge(entry, agent=AGENT, keeper=KEEPER, beat=beat_of(entry, age_ms=age), now=stepped).verdict
        for age in (300, HEARTBEAT_STALE_MS)
    }
    assert verdicts == {300: Verdict.ALIVE, HEARTBEAT_STALE_MS: Verdict.STALE}


def test_the_age_of_a_beat_of_another_boot_is_told_by_the_wall_clock() -> None:
    beat = replace(beat_of(entry_of(OTHER_BOOT), age_ms=400), monotonic_ns=0)
    assert beat_age_ms(beat, NOW) == 400


def test_a_beat_of_this_boot_is_never_younger_than_now() -> None:
    assert beat_age_ms(beat_of(entry_of(), age_ms=-50), NOW) == 0


@pytest.mark.parametrize(
    ("ref", "seen", "alive"),
    [
        (None, AGENT, None),
        (make_ref(300, 7000), AGENT, True),
        (make_ref(300, 7000), GONE, False),
        (make_ref(300, 7000), UNREADABLE, None),
        (make_ref(300, 7000), None, None),
        (make_ref(300, 7000, machine=OTHER_BOOT), AGENT, False),
        (make_ref(300, 7000, machine=OTHER_HOST), AGENT, None),
        (make_ref(300, 7000, machine=replace(OTHER_HOST, boot_id="boot-2")), AGENT, None),
        (make_ref(300, 7000, machine=OTHER_NAMESPACE), GONE, None),
    ],
)
def test_what_a_pid_can_tell_is_told_and_no_more(ref: ProcessRef | None, seen: Seen | None, alive: bool | None) -> None:
    assert alive is process_alive(ref, seen, NOW)


@pytest.mark.parametrize(
    ("expected", "seen", "same"),
    [
        (ProcessKey(3, 7), ProcessKey(3, 7), True),
        (ProcessKey(3, 7), ProcessKey(4, 7), False),
        (ProcessKey(3, 7), ProcessKey(3, 8), False),
        (ProcessKey(3, 7, 1), ProcessKey(3, 7, 1), True),
        (ProcessKey(3, 7, 1), ProcessKey(3, 7, 2), False),
        (ProcessKey(3, 7, 1), ProcessKey(3, 7), True),
        (ProcessKey(3, 7), ProcessKey(3, 7, 2), True),
    ],
)
def test_a_pid_alone_is_never_an_identity(expected: ProcessKey, seen: ProcessKey, same: bool) -> None:
    assert same is same_process(expected, seen)


@pytest.mark.parametrize(("there", "same"), [(MACHINE, True), *((m, False) for m in (OTHER_BOOT, OTHER_HOST))])
def test_pids_compare_within_one_machine_and_boot(there: Machine, same: bool) -> None:
    assert same is comparable(there, MACHINE)


def test_an_agent_of_an_earlier_generation_is_not_mistaken_for_the_new_one() -> None:
    entry = replace(entry_of(), generation=Generation(nonce="n2", process=make_ref(300, 9000)))
    assert judged(entry, AGENT).verdict == Verdict.DEAD_PID


# -- the long-running observer


def looks(*steps: tuple[int, float]) -> Sighting:
    """(beat seen, ms since the look before)…"""
    now, seen = 0, None
    for beat, ms in steps:
        now += int(ms * MS)
        seen = watched(seen, beat=beat, now_ns=now)
    assert seen is not None
    return seen


def test_both_stopped_for_a_minute_declare_nobody_stale() -> None:
    assert looks((1, 0), (1, 60_000)).silent_ms < HEARTBEAT_STALE_MS


def test_a_sleep_of_a_day_counts_as_one_miss_at_most() -> None:
    assert looks((1, 0), (1, 86_400_000)).silent_ms == HEARTBEAT_REFRESH_MS


def test_a_new_beat_forgets_the_silence() -> None:
    assert looks((1, 0), *[(1, 1000)] * 4, (2, 1000)).silent_ms == 0


def test_five_observed_misses_are_stale() -> None:
    assert looks((1, 0), *[(1, HEARTBEAT_REFRESH_MS)] * 5).silent_ms == HEARTBEAT_STALE_MS


def test_frequent_looks_do_not_hasten_staleness() -> None:
    assert looks((1, 0), *[(1, 10)] * 100).silent_ms == 1000


def test_the_first_look_proves_nothing() -> None:
    assert Sighting(7, 0) == looks((7, 0))
