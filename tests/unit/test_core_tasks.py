"""Tasks: what nobody has set is open, and the record of them is bounded."""

import pytest

from supervisor.core.entry import Entry, ParentRef
from supervisor.core.errors import BadInput, Refused
from supervisor.core.tasks import MAX_TASKS, Task, TaskStatus, held_back, status_of, task_ref, with_task
from supervisor.testing import make_entry


def task(ref: str, status: TaskStatus = "open", at: int = 0) -> Task:
    return Task(ref=ref, status=status, at=at)


@pytest.mark.parametrize("ref", [None, "GOAL-8"])
def test_a_task_that_nobody_has_set_is_open(ref: str | None) -> None:
    assert status_of(ref, [task("GOAL-7", "done")]) == "open"


def test_the_last_word_on_a_task_counts() -> None:
    tasks = with_task([task("GOAL-7", "done"), task("other")], task("GOAL-7", "blocked"))
    assert (status_of("GOAL-7", tasks), len(tasks)) == ("blocked", 2)


def test_past_the_bound_the_oldest_open_task_is_forgotten() -> None:
    tasks = [task(f"t{n}", "done" if n else "open", at=n) for n in range(MAX_TASKS)]
    after = with_task(tasks, task("new", "blocked"))
    assert (len(after), [t for t in after if t.ref == "t0"]) == (MAX_TASKS, [])


def test_a_task_that_is_not_open_is_never_forgotten() -> None:
    with pytest.raises(Refused, match="Set some to open"):
        with_task([task(f"t{n}", "done") for n in range(MAX_TASKS)], task("new", "blocked"))


@pytest.mark.parametrize("raw", ["", "  ", "a\nb", "a\x1b[2J", "x" * 513, "\ud800"])
def test_what_is_no_reference_is_refused(raw: str) -> None:
    with pytest.raises(BadInput):
        task_ref(raw)


def test_512_characters_are_a_reference() -> None:
    assert task_ref("é" * 512) == "é" * 512


KID = make_entry("kid", parent=ParentRef(session_id="session-lead"), task_ref="G-7")


@pytest.mark.parametrize(
    ("entry", "tasks", "said"),
    [
        (KID, [task("G-7", "blocked")], "Its task G-7 is blocked: it is not recovered by itself."),
        (KID, [task("G-7", "done")], "Its task G-7 is done: it is not recovered by itself."),
        (KID, [task("G-7")], None),
        (KID, None, "Whether its task is blocked or done cannot be read: it is not recovered by itself."),
        (make_entry("kid", parent=KID.parent), None, None),
        (make_entry("lead", task_ref="G-7"), [task("G-7", "done")], None),
        (make_entry("kid", status="closed", parent=KID.parent, task_ref="G-7"), [task("G-7", "done")], None),
    ],
)
def test_a_worker_whose_task_is_not_open_is_said_to_be_held_back(
    entry: Entry, tasks: list[Task] | None, said: str | None
) -> None:
    assert held_back(entry, tasks) == said
