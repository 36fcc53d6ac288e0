"""Gemini's session files around a load: what the CLI does to them is written here as 0.61.0 does it."""

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from supervisor.drivers.effects import Job
from supervisor.drivers.gemini import GeminiLink, gemini
from supervisor.drivers.gemini_sessions import GeminiSessions
from supervisor.testing.clock import FakeClock
from tests.unit.driving import around

ID = "fa8c412b-d312-44dc-8a65-608a7c53eb34"
OTHER = "fa8c412b-0000-4000-8000-000000000000"
CONTEXT = {"id": "c", "type": "user", "content": [{"text": "<session_context>\nThis is the Gemini CLI."}]}
HEADER = {"sessionId": ID, "projectHash": "h", "kind": "main"}
EMPTY = [HEADER, {"$set": {"messages": [CONTEXT]}}]
TALK = [
    {"id": "1", "type": "user", "content": [{"text": "hello"}]},
    {"id": "2", "type": "gemini", "content": "hi there"},
    {"$set": {"lastUpdated": "now"}},
]


class World:
    """A home with gemini's folders, and a clock that a wait moves."""

    def __init__(self, tmp: Path) -> None:
        self.home, self.cwd, self.keep = tmp / "home", tmp / "work", tmp / "kept" / "gemini"
        self.cwd.mkdir()
        self.project = self.home / ".gemini" / "tmp" / "work"
        self.chats = self.project / "chats"
        self.chats.mkdir(parents=True)
        (self.project / ".project_root").write_text(str(self.cwd))
        self.clock = FakeClock()
        self.waited: list[int] = []
        self.notes: list[str] = []
        self.sessions = self.again()

    def again(self) -> GeminiSessions:
        """Those of another driver."""
        return GeminiSessions(str(self.home), cwd=str(self.cwd), keep=str(self.keep), clock=self.clock)

    def minute(self, minutes: int) -> str:
        """The minute in a file's name, so many after the clock's."""
        at = datetime.fromtimestamp(self.clock.wall_ms() / 1000 + 60 * minutes, UTC)
        return at.strftime("%Y-%m-%dT%H-%M")

    def file(self, minutes: int, lines: Sequence[Any], *, session: str = ID) -> Path:
        path = self.chats / f"session-{self.minute(minutes)}-{session[:8]}.jsonl"
        add(path, lines)
        return path

    def prepare(self, session: str = ID) -> str | None:
        return self.sessions.prepare(session, around(wait=self._wait, note=self.notes.append))

    def _wait(self, ms: int) -> None:
        self.waited.append(ms)
        self.clock.advance(ms)

    def gemini_loads(self) -> Path:
        """What a load writes before it looks for the history."""
        return self.file(0, EMPTY)

    def gemini_starts(self) -> None:
        """Its clean-up: a file without history takes all of the same eight characters along."""
        for path in list(self.chats.iterdir()):
            if path.exists() and b"hello" not in path.read_bytes():
                for twin in self.chats.glob(f"*-{path.name[-14:]}"):
                    twin.unlink()

    @property
    def names(self) -> list[str]:
        return sorted(os.listdir(self.chats))


def add(path: Path, lines: Sequence[Any]) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_load_in_a_later_minute_is_not_waited_for(world: World) -> None:
    history = world.file(-5, [*EMPTY, *TALK])
    assert world.prepare() is None
    assert world.waited == []
    world.gemini_loads()
    add(history, [{"$set": {"sessionId": ID}}])
    assert world.sessions.loaded(ID) is None
    assert world.names == [history.name], "the empty file is gone: it would cost the history at the next start"
    world.gemini_starts()
    assert world.names == [history.name]
    assert not world.keep.exists()


def test_without_this_the_next_start_would_destroy_the_session(world: World) -> None:
    """That the world here does what the CLI does."""
    world.file(-5, [*EMPTY, *TALK])
    world.gemini_loads()
    world.gemini_starts()
    assert world.names == []


def test_the_minute_in_which_the_session_was_begun_is_waited_for(world: World) -> None:
    world.file(0, [*EMPTY, *TALK])
    before = world.clock.wall_ms()
    assert world.prepare() is None
    assert world.clock.wall_ms() // 60_000 == before // 60_000 + 1
    assert world.clock.wall_ms() % 60_000 == 0
    assert len(world.notes) == 1
    assert "waits" in world.notes[0]


def test_a_session_file_from_the_future_is_not_loaded(world: World) -> None:
    world.file(5, [*EMPTY, *TALK])
    why = world.prepare()
    assert why is not None
    assert "future" in why
    assert world.waited == []


def test_an_unknown_session_is_refused_and_nothing_is_written(world: World) -> None:
    world.file(-5, [*EMPTY, *TALK])
    why = world.prepare("deadbeef-0000-4000-8000-000000000000")
    assert why is not None
    assert "no session deadbeef" in why
    assert len(world.names) == 1
    assert not world.keep.exists()


def test_a_session_without_a_word_is_no_session(world: World) -> None:
    world.file(-5, EMPTY)
    assert world.prepare() is not None
    assert len(world.names) == 1


def test_a_session_of_another_folder_is_refused(world: World) -> None:
    world.file(-5, [*EMPTY, *TALK])
    (world.project / ".project_root").write_text("/elsewhere")
    assert world.prepare() is not None


def test_a_session_with_the_same_first_letters_is_another(world: World) -> None:
    world.file(-5, [{**HEADER, "sessionId": OTHER}, *TALK], session=OTHER)
    assert world.prepare() is not None
    assert world.sessions.file_of(OTHER) is not None


def test_a_history_that_a_load_replaced_by_nothing_is_put_back(world: World) -> None:
    history = world.file(-5, [*EMPTY, *TALK])
    whole = history.read_bytes()
    assert world.prepare() is None
    add(history, EMPTY)  # as in the same minute
    why = world.sessions.loaded(ID)
    assert why is not None
    assert "put back" in why
    world.sessions.settle(ID)
    assert history.read_bytes() == whole
    assert not world.keep.exists()


def test_a_history_that_was_removed_is_put_back(world: World) -> None:
    history = world.file(-5, [*EMPTY, *TALK])
    whole = history.read_bytes()
    assert world.prepare() is None
    stub = world.gemini_loads()
    history.unlink()
    assert world.sessions.loaded(ID) is not None
    world.sessions.settle(ID)
    assert history.read_bytes() == whole
    assert not stub.exists()


def test_a_load_that_fails_leaves_everything_as_it_was(world: World) -> None:
    history = world.file(-5, [*EMPTY, *TALK])
    whole = history.read_bytes()
    assert world.prepare() is None
    world.gemini_loads()
    world.sessions.settle(ID)
    assert (world.names, history.read_bytes()) == ([history.name], whole)


def test_what_a_killed_driver_left_is_put_in_order_before_the_next_load(world: World) -> None:
    history = world.file(-5, [*EMPTY, *TALK])
    whole = history.read_bytes()
    assert world.prepare() is None
    world.gemini_loads()
    world.gemini_starts()  # the driver is dead, somebody else starts gemini
    assert world.names == []
    world.sessions = world.again()
    assert world.prepare() is None
    assert history.read_bytes() == whole


def test_empty_files_that_were_left_are_removed_before_the_cli_starts(world: World) -> None:
    history = world.file(-5, [*EMPTY, *TALK])
    world.file(-3, EMPTY)
    assert world.prepare() is None
    assert world.names == [history.name]


def test_a_history_that_went_on_is_never_put_back_to_an_older_one(world: World) -> None:
    history = world.file(-5, [*EMPTY, *TALK])
    assert world.prepare() is None
    add(history, TALK)
    longer = history.read_bytes()
    world.sessions.settle(ID)
    assert history.read_bytes() == longer


def test_the_file_of_a_session_is_the_one_with_its_history(world: World) -> None:
    history = world.file(-5, [*EMPTY, *TALK])
    world.file(-3, EMPTY)
    assert world.sessions.file_of(ID) == str(history)
    assert world.sessions.file_of("nobody") is None


@pytest.mark.parametrize("path", ["/etc/passwd", "", "\0", "relative"])
def test_a_copy_that_points_elsewhere_is_put_nowhere(world: World, path: str) -> None:
    folder = world.keep / ID
    folder.mkdir(parents=True)
    (folder / "history.jsonl").write_text("x")
    (folder / "path").write_text(path)
    world.sessions.settle(ID)
    world.file(-5, [*EMPTY, *TALK])
    assert world.prepare() is None


# ---------------------------------------------------------------- the link


class Loads:
    """Sessions whose load is told by the test."""

    def __init__(self, *, refused: str | None = None, lost: str | None = None) -> None:
        self.refused, self.lost = refused, lost
        self.settled: list[str] = []

    def prepare(self, _session: str, _around: object) -> str | None:
        if self.refused == "io":
            raise PermissionError("no")
        return self.refused

    def loaded(self, _session: str) -> str | None:
        return self.lost

    def settle(self, session: str) -> None:
        self.settled.append(session)


def answers(loads: Any, answer: Any) -> Sequence[Any]:
    """What becomes of the answer to a load."""
    link = GeminiLink(loads, ID)
    assert link.start(around()) is None
    link.send({"id": 2, "method": "session/load", "params": {}})
    return link.line(json.dumps(answer).encode())


def test_a_good_load_is_passed_on() -> None:
    assert answers(Loads(), {"id": 2, "result": {}}) == [{"id": 2, "result": {}}]


def test_a_load_that_has_lost_the_history_is_an_error() -> None:
    assert answers(Loads(lost="gone"), {"id": 2, "result": {}}) == [{"id": 2, "error": {"message": "gone"}}]


def test_other_messages_are_passed_on() -> None:
    for message in ({"id": 3, "result": {}}, {"id": 2, "method": "x"}, {"id": 2, "error": {}}):
        assert answers(Loads(lost="gone"), message) == [message]


def test_what_is_in_the_way_is_said_before_the_cli_starts() -> None:
    assert GeminiLink(Loads(refused="no"), ID).start(around()) == "no"  # type: ignore[arg-type]
    why = GeminiLink(Loads(refused="io"), ID).start(around())  # type: ignore[arg-type]
    assert why is not None
    assert "cannot be kept safe" in why


def test_the_files_are_put_in_order_after_the_cli_has_ended() -> None:
    loads = Loads()
    GeminiLink(loads, ID).ended()  # type: ignore[arg-type]
    GeminiLink(loads, None).ended()  # type: ignore[arg-type]
    assert loads.settled == [ID]


def test_the_cli_is_started_without_its_wrapper() -> None:
    assert GeminiLink(Loads(), None).environment() == {"GEMINI_CLI_NO_RELAUNCH": "true"}  # type: ignore[arg-type]


def test_model_and_folders_are_options_of_the_command_line(tmp_path: Path) -> None:
    job = Job(("gemini", "--acp"), str(tmp_path), model="big", paths=("/a", "/b"))
    speaker, _ = gemini(job, env={"HOME": "/h"}, keep=str(tmp_path), clock=FakeClock())
    folders = ("--include-directories", "/a", "--include-directories", "/b")
    assert speaker.command() == ("gemini", "--acp", "--model", "big", *folders)
