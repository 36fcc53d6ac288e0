"""Both worlds, for every contract."""

from collections.abc import Iterator

import pytest

from tests.contract.worlds import World, world_of


@pytest.fixture(params=["fake", "real"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with world_of(request.param) as world:
        yield world
