"""Which entry an id means; never a guess between two."""

import pytest
from msgspec.structs import replace

from supervisor.core.entry import Entry, Status
from supervisor.core.errors import EXIT_NOT_FOUND, NotFound
from supervisor.core.resolve import resolve
from supervisor.testing import make_entry


def entry(name: str, ids: str, *, at: int = 0, status: Status = "running") -> Entry:
    return replace(make_entry(name, status=status), entry_id=f"e{ids}", session_id=f"s{ids}", started_at=at)


LEAD = entry("lead", "1f", at=1)
TESTS = entry("tests", "1a", at=2)
TESTS_OLD = entry("tests", "2b", at=1, status="closed")
OLD_1 = entry("old", "3c", at=1, status="closed")
OLD_2 = entry("old", "3d", at=2, status="resumable")
NAMED_AS_ID = entry("e1f", "4e", at=3)
TWIN_1 = entry("twin", "5f", at=1)
TWIN_2 = entry("twin", "6f", at=2)
ALL = [LEAD, TESTS, TESTS_OLD, OLD_1, OLD_2, TWIN_1, TWIN_2]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("lead", LEAD),
        ("e1f", LEAD),
        ("s1f", LEAD),
        ("le", LEAD),
        ("e2", TESTS_OLD),
        ("tests", TESTS),
        ("te", TESTS),
        ("e2b", TESTS_OLD),
        ("old", OLD_2),
        ("ol", OLD_2),
        ("e3c", OLD_1),
        ("e5", TWIN_1),
    ],
)
def test_a_name_an_id_or_a_unique_prefix_means_one_entry(wanted: str, expected: Entry) -> None:
    assert expected == resolve(wanted, ALL)


@pytest.mark.parametrize("wanted", ["nobody", "", "leader", "E1F", "ead"])
def test_what_nothing_is_called_is_not_found(wanted: str) -> None:
    with pytest.raises(NotFound) as raised:
        resolve(wanted, ALL)
    assert raised.value.exit_code == EXIT_NOT_FOUND


@pytest.mark.parametrize(
    ("wanted", "listed"),
    [
        ("e1", "lead (e1f, running), tests (e1a, running)"),
        ("twin", "twin (e5f, running), twin (e6f, running)"),
        ("t", "tests (e1a, running), tests (e2b, closed), twin (e5f, running), twin (e6f, running)"),
    ],
)
def test_an_ambiguous_prefix_lists_what_it_could_mean(wanted: str, listed: str) -> None:
    with pytest.raises(NotFound, match="ambiguous") as raised:
        resolve(wanted, ALL)
    assert f"'{wanted}' is ambiguous: {listed}" == raised.value.message


def test_a_long_list_is_cut() -> None:
    with pytest.raises(NotFound) as raised:
        resolve("agent", [entry(f"agent-{n:02}", f"{n:02}") for n in range(12)])
    assert raised.value.message.endswith("agent-09 (e09, running) …")


def test_an_id_beats_a_name() -> None:
    assert resolve("e1f", [*ALL, NAMED_AS_ID]) == LEAD


def test_what_is_not_found_is_named_harmlessly() -> None:
    with pytest.raises(NotFound) as raised:
        resolve("\x1b[31m", ALL)
    assert "\x1b" not in str(raised.value)
