"""A CLI of another version than its profile was verified with: told in one line, and asked once."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from supervisor.core.entry import Entry
from supervisor.runtime.compose import Context
from supervisor.runtime.versions import launch_notes
from supervisor.testing import make_entry, make_plan


class World:
    """A state root, a CLI that counts how often it is asked, and its profile."""

    def __init__(self, home: Path) -> None:
        config = home / "config"
        profiles = config / "supervisor-agents" / "launch_profiles"
        profiles.mkdir(parents=True)
        (profiles / "mine.toml").write_text(
            'summary = "x"\nprobe = ["mine", "--version"]\ntested_versions = ["1.0.0"]\n[argv]\nbase = ["mine"]\n'
        )
        self.program = home / "bin" / "mine"
        self.program.parent.mkdir()
        self.count = home / "count"
        env = {"SUPERVISOR_HOME": str(home / "state"), "XDG_CONFIG_HOME": str(config)}
        self.context = Context({**env, "PATH": f"{home}/bin:/usr/bin:/bin"}, cwd=str(home))
        self.context.prepare()

    def install(self, version: str) -> None:
        self.program.write_text(f"#!/bin/sh\necho asked >> {self.count}\necho mine {version}\n")
        self.program.chmod(0o755)

    def asked(self) -> int:
        return len(self.count.read_text().splitlines()) if self.count.exists() else 0

    def notes(self, *names: str) -> list[str]:
        return list(launch_notes(self.context, [agent(name) for name in names or ("one",)]))


def agent(name: str, profile: str = "mine") -> Entry:
    return make_entry(name, plan=replace(make_plan(), profile=profile))


@pytest.fixture
def world(home: Path) -> World:
    return World(home)


def test_another_version_is_told_once_for_all_agents_of_a_launch(world: World) -> None:
    world.install("1.2.0")
    (line,) = world.notes("one", "two")
    assert line.startswith("mine is version 1.2.0, its profile was verified with 1.0.0")


def test_the_verified_version_is_not_worth_a_word(world: World) -> None:
    world.install("1.0.0")
    assert world.notes() == []


def test_a_program_is_asked_once_until_it_changes(world: World) -> None:
    world.install("1.2.0")
    assert [len(world.notes()), len(world.notes()), world.asked()] == [1, 1, 1]
    world.install("1.0.0")
    assert (world.notes(), world.asked()) == ([], 2)


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho none\n"])
def test_who_says_no_version_is_not_blamed(world: World, text: str) -> None:
    world.program.write_text(text)
    world.program.chmod(0o755)
    assert world.notes() == []


def test_a_profile_without_a_probe_or_a_program_asks_nobody(world: World) -> None:
    assert list(launch_notes(world.context, [agent("one", "demo"), agent("two", "gone"), agent("three")])) == []
