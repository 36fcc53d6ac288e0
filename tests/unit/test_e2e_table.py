"""The table of promises that the tests with real CLIs print: which tests it reads, and what it says of them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e_real.table import CLIS, PROMISES, promises

REAL = Path(__file__).parents[1] / "e2e_real"
HEADS = {cli: f"{cli} 1.0" for cli in CLIS}
NEW = "test_nothing_runs_when_the_hook_hangs"
OTHER = "test_nothing_runs_when_the_hook_is_killed"


@dataclass
class Said:
    """A report."""

    nodeid: str
    outcome: str = "passed"
    when: str = "call"
    duration: float = 1.5
    user_properties: Sequence[tuple[str, object]] = field(default_factory=lambda: [("cli", "claude")])


def test_each_promise_names_tests_that_are_there() -> None:
    there = {name for file in REAL.glob("test_*.py") for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)}
    assert {test for tests in PROMISES.values() for test in tests} - there == set()


def test_a_cell_sums_its_tests_and_one_failure_fails_it() -> None:
    both = [Said(f"tests/x.py::{NEW}[a-claude]"), Said(f"tests/x.py::{OTHER}")]
    assert _row(both) == ["ok 3.0 s", "-", "-", "-", "-"]
    assert _row([both[0], Said(f"tests/x.py::{OTHER}", "failed")]) == ["FAILED", "-", "-", "-", "-"]
    torn = Said(f"tests/x.py::{OTHER}", "failed", "teardown")
    assert _row([*both, torn]) == ["FAILED", "-", "-", "-", "-"]


def test_nothing_is_printed_where_none_has_run() -> None:
    assert promises([Said("tests/x.py::test_other")], HEADS) == []


def _row(reports: Sequence[Said]) -> list[str]:
    (line,) = [text for text in promises(reports, HEADS) if text.startswith("adapter killed")]
    return re.split(r" {2,}", line)[1:]
