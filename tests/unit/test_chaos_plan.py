"""A chaos run can be replayed: who is hit, and by what, follows from the seed and the roles."""

from __future__ import annotations

from itertools import islice

from tests.chaos.plan import CLOCKS, plan, roles


def test_the_same_seed_and_roles_give_the_same_faults_and_another_seed_others() -> None:
    first, again, other = (list(islice(plan(seed, roles()), 500)) for seed in (2026, 2026, 2027))

    assert first == again
    assert first != other


def test_everybody_is_hit_and_no_record_grows_a_day_older() -> None:
    hit = {fault.who for fault in islice(plan(1, roles()), 5000)}

    assert hit == set(roles()) and len(hit) == 51
    assert max(CLOCKS) - min(CLOCKS) < 24 * 3600 * 1000
