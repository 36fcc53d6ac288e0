"""Which agents are shown without `--all`."""

from __future__ import annotations

import pytest

from supervisor.cli.seeing import visible
from supervisor.core.entry import Closed, Entry, Resumable
from supervisor.testing import make_entry, make_hand_off

DEAD = Resumable(since=1, agent=make_entry().agent, hand_off=make_hand_off())


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        (make_entry(), True),
        (make_entry(state=DEAD), True),
        (make_entry(state=DEAD, want="down"), False),
        (make_entry(state=Closed(since=1, hand_off=make_hand_off())), False),
    ],
)
def test_who_lives_or_may_come_back_is_shown(entry: Entry, shown: bool) -> None:
    assert visible(entry) is shown
