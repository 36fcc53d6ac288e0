"""The keeper writes records: nothing is lost on a full disk, nothing of an older generation ever lands."""

import errno
from typing import Any

import pytest
from msgspec.structs import replace

from supervisor.core.entry import Entry, ParentRef, Starting
from supervisor.core.launch_plan import RestartPlan
from supervisor.core.ports import Exit
from supervisor.runtime.kept_agent import KeptAgent
from supervisor.testing import make_plan
from tests.parts import Stage

FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def stage() -> Stage:
    return Stage()


def running(stage: Stage, **changes: Any) -> KeptAgent:
    agent = stage.add(**changes)
    stage.go(50)
    return agent


# -- a full disk


def test_an_end_on_a_full_disk_is_written_once_there_is_room(stage: Stage) -> None:
    lead = running(stage)
    stage.store.break_writes(FULL)
    stage.processes.end(stage.pid(lead), Exit(code=3))
    stage.go(5000)
    before = stage.on_disk(lead).status
    stage.store.mend()
    stage.go(1000)
    end = stage.on_disk(lead).hand_off
    assert end is not None
    assert (before, stage.on_disk(lead).status, end.code) == ("running", "closed", 3)


def test_an_end_that_waits_for_room_is_told_and_counted_once(stage: Stage) -> None:
    lead = running(stage)
    stage.store.break_writes(FULL)
    stage.kill(lead)
    stage.go(60_000)
    stage.store.mend()
    stage.go(1000)
    assert (len(stage.on_disk(lead).deaths), [what for _, what in stage.news]) == (1, ["ready", "ended"])


def test_a_stop_that_waits_for_room_is_told_once_and_as_it_was(stage: Stage) -> None:
    lead = stage.add(state=Starting(since=0, not_before=1 << 62))
    stage.go(50)
    stage.wants_down(lead)
    stage.store.break_writes(FULL)
    stage.go(60_000)
    stage.store.mend()
    stage.go(1000)
    end = stage.on_disk(lead).hand_off
    assert end is not None
    assert (end.outcome, [what for _, what in stage.news]) == ("not_started", ["ended"])


def test_a_keeper_does_not_leave_before_the_end_is_on_disk(stage: Stage) -> None:
    lead = running(stage)
    stage.store.break_writes(FULL)
    stage.kill(lead)
    stage.go(60_000)
    waiting = stage.turn() is not None
    stage.store.mend()
    stage.go(1000)
    assert (waiting, stage.turn()) == (True, None)


def test_on_a_full_disk_nothing_is_started_whose_intent_is_not_on_record(stage: Stage) -> None:
    lead = running(stage, plan=make_plan(restart=RestartPlan(policy="permanent")))
    stage.store.break_writes(FULL)
    stage.kill(lead)
    stage.go(5000)
    before = len(stage.spawner.started)
    stage.store.mend()
    stage.go(1000)
    assert (before, len(stage.spawner.started), stage.on_disk(lead).status) == (1, 2, "running")


def test_a_process_started_just_before_the_disk_was_full_is_recorded_later(stage: Stage) -> None:
    lead = stage.add()
    stage.store.break_writes(FULL)
    stage.go(1000)
    stage.store.mend()
    stage.go(1000)
    process = stage.on_disk(lead).generation.process
    assert process is not None
    assert stage.spawner.started == [process.key.pid]


def test_several_moves_wait_for_room_and_keep_their_order(stage: Stage) -> None:
    lead = stage.add(plan=make_plan(ready="output"), output=stage.transcript())
    stage.go(50)
    stage.store.break_writes(FULL)
    stage.transcripts.content["/transcripts/entry-lead.log"] = b"up"
    stage.go(60_000)
    stage.kill(lead)
    stage.go(5000)
    stage.store.mend()
    stage.go(1000)
    assert (stage.on_disk(lead).status, stage.on_disk(lead).heartbeat_at > lead.entry.started_at) == ("closed", True)


@pytest.mark.parametrize("waits", [False, True])
def test_a_full_disk_burns_no_processor(stage: Stage, waits: bool) -> None:
    """Also with an agent whose predecessor has just become ready, and whose parent is to be written into its record."""
    output = stage.transcript()
    lead = stage.add(plan=make_plan(ready="output"), output=output)
    state = Starting(since=0, waits_for=(lead.entry.entry_id,) if waits else ())
    stage.go(50)
    stage.store.break_writes(FULL)
    stage.add_unwritten("tests", state=state, parent=ParentRef(session_id=lead.entry.session_id))
    stage.transcripts.content[str(output.transcript)] = b"up"
    stage.go(10_000)
    stage.turn()
    assert stage.due is not None
    assert stage.due > stage.clock.monotonic_ns()


def test_a_full_disk_does_not_silence_the_heart(stage: Stage) -> None:
    running(stage)
    stage.store.break_writes(FULL)
    before = len(stage.beats.all)
    stage.go(60_000)
    assert 60 <= len(stage.beats.all) - before <= 61


def test_a_keeper_that_is_told_to_end_does_so_on_a_full_disk_too(stage: Stage) -> None:
    """Only starting needs the disk first; the wish to end came by a signal."""
    lead = running(stage)
    key = stage.key(lead)
    stage.store.break_writes(FULL)
    stage.go(60_000)
    stage.turn(15)
    stage.go(5000)
    assert not stage.processes.alive(key)


def test_a_heartbeat_that_cannot_be_written_is_tried_again(stage: Stage) -> None:
    running(stage)
    stage.beats.broken = FULL
    stage.go(5000)
    stage.beats.broken = None
    before = len(stage.beats.all)
    stage.go(2000)
    assert (len(stage.beats.all) > before, stage.keeper.agents[0].entry.status) == (True, "running")


# -- records taken away or changed under us


def test_a_record_that_was_removed_under_us_is_registered_again(stage: Stage) -> None:
    lead = running(stage)
    elsewhere = stage.store.another()
    assert elsewhere.remove_if_unchanged(stage.on_disk(lead))
    stage.go(60_000)
    found = stage.on_disk(lead)
    assert (lead.entry.entry_id, "running") == (found.entry_id, found.status)


def test_a_record_that_was_removed_is_there_again_within_two_beats_and_not_at_the_next_renewal(stage: Stage) -> None:
    """Who sees no record starts the agent a second time."""
    lead = running(stage)
    assert stage.store.another().remove_if_unchanged(stage.on_disk(lead))
    stage.go(2000)
    assert stage.on_disk(lead).generation == lead.entry.generation


def test_the_end_of_an_agent_whose_record_was_removed_is_on_record(stage: Stage) -> None:
    lead = running(stage)
    assert stage.store.another().remove_if_unchanged(stage.on_disk(lead))
    stage.processes.end(stage.pid(lead), Exit(code=3))
    stage.go(1000)
    end = stage.on_disk(lead).hand_off
    assert end is not None
    assert end.code == 3


def test_a_write_that_crosses_with_anothers_keeps_both(stage: Stage) -> None:
    lead = running(stage)
    elsewhere = stage.store.another()
    entry = stage.on_disk(lead)
    assert isinstance(elsewhere.replace_if_unchanged(entry, replace(entry, task_summary="theirs")), Entry)
    stage.processes.end(stage.pid(lead), Exit(code=3))
    stage.go(10)
    found = stage.on_disk(lead)
    assert (found.task_summary, found.status) == ("theirs", "closed")


# -- older generations


def test_a_late_end_of_an_old_generation_never_lands(stage: Stage) -> None:
    lead = running(stage)
    newer = stage.taken_over(lead)
    stage.processes.end(stage.pid(lead), Exit(code=3))
    stage.go(1000)
    assert newer == stage.on_disk(lead)


def test_a_newer_generation_counts_whoever_keeps_it(stage: Stage) -> None:
    lead = running(stage)
    newer = stage.taken_over(lead, keeper=stage.keeper.ref)
    stage.processes.end(stage.pid(lead), Exit(code=3))
    stage.go(120_000)
    assert newer == stage.on_disk(lead)


def test_a_late_heartbeat_of_an_old_generation_never_lands(stage: Stage) -> None:
    lead = running(stage)
    newer = stage.taken_over(lead)
    stage.go(120_000)
    assert newer == stage.on_disk(lead)


def test_a_late_restart_of_an_old_generation_starts_nothing(stage: Stage) -> None:
    lead = running(stage, plan=make_plan(restart=RestartPlan(policy="permanent")))
    newer = stage.taken_over(lead)
    stage.kill(lead)
    stage.go(60_000)
    assert (newer, 1) == (stage.on_disk(lead), len(stage.spawner.started))


def test_a_keeper_lets_go_of_what_another_has_taken(stage: Stage) -> None:
    lead = running(stage)
    stage.taken_over(lead)
    stage.go(2000)
    assert (stage.keeper.agents, stage.signals.sent) == ([], [])


def test_moves_that_waited_for_the_disk_do_not_land_over_a_newer_generation(stage: Stage) -> None:
    lead = running(stage)
    stage.store.break_writes(FULL)
    stage.kill(lead)
    stage.go(1000)
    stage.store.mend()
    newer = stage.taken_over(lead)
    stage.go(5000)
    assert newer == stage.on_disk(lead)


# -- how much is written


def test_the_heartbeat_in_the_entry_is_renewed_at_its_own_pace(stage: Stage) -> None:
    lead = running(stage)
    before = stage.store.writes
    stage.go(300_000)
    assert (9 <= stage.store.writes - before <= 11, True) == (True, stage.on_disk(lead).heartbeat_at > 0)


def test_a_healthy_agent_with_a_transcript_costs_no_more_writes(stage: Stage) -> None:
    running(stage, output=stage.transcript())
    before = stage.store.writes
    stage.go(300_000)
    assert 9 <= stage.store.writes - before <= 11


def test_a_hundred_entries_are_not_rewritten_at_once(stage: Stage) -> None:
    for number in range(100):
        stage.add(f"a{number}")
    stage.go(1000)
    most, before = 0, stage.store.writes
    for _ in range(60):
        stage.go(1000)
        most, before = max(most, stage.store.writes - before), stage.store.writes
    assert most < 20


# -- transcripts


def test_a_transcript_over_its_cap_is_cut() -> None:
    stage = Stage(transcript_bytes=1000)
    output = stage.transcript()
    running(stage, output=output)
    stage.transcripts.content[str(output.transcript)] = b"x" * 5000
    stage.go(9000)
    assert (stage.transcripts.size(str(output.transcript)) or 0) <= 1000


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        ("removed", "the transcript was removed or rotated away"),
        ("full", "the disk was full, what it wrote then is lost"),
    ],
)
def test_output_that_is_degraded_is_said_and_the_agent_runs_on(stage: Stage, trouble: str, why: str) -> None:
    output = stage.transcript()
    lead = running(stage, output=output)
    if trouble == "removed":
        del stage.transcripts.content[str(output.transcript)]
    else:
        stage.transcripts.free = 0
    stage.go(9000)
    found = stage.on_disk(lead)
    assert (why, "running", []) == (found.output.degraded, found.status, stage.signals.sent)


def test_output_that_was_lost_once_stays_said(stage: Stage) -> None:
    lead = running(stage, output=stage.transcript())
    stage.transcripts.free = 0
    stage.go(9000)
    stage.transcripts.free = 1 << 30
    stage.go(2000)
    assert stage.on_disk(lead).output.degraded == "the disk was full, what it wrote then is lost"


# -- what another wrote and our own write took in by the way


def test_a_stop_that_meets_the_renewal_of_the_heartbeat_is_acted_on(stage: Stage) -> None:
    lead = running(stage)
    stage.wants_down(lead)
    lead.heartbeat_due = stage.clock.monotonic_ns()
    stage.clock.advance(1000)  # beat and renewal come before records are read
    stage.go(1000)
    assert stage.on_disk(lead).status == "closed"


def test_a_stop_that_meets_the_note_of_a_proof_is_acted_on(stage: Stage) -> None:
    output = stage.transcript()
    lead = running(stage, plan=make_plan(ready="output"), output=output)
    assert output.transcript is not None
    stage.transcripts.content[output.transcript] += b"up\n"
    stage.wants_down(lead)
    lead.turn(stage.parts.now(), stage.keeper._look, may_start=lambda _e: True)
    was_ready = lead.is_ready
    stage.go(1000)
    assert (was_ready, stage.on_disk(lead).status) == (True, "closed")


def test_a_write_of_ours_that_met_nobody_elses_leaves_the_agent_at_rest(stage: Stage) -> None:
    lead = running(stage)
    lead.heartbeat_due = stage.clock.monotonic_ns()
    stage.clock.advance(1000)
    stage.go(1)
    assert lead.at_rest


# -- a state root that was removed

REMOVED = FileNotFoundError(errno.ENOENT, "No such file or directory")


def test_a_keeper_whose_agent_ends_after_the_state_root_was_removed_ends_after_a_few_tries(stage: Stage) -> None:
    lead = running(stage)
    stage.store.remove(REMOVED)
    stage.go(60_000)
    kept = list(stage.keeper.agents)
    stage.processes.end(stage.pid(lead), Exit(code=0))
    stage.go(1000)
    tried = list(stage.keeper.agents)
    stage.go(4000)
    assert (kept, tried, stage.keeper.agents, stage.due) == ([lead], [lead], [], None)
    assert [what for _, what in stage.news] == ["ready", "ended"]


def test_an_agent_that_would_be_started_again_is_not_waited_for_either(stage: Stage) -> None:
    lead = running(stage, plan=make_plan(restart=RestartPlan(policy="permanent")))
    stage.store.remove(REMOVED)
    stage.kill(lead)
    stage.go(5000)
    assert (stage.keeper.agents, len(stage.requests("lead"))) == ([], 1)


def test_a_state_root_that_is_put_back_at_once_gets_the_end(stage: Stage) -> None:
    lead = running(stage)
    stage.store.remove(REMOVED)
    stage.processes.end(stage.pid(lead), Exit(code=3))
    stage.go(1000)
    stage.store.mend()
    stage.go(1000)
    end = stage.on_disk(lead).hand_off
    assert (end and end.code, stage.keeper.agents) == (3, [])
