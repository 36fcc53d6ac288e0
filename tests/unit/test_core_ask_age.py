"""How old an ask is, whatever happens to the wall clock."""

from __future__ import annotations

import pytest

from supervisor.core.ask_age import age_ms, asked, stamped
from supervisor.core.ask_wire import Request, encode_request, parse_request
from supervisor.core.serving import Here
from supervisor.core.timing import MS

HOUR = 3600 * 1000


def here(*, wall_ms: int = 1_000_000, monotonic_ms: int = 60_000, boot: str = "b-1") -> Here:
    return Here("h-1", boot, 1, wall_ms, monotonic_ms * MS)


def ours(**parts: object) -> Request:
    return Request("perm-1", 1_000_000, "c", "p", ours={"asked": asked(here()) | parts})


@pytest.mark.parametrize("step", [-HOUR, 0, HOUR])
def test_a_step_of_the_wall_clock_changes_no_age_within_a_boot(step: int) -> None:
    assert age_ms(ours(), here(wall_ms=1_000_000 + step, monotonic_ms=62_000)) == 2_000


def test_in_another_boot_the_wall_clock_counts() -> None:
    assert age_ms(ours(), here(wall_ms=1_005_000, boot="b-2")) == 5_000


@pytest.mark.parametrize(
    "when", [None, "now", {}, {"bootId": "b-1"}, {"bootId": "b-1", "monotonicNs": True}, {"bootId": 1}]
)
def test_what_is_no_time_leaves_the_wall_clock(when: object) -> None:
    request = Request("perm-1", 1_000_000, "c", "p", ours={"asked": when})
    assert age_ms(request, here(wall_ms=1_003_000)) == 3_000


def test_a_time_that_is_still_to_come_is_no_evidence_of_youth() -> None:
    assert age_ms(ours(monotonicNs=10**18), here(wall_ms=1_004_000)) == 4_000


def test_without_a_boot_nothing_is_of_the_same_boot() -> None:
    assert age_ms(Request("perm-1", 1_000_000, "c", "p", ours={"asked": {"bootId": "", "monotonicNs": 1}}), here()) == 0


def test_a_foreign_request_ages_by_the_monotonic_clock_once_it_was_seen() -> None:
    seen = stamped(Request("perm-1", 999_000, "c", "p"), here())
    assert age_ms(seen, here(wall_ms=1_000_000 + HOUR, monotonic_ms=61_000)) == 2_000
    assert parse_request(encode_request(seen), stem="perm-1").ours == seen.ours  # type: ignore[union-attr]


def test_one_from_the_future_is_new_and_ages_from_now_on() -> None:
    seen = stamped(Request("perm-1", 10**15, "c", "p"), here())
    assert age_ms(seen, here()) == 0
    assert age_ms(seen, here(monotonic_ms=65_000)) == 5_000


def test_ours_is_left_as_it_is() -> None:
    request = ours()
    assert stamped(request, here(monotonic_ms=90_000)) is request
