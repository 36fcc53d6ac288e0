"""Reading an end: an unknown one is neither 0 nor a failure."""

import pytest

from supervisor.core.ending import (
    death,
    describe,
    describe_early,
    ended,
    exit_status,
    not_started,
    says_success,
    signal_name,
    signal_number,
)
from supervisor.core.entry import MAX_SURVIVORS, Death, HandOff
from supervisor.core.liveness import Now
from supervisor.core.ports import Exit
from supervisor.testing import MACHINE, make_hand_off, make_plan

PLAN = make_plan(success_codes=(0, 143))


@pytest.mark.parametrize(
    ("end", "outcome", "code", "signal", "success"),
    [
        (Exit(code=0), "exited", 0, None, True),
        (Exit(code=143), "exited", 143, None, True),
        (Exit(code=1), "exited", 1, None, False),
        (Exit(signal=9), "signaled", None, "KILL", False),
        (Exit(signal=34), "signaled", None, "SIG34", False),
        (Exit(), "unknown", None, None, None),
    ],
)
def test_an_exit_is_read_by_the_plan(
    end: Exit, outcome: str, code: int | None, signal: str | None, success: bool | None
) -> None:
    found = ended(end, PLAN, stopped=False, now=5)
    assert (outcome, code, signal, success) == (found.outcome, found.code, found.signal, found.success)


def test_a_code_of_success_says_nothing_of_an_agent_that_was_hung_up_on() -> None:
    found = ended(Exit(code=0), PLAN, stopped=False, now=5, hung_up=True)
    assert (found.cause, found.success, describe(found)) == ("ended", None, "exited with 0 (its terminal was closed)")
    assert ended(Exit(code=1), PLAN, stopped=False, now=5, hung_up=True).success is False


@pytest.mark.parametrize(("stopped", "cause"), [(True, "stopped"), (False, "ended")])
def test_an_end_on_request_says_so(stopped: bool, cause: str) -> None:
    assert cause == ended(Exit(code=0), PLAN, stopped=stopped, now=5).cause


def test_leftovers_are_told() -> None:
    found = ended(Exit(code=0), PLAN, stopped=False, now=5, leftovers=2)
    assert found.detail == "2 of its processes still run (`supervisor stop` ends them)"


def test_survivors_are_named_up_to_a_bound() -> None:
    many = [f"pid {n}" for n in range(MAX_SURVIVORS + 5)]
    assert tuple(many[:MAX_SURVIVORS]) == ended(Exit(), PLAN, stopped=True, now=5, survivors=many).survivors


RESULT = {"type": "result", "is_error": False}
DONE = b'{"type":"result","is_error":false,"result":"done"}'


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (DONE + b"\n", True),
        (b'{"type":"message"}\n' + DONE + b"\nwarning on stderr\n\n", True),
        (b'{"type":"result","is_error":true}\n', False),
        (DONE + b'\n{"type":"message"}\n', False),
        (b'{"type":"result"}\n', False),
        (b"", None),
        (b"no JSON\n[1]\n", None),
        (b'is_error":false,"result":"the middle of a very long line"}\n', None),
    ],
)
def test_the_last_line_tells_whether_the_work_is_done(output: bytes, expected: bool | None) -> None:
    assert says_success(output, RESULT) is expected


def test_an_exit_code_of_0_is_no_success_when_the_output_says_otherwise() -> None:
    plan = make_plan(success_line=RESULT)
    said = [ended(Exit(code=0), plan, stopped=False, now=1, output=o).success for o in (DONE, b'{"type":"x"}', b"")]
    assert said == [True, False, True]
    stopped = [ended(Exit(code=0), plan, stopped=True, now=1, output=o).success for o in (DONE, b'{"type":"x"}', b"")]
    assert stopped == [True, False, None], "whoever is told to end may say 0"
    assert ended(Exit(code=1), plan, stopped=False, now=1, output=DONE).success is False
    assert ended(Exit(), plan, stopped=False, now=1, output=DONE).success is None


@pytest.mark.parametrize(
    ("cause", "expected"), [("stopped", "stopped"), ("lost", "lost"), ("spawn_failed", "spawn_failed")]
)
def test_what_never_ran_is_no_success(cause: str, expected: str) -> None:
    found = not_started("it was\nnot found", cause=cause, now=5)
    assert (expected, "not_started", False, None, "it was not found") == (
        found.cause,
        found.outcome,
        found.success,
        found.code,
        found.detail,
    )


def test_a_long_reason_is_cut() -> None:
    assert len(not_started("x" * 5000, cause="lost", now=5).detail) == 500


@pytest.mark.parametrize(
    ("end", "code", "signal"), [(Exit(code=3), 3, None), (Exit(signal=15), None, "TERM"), (Exit(), None, None)]
)
def test_a_death_is_dated_by_the_monotonic_clock_of_its_boot(end: Exit, code: int | None, signal: str | None) -> None:
    assert Death(at=7, boot_id="boot-1", monotonic_ns=9, code=code, signal=signal) == death(end, Now(MACHINE, 7, 9))


@pytest.mark.parametrize(
    ("number", "name"),
    [(1, "HUP"), (2, "INT"), (3, "QUIT"), (6, "ABRT"), (9, "KILL"), (11, "SEGV"), (15, "TERM"), (34, "SIG34")],
)
def test_a_signal_has_one_name(number: int, name: str) -> None:
    assert (name, number) == (signal_name(number), signal_number(name))


@pytest.mark.parametrize("name", ["", "NOPE", "SIG", "USR1", "SIG٣"])
def test_an_unknown_name_is_no_signal(name: str) -> None:
    assert signal_number(name) == 0


@pytest.mark.parametrize(
    ("hand_off", "status"),
    [
        (make_hand_off(code=0), 0),
        (make_hand_off(code=0, success=False), 1),
        (make_hand_off(code=0, success=None, cause="stopped"), 0),
        (make_hand_off(code=7), 7),
        (make_hand_off(outcome="signaled", code=None, signal="TERM"), 143),
        (make_hand_off(outcome="signaled", code=None, signal="SIG34"), 162),
        (make_hand_off(outcome="unknown", code=None, success=None), 1),
        (make_hand_off(outcome="not_started", code=None, success=False), 1),
    ],
)
def test_a_command_ends_as_its_agent_did(hand_off: HandOff, status: int) -> None:
    assert status == exit_status(hand_off)


@pytest.mark.parametrize(
    ("hand_off", "text"),
    [
        (make_hand_off(code=3), "exited with 3"),
        (make_hand_off(code=3, success=False), "exited with 3"),
        (make_hand_off(code=0, success=False), "exited with 0, which is no success"),
        (make_hand_off(outcome="signaled", code=None, signal="TERM", cause="stopped"), "killed by TERM (stopped)"),
        (make_hand_off(outcome="unknown", code=None, cause="lost"), "ended, nobody could learn how (found dead)"),
        (
            make_hand_off(outcome="not_started", code=None, cause="spawn_failed", detail="x was not found"),
            "never started: x was not found",
        ),
        (
            make_hand_off(outcome="not_started", code=None, cause="lost", detail="what it waits for ended"),
            "never started: what it waits for ended",
        ),
        (make_hand_off(survivors=("pid 3 (a)", "pid 4 (b)")), "exited with 0; still alive: pid 3 (a), pid 4 (b)"),
    ],
)
def test_an_end_reads_as_a_sentence(hand_off: HandOff, text: str) -> None:
    assert text == describe(hand_off)


def test_who_never_started_did_not_end_before_it_was_up() -> None:
    assert describe_early(make_hand_off(code=3)) == "exited with 3 before it was up"
    never = make_hand_off(outcome="not_started", code=None, cause="spawn_failed", detail="x was not found")
    assert describe_early(never) == "never started: x was not found"
