"""Whether claude's transcript shows that the call we ask about has been answered elsewhere."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from supervisor.hook.elsewhere import AT_ONCE, BEFORE, Elsewhere

START = 1_796_045_804_000  # 2026-11-30T13:36:44.000Z
EARLIER, LATER = "2026-11-30T13:36:43.900Z", "2026-11-30T13:36:45.600Z"
TOUCH = {"command": "touch MARK"}


def use(call: str, given: Any = TOUCH, *, name: str = "Bash", message: str = "msg_1") -> str:
    part = {"type": "tool_use", "id": call, "name": name, "input": given}
    return line("assistant", {"id": message, "role": "assistant", "content": [part]}, EARLIER)


def result(call: str, stamp: Any = LATER) -> str:
    part = {"type": "tool_result", "tool_use_id": call, "content": "done", "is_error": False}
    return line("user", {"role": "user", "content": [part]}, stamp)


def line(kind: str, message: Any, stamp: Any) -> str:
    return json.dumps({"type": kind, "message": message, "timestamp": stamp}) + "\n"


class Transcript:
    """A file that claude appends to."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, *lines: str) -> None:
        with self.path.open("a") as file:
            file.write("".join(lines))

    def watch(self) -> Elsewhere:
        return Elsewhere(str(self.path), tool_name="Bash", tool_input=TOUCH, since_ms=START)


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    return Transcript(tmp_path / "s.jsonl")


def test_the_result_of_our_call_is_an_answer(transcript: Transcript) -> None:
    transcript.add(use("t1"))
    watch = transcript.watch()
    assert not watch()
    transcript.add(result("t1"))
    assert watch()
    assert watch(), "and stays one"


def test_a_transcript_that_is_made_after_our_start_counts_as_well(transcript: Transcript) -> None:
    """Claude runs the hook before it has written anything: seen with 2.1.332."""
    watch = transcript.watch()
    assert not watch()
    transcript.add(use("t1"))
    assert not watch()
    transcript.add(result("t1"))
    assert watch()


def test_the_late_written_result_of_an_earlier_equal_call_is_none(transcript: Transcript) -> None:
    """Claude writes some 200 ms late: an earlier call's result can land after our start."""
    transcript.add(use("t0", message="msg_0"))
    watch = transcript.watch()
    transcript.add(result("t0", EARLIER))
    assert not watch()
    transcript.add(use("t1"), result("t1"))
    assert watch()


def test_of_two_equal_calls_at_once_one_result_is_not_ours(transcript: Transcript) -> None:
    transcript.add(use("t1"), use("t2"))
    watch = transcript.watch()
    transcript.add(result("t1"))
    assert not watch()
    transcript.add(result("t2"))
    assert watch()


def test_a_call_that_never_got_a_result_does_not_hide_ours(transcript: Transcript) -> None:
    transcript.add(use("t0", message="killed"), use("t1"))
    watch = transcript.watch()
    transcript.add(result("t1"))
    assert watch()


def test_an_equal_call_of_the_next_turn_does_not_hide_the_answer(transcript: Transcript) -> None:
    transcript.add(use("t1"))
    watch = transcript.watch()
    transcript.add(result("t1"), use("t2", message="msg_2"))
    assert watch()


@pytest.mark.parametrize(
    "other",
    [
        use("t9", {"command": "touch OTHER"}),
        use("t9", {**TOUCH, "description": "x"}),
        use("t9", name="Write"),
        use("t9", "touch MARK"),
    ],
)
def test_the_result_of_another_call_is_none(transcript: Transcript, other: str) -> None:
    transcript.add(use("t1"))
    watch = transcript.watch()
    transcript.add(other, result("t9"))
    assert not watch()


@pytest.mark.parametrize("stamp", [None, "", "soon", 7, "99999-01-01", "2026-11-30T13:36:43.999Z"])
def test_a_result_that_is_not_provably_later_than_our_start_is_none(transcript: Transcript, stamp: object) -> None:
    transcript.add(use("t1"))
    watch = transcript.watch()
    transcript.add(result("t1", stamp))
    assert not watch()


@pytest.mark.parametrize(
    "noise",
    [
        '"tool_result" is no JSON\n',
        '["tool_use"]\n',
        '{"message":"tool_use"}\n{"message":{"content":"tool_result"}}\n{"message":{"content":["tool_use"]}}\n',
        '{"x":' * 100_000 + '"tool_use\n',
        line("user", {"content": [{"type": "tool_result", "tool_use_id": ["t1"]}]}, LATER),
        line("assistant", {"id": 7, "content": [{"type": "tool_use", "id": 7, "name": "Bash", "input": TOUCH}]}, LATER),
        "\0\0\n",
    ],
)
def test_noise_is_passed_over(transcript: Transcript, noise: str) -> None:
    watch = transcript.watch()
    transcript.add(noise)
    assert not watch()
    transcript.add(use("t1"), result("t1"))
    assert watch()


def test_half_a_line_is_read_when_it_is_whole(transcript: Transcript) -> None:
    transcript.add(use("t1"))
    watch = transcript.watch()
    whole = result("t1")
    transcript.add(whole[:40])
    assert not watch()
    transcript.add(whole[40:])
    assert watch()


def test_a_call_within_the_last_part_before_our_start_is_found_behind_a_long_history(transcript: Transcript) -> None:
    transcript.add("x" * (BEFORE * 3) + "\n", use("t1"))
    watch = transcript.watch()
    transcript.add(result("t1"))
    assert watch()


def test_more_than_is_read_at_one_look_is_read_at_the_next_ones(transcript: Transcript) -> None:
    watch = transcript.watch()
    transcript.add(use("t1"), "y" * (2 * AT_ONCE) + "\n", result("t1"))
    assert any(watch() for _ in range(4))


def test_an_unchanged_file_is_not_opened(transcript: Transcript, monkeypatch: pytest.MonkeyPatch) -> None:
    transcript.add(use("t1"))
    watch = transcript.watch()
    monkeypatch.setattr(os, "open", None)
    assert not watch()


def test_a_file_that_is_written_anew_or_removed_is_followed(transcript: Transcript) -> None:
    transcript.add("z" * 5000 + "\n", use("t1"))
    watch = transcript.watch()
    transcript.add("z\n")
    assert not watch()
    transcript.path.unlink()
    assert not watch()
    transcript.add(use("t1"), result("t1"))
    assert watch()


def test_what_is_no_file_is_no_answer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo", tmp_path / "no" / "such", Path("/proc/self/mem")):
        watch = Elsewhere(str(path), tool_name="Bash", tool_input=TOUCH, since_ms=START)
        (tmp_path / "another").touch()
        assert not watch()
