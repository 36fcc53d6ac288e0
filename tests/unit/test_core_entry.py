"""The record: its file, its status, and what counts as live."""

import pytest
from msgspec.structs import replace

from supervisor.core.entry import LIVE, ParentRef, Status, is_live
from supervisor.core.errors import (
    BadInput,
    BadState,
    IllegalMove,
    NotFound,
    Refused,
    SupervisorError,
    UsageError,
)
from supervisor.testing import STATUSES, make_entry, make_hand_off


@pytest.mark.parametrize("status", STATUSES)
def test_an_entry_has_the_status_of_its_state(status: Status) -> None:
    assert status == make_entry(status=status).status


@pytest.mark.parametrize("status", STATUSES)
def test_an_entry_is_live_until_it_is_resumable_or_closed(status: Status) -> None:
    assert (status not in ("resumable", "closed")) is is_live(make_entry(status=status))


def test_what_is_live_may_have_a_process() -> None:
    assert {"starting", "running", "winding_down", "adopted"} == LIVE


def test_the_file_is_named_by_role_and_session() -> None:
    worker = make_entry("w", parent=ParentRef(session_id="session-lead"))
    assert (
        make_entry().key,
        replace(worker, session_id="../a b").key,
    ) == ("master-session-lead", "worker-..%2Fa%20b")


@pytest.mark.parametrize("status", [s for s in STATUSES if s != "closed"])
def test_who_has_not_ended_has_no_end(status: Status) -> None:
    assert make_entry(status=status).hand_off is None


def test_a_closed_entry_has_its_end() -> None:
    assert make_hand_off() == make_entry(status="closed").hand_off


@pytest.mark.parametrize(
    ("kind", "code", "exit_code"),
    [
        (SupervisorError, "failed", 1),
        (Refused, "refused", 1),
        (BadState, "bad_state_root", 1),
        (BadInput, "bad_input", 1),
        (UsageError, "usage", 2),
        (NotFound, "not_found", 3),
        (IllegalMove, "illegal_move", 70),
    ],
)
def test_an_error_has_a_code_and_an_exit_status(kind: type[SupervisorError], code: str, exit_code: int) -> None:
    error = kind("it happened", hint="Do this", entry="e1")
    assert (code, exit_code, "it happened. Do this", {"entry": "e1"}) == (
        error.code,
        error.exit_code,
        str(error),
        error.fields,
    )
