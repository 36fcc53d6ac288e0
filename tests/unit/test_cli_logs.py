"""`supervisor logs`: the tail, following to the end, the cap under a reader, and what reaches a terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from supervisor.adapters.transcripts import MARK, append, cap
from supervisor.cli.following import Ending, Reader, follow
from supervisor.cli.harmless import Harmless
from supervisor.cli.main import run
from supervisor.core.entry import Entry, KeeperRef, Output, Terminal
from supervisor.core.identity import ProcessKey, ProcessRef
from supervisor.core.transitions import closed
from supervisor.runtime.compose import Context
from supervisor.testing import make_entry, make_hand_off

DEADLINE_S = 10.0
Captured = pytest.CaptureFixture[str]


class Agent:
    """An agent of this test's on record: the test's own process plays agent and keeper, so it reads as alive."""

    def __init__(self, home: Path) -> None:
        self.context = Context(dict(os.environ), cwd=str(home))
        self.context.prepare()
        self.path = Path(self.context.parts.transcripts.path("entry-lead"))
        self.context.parts.transcripts.create(str(self.path))
        machine = self.context.processes.machine()
        key = self.context.processes.identify(os.getpid())
        assert key is not None
        me = ProcessRef(machine, key)
        entry = make_entry("lead", keeper=KeeperRef("k1", me), output=Output(transcript=str(self.path)))
        self.entry = replace(entry, generation=replace(entry.generation, process=me))
        self.context.store.create(self.entry)

    def write(self, data: bytes) -> None:
        append(str(self.path), data)

    def change(self, **changes: Any) -> None:
        after = self.context.store.replace_if_unchanged(self.entry, replace(self.entry, **changes))
        assert isinstance(after, Entry)
        self.entry = after

    def end(self) -> None:
        now = self.context.clock.wall_ms()
        after = self.context.store.replace_if_unchanged(self.entry, closed(self.entry, make_hand_off(), now=now))
        assert isinstance(after, Entry)
        self.entry = after


@pytest.fixture
def agent(home: Path) -> Agent:
    return Agent(home)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.005)


# The tail


def lines(count: int) -> bytes:
    return b"".join(b"line %d\n" % n for n in range(1, count + 1))


@pytest.mark.parametrize(
    ("options", "first", "count"),
    [([], 61, 40), (["-n", "3"], 98, 3), (["-n", "0"], None, 0), (["-n", "500"], 1, 100), (["--all"], 1, 100)],
)
def test_the_last_lines_are_shown(
    agent: Agent, capsys: Captured, options: list[str], first: int | None, count: int
) -> None:
    agent.write(lines(100))
    assert run(["logs", *options, "lead"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == count
    assert shown[:1] == ([f"line {first}"] if first else [])


def test_an_unfinished_last_line_is_a_line(agent: Agent, capsys: Captured) -> None:
    agent.write(b"one\ntwo\nthr")
    assert run(["logs", "-n", "2", "lead"]) == 0
    assert capsys.readouterr().out == "two\nthr"


def test_an_empty_transcript_shows_nothing(agent: Agent, capsys: Captured) -> None:
    assert run(["logs", "lead"]) == 0
    assert capsys.readouterr().out == ""


def test_piped_bytes_are_raw(agent: Agent, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    data = b"\x1b]0;t\x07 \xff\x00\r\n\x1b[31mred\n"
    agent.write(data)
    argv = [sys.executable, "-P", "-m", "supervisor", "logs", "lead"]
    assert subprocess.run(argv, capture_output=True, timeout=30, check=True).stdout == data


def test_the_whole_of_a_long_transcript_is_shown(agent: Agent, capsys: Captured) -> None:
    agent.write(lines(50_000))
    assert run(["logs", "--all", "lead"]) == 0
    assert capsys.readouterr().out.encode() == lines(50_000)


def test_lines_and_all_exclude_each_other(agent: Agent) -> None:
    assert run(["logs", "--all", "-n", "3", "lead"]) == 2


def test_a_negative_number_is_a_usage_error(agent: Agent) -> None:
    assert run(["logs", "-n", "-1", "lead"]) == 2


def test_an_unknown_agent_is_not_found(agent: Agent, capsys: Captured) -> None:
    assert run(["logs", "nope"]) == 3
    assert "there is no agent 'nope'" in capsys.readouterr().err


def test_an_ended_agents_transcript_is_shown_too(agent: Agent, capsys: Captured) -> None:
    agent.write(b"last words\n")
    agent.end()
    assert run(["logs", "lead"]) == 0
    assert capsys.readouterr().out == "last words\n"


@pytest.mark.parametrize(
    ("terminal", "said"),
    [
        (Terminal(kind="foreground"), "it ran in the foreground, its output is on that terminal"),
        (
            Terminal(kind="tmux", pane="%7", socket="/s"),
            "its output is in tmux pane %7. Go there: supervisor attach lead",
        ),
    ],
)
def test_an_agent_without_a_transcript_is_answered_with_where_its_output_is(
    agent: Agent, capsys: Captured, terminal: Terminal, said: str
) -> None:
    agent.change(terminal=terminal, output=Output())
    assert run(["logs", "lead"]) == 1
    assert said in capsys.readouterr().err


def test_a_transcript_that_was_removed_is_named(agent: Agent, capsys: Captured) -> None:
    agent.path.unlink()
    assert run(["logs", "lead"]) == 1
    assert str(agent.path) in capsys.readouterr().err


# Following, in this process


class Follower:
    """`follow` in a thread of its own."""

    def __init__(self, agent: Agent, *, offset: int = 0) -> None:
        self.seen = bytearray()
        self.looks = 0
        self.thread = threading.Thread(target=self._run, args=(agent, offset), daemon=True)
        self.thread.start()

    def _run(self, agent: Agent, offset: int) -> None:
        for data in follow(Context(agent.context.env, cwd="/"), agent.entry, str(agent.path), offset):
            self.seen += data
            self.looks += not data

    def wait_for(self, size: int) -> None:
        until(lambda: len(self.seen) >= size)

    def ended(self) -> None:
        self.thread.join(DEADLINE_S)
        assert not self.thread.is_alive()


def test_following_shows_what_comes_and_ends_with_the_agent(agent: Agent) -> None:
    follower = Follower(agent)
    agent.write(b"one\n")
    until(lambda: bytes(follower.seen) == b"one\n")
    agent.write(b"two\n")
    agent.end()
    follower.ended()
    assert bytes(follower.seen) == b"one\ntwo\n"


def test_following_an_ended_agent_shows_the_rest_and_ends(agent: Agent) -> None:
    agent.write(lines(20_000))
    agent.end()
    follower = Follower(agent)
    follower.ended()
    assert bytes(follower.seen) == lines(20_000)


def test_following_starts_at_the_offset(agent: Agent) -> None:
    agent.write(b"one\n")
    follower = Follower(agent, offset=4)
    agent.write(b"two\n")
    agent.end()
    follower.ended()
    assert bytes(follower.seen) == b"two\n"


def test_a_write_wakes_the_follower_well_before_the_poll(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisor.cli.following.TICK_MS", 60_000)
    follower = Follower(agent)
    until(lambda: follower.looks > 0)
    agent.write(b"one\n")
    until(lambda: bytes(follower.seen) == b"one\n")
    agent.end()
    agent.write(b"\n")
    follower.ended()


def test_reading_does_not_wake_the_reader(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisor.cli.following.TICK_MS", 1000)
    follower = Follower(agent)
    agent.write(b"one\n")
    until(lambda: bytes(follower.seen) == b"one\n")
    looks, started = follower.looks, time.monotonic()
    until(lambda: time.monotonic() > started + 0.5)
    assert follower.looks - looks <= 2
    agent.end()
    follower.ended()


def test_without_a_watch_the_poll_is_enough(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    from watchdog.observers import Observer

    def refuse(_self: object) -> None:
        raise OSError(24, "inotify instance limit reached")

    monkeypatch.setattr(Observer, "start", refuse)
    follower = Follower(agent)
    agent.write(b"one\n")
    until(lambda: bytes(follower.seen) == b"one\n")
    agent.end()
    follower.ended()


def test_following_ends_when_the_record_is_removed(agent: Agent) -> None:
    follower = Follower(agent)
    until(lambda: follower.looks > 0)
    assert agent.context.store.remove_if_unchanged(agent.entry)
    follower.ended()


def test_following_ends_when_agent_and_keeper_are_dead_and_nobody_records_it(agent: Agent) -> None:
    dead = ProcessRef(agent.context.processes.machine(), ProcessKey(os.getpid(), 1))
    agent.write(b"last\n")
    agent.change(keeper=KeeperRef("k1", dead), generation=replace(agent.entry.generation, process=dead))
    follower = Follower(agent)
    follower.ended()
    assert bytes(follower.seen) == b"last\n"


def test_following_goes_on_while_only_the_keeper_is_dead(agent: Agent) -> None:
    agent.change(keeper=KeeperRef("k1", ProcessRef(agent.context.processes.machine(), ProcessKey(os.getpid(), 1))))
    assert Ending(agent.context, agent.entry).seen() is False


def test_a_restart_does_not_end_it(agent: Agent) -> None:
    from supervisor.core.entry import Starting

    agent.change(state=Starting(since=1), generation=replace(agent.entry.generation, process=None))
    assert Ending(agent.context, agent.entry).seen() is False


# The cap


def read_all(reader: Reader) -> bytes:
    return b"".join(iter(reader.read, b""))


def test_a_reader_at_the_end_goes_on_after_the_cap_without_repeating(tmp_path: Path) -> None:
    path = tmp_path / "t.log"
    path.write_bytes(lines(20_000))
    reader = Reader(str(path), 0)
    assert read_all(reader) == lines(20_000)
    assert cap(str(path), 100_000)
    append(str(path), b"after\n")
    assert read_all(reader) == b"after\n"


def test_a_slow_reader_within_the_kept_half_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "t.log"
    path.write_bytes(lines(20_000))
    place = len(lines(19_000))
    reader = Reader(str(path), place)
    assert cap(str(path), 100_000)
    assert read_all(reader) == lines(20_000)[place:]


def test_a_slow_reader_whose_place_was_dropped_gets_the_mark_and_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisor.cli.following._SETTLE_LOOKS", 2)
    path = tmp_path / "t.log"
    path.write_bytes(lines(20_000))
    reader = Reader(str(path), len(lines(100)))
    assert cap(str(path), 100_000)
    shown = read_all(reader)
    assert shown.startswith(MARK)
    assert shown.endswith(b"line 20000\n")


def test_a_file_that_grew_past_the_place_after_its_cap_is_noticed(tmp_path: Path) -> None:
    """The size alone would not show it."""
    path = tmp_path / "t.log"
    path.write_bytes(lines(20_000))
    place = len(lines(19_500))
    reader = Reader(str(path), place)
    assert cap(str(path), 100_000)
    more = b"".join(b"more %d\n" % n for n in range(60_000))
    append(str(path), more)
    assert path.stat().st_size > place
    assert read_all(reader) == lines(20_000)[place:] + more


def test_a_reader_between_truncation_and_the_kept_half_waits_for_it(tmp_path: Path) -> None:
    path = tmp_path / "t.log"
    path.write_bytes(lines(1_000))
    reader = Reader(str(path), 0)
    assert read_all(reader) == lines(1_000)
    path.write_bytes(b"")
    keeper = threading.Timer(0.1, lambda: append(str(path), MARK + lines(1_000)[-5000:] + b"after\n"))
    keeper.start()
    assert reader.read() == b"after\n"
    keeper.join()


def test_a_transcript_emptied_by_somebody_is_read_from_its_new_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisor.cli.following._SETTLE_LOOKS", 2)
    path = tmp_path / "t.log"
    path.write_bytes(b"old\n")
    reader = Reader(str(path), 0)
    assert read_all(reader) == b"old\n"
    path.write_bytes(b"")
    assert reader.read() == b""
    append(str(path), b"new\n")
    assert read_all(reader) == b"new\n"


def test_nothing_is_lost_or_repeated_under_a_cap_at_work(agent: Agent) -> None:
    """A writer, the cap, and a follower that keeps up, all at once."""
    follower = Follower(agent)
    written = bytearray()
    for number in range(60):
        block = b"".join(b"%d.%d\n" % (number, n) for n in range(1000))
        agent.write(block)
        written += block
        follower.wait_for(len(written))
        cap(str(agent.path), 64 * 1024)
    agent.end()
    follower.ended()
    assert bytes(follower.seen) == bytes(written)


# A terminal


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (b"plain\ttext\n", "plain\ttext\n"),
        (b"\x1b[1;31mred\x1b[0m\n", "\x1b[1;31mred\x1b[0m\n"),
        (b"\x1b[38;2;1;2;3mrgb\x1b[38:5:9mx", "\x1b[38;2;1;2;3mrgb\x1b[38:5:9mx"),
        (b"\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        (b"\x1b]52;c;ZXZpbA==\x1b\\", "\\x1b]52;c;ZXZpbA==\\x1b\\"),
        (b"\x1b[2J\x1b[H", "\\x1b[2J\\x1b[H"),
        (b"\x1b[?1049h\x1b[6n", "\\x1b[?1049h\\x1b[6n"),
        (b"\x1bc\x1bPq\x1b\\", "\\x1bc\\x1bPq\\x1b\\"),
        (b"\xc2\x9b31m\xc2\x9d0;x", "\\x9b31m\\x9d0;x"),
        (b"\x9b31m", "\ufffd31m"),
        (b"a\x08b\x7f\x00\x05", "a\\x08b\\x7f\\x00\\x05"),
        (b"50%\r100%\r\n", "50%\n100%\n"),
        ("\u202eevil\u2066".encode(), "\\x202eevil\\x2066"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"\x1b[31", "\\x1b[31"),
        (b"\x1b", "\\x1b"),
        (b"\x1b[" + b"1;" * 100 + b"m", "\\x1b[" + "1;" * 100 + "m"),
    ],
)
def test_only_colours_reach_a_terminal(given: bytes, shown: str) -> None:
    """Given whole, and byte by byte: a sequence may be cut anywhere."""
    for size in (len(given), 1):
        harmless = Harmless()
        parts = [harmless.feed(given[n : n + size]) for n in range(0, len(given), size)]
        assert ("".join(parts) + harmless.end()).removesuffix("\x1b[0m") == shown.removesuffix("\x1b[0m")


def test_a_character_cut_in_two_stays_whole() -> None:
    harmless = Harmless()
    assert harmless.feed("é".encode()[:1]) + harmless.feed("é".encode()[1:]) == "é"


def test_colours_are_put_back_at_the_end() -> None:
    harmless = Harmless()
    harmless.feed(b"\x1b[31mred")
    assert harmless.end() == "\x1b[0m"
    plain = Harmless()
    plain.feed(b"red")
    assert plain.end() == ""


class Command:
    """`supervisor logs …` as a process of its own, with its standard output as given."""

    def __init__(self, *words: str, stdout: int) -> None:
        argv = [sys.executable, "-P", "-m", "supervisor", "logs", *words]
        self.process = subprocess.Popen(argv, stdout=stdout, stderr=subprocess.PIPE)

    def code(self) -> int:
        return self.process.wait(DEADLINE_S)

    def errors(self) -> bytes:
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def start() -> Iterator[Callable[..., Command]]:
    commands: list[Command] = []

    def make(*words: str, stdout: int = subprocess.PIPE) -> Command:
        commands.append(Command(*words, stdout=stdout))
        return commands[-1]

    yield make
    for command in commands:
        command.close()


def read_until(fd: int, wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        data = os.read(fd, 65536)
        assert data, f"ended after {seen!r}"
        seen += data
    return seen


def test_a_real_terminal_gets_harmless_text(agent: Agent, start: Callable[..., Command]) -> None:
    agent.write(b"\x1b]0;evil\x07\x1b[32mgreen\x1b[0m end\n")
    ours, theirs = pty.openpty()
    try:
        command = start("lead", stdout=theirs)
        seen = read_until(ours, b"end")
        assert command.code() == 0
    finally:
        os.close(ours)
        os.close(theirs)
    assert b"\\x1b]0;evil\\x07" in seen
    assert b"\x1b[32mgreen" in seen
    assert b"\x1b]" not in seen


def test_following_by_command_ends_with_the_agent(agent: Agent, start: Callable[..., Command]) -> None:
    agent.write(b"before\n")
    command = start("-f", "lead")
    assert command.process.stdout is not None
    read_until(command.process.stdout.fileno(), b"before\n")
    agent.write(b"after\n")
    read_until(command.process.stdout.fileno(), b"after\n")
    agent.end()
    assert command.code() == 0
    assert command.errors().decode() == ""


def test_ctrl_c_ends_it_quietly_with_130(agent: Agent, start: Callable[..., Command]) -> None:
    agent.write(b"before\n")
    command = start("-f", "lead")
    assert command.process.stdout is not None
    read_until(command.process.stdout.fileno(), b"before\n")
    command.process.send_signal(signal.SIGINT)
    assert command.code() == 130
    assert command.errors().decode() == ""


def test_a_reader_that_goes_away_ends_it_quietly_though_the_agent_is_silent(
    agent: Agent, start: Callable[..., Command]
) -> None:
    agent.write(b"before\n")
    command = start("-f", "lead")
    assert command.process.stdout is not None
    read_until(command.process.stdout.fileno(), b"before\n")
    command.process.stdout.close()
    assert command.code() == 0
    assert command.errors().decode() == ""


def test_a_reader_that_goes_away_in_the_middle_ends_it_quietly(agent: Agent, start: Callable[..., Command]) -> None:
    agent.write(lines(100_000))
    command = start("--all", "lead")
    assert command.process.stdout is not None
    command.process.stdout.read(10)
    command.process.stdout.close()
    assert command.code() == 0
    assert command.errors().decode() == ""


def test_help_holds_an_example(capsys: Captured) -> None:
    assert run(["logs", "--help"]) == 0
    assert "Example: supervisor logs -f -n 100 lead" in capsys.readouterr().out
