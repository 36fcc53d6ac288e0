"""The demo agent's session files."""

import json
import os
from pathlib import Path
from urllib.parse import quote

import pytest

from supervisor.demo import session
from supervisor.demo.session import Refused, Session


def start(where: Path, session_id: str = "a") -> Session:
    found = session.start(str(where), session_id=session_id, cwd="/w", pid=7, model=None)
    assert isinstance(found, Session)
    return found


def resume(where: Path, session_id: str = "a") -> Session:
    found = session.resume(str(where), session_id=session_id)
    assert isinstance(found, Session)
    return found


def records(file: Path) -> list[object]:
    return [json.loads(line) for line in file.read_bytes().splitlines()]


@pytest.mark.parametrize(
    "session_id",
    [
        "a",
        "A-z_0.9!~*'()",
        "a b",
        "a/b",
        "../x",
        "...",
        "%41",
        "é",
        "日本",
        "a\\b",
        '"',
        "-x",
        "a" * 200,
        "~",
        "😀",
    ],
)
def test_an_id_is_encoded_as_encode_uri_component_does(session_id: str) -> None:
    assert session.encode(session_id) == quote(session_id, safe="!~*'()")


@pytest.mark.parametrize(
    "session_id", ["", ".", "..", "a" * 201, "é" * 101, "a\nb", "a\0", "\x7f", "\x85", "\x1b[31m", "\udcff"]
)
def test_an_id_that_can_be_no_name_is_refused_and_makes_nothing(tmp_path: Path, session_id: str) -> None:
    where = str(tmp_path / "s")
    assert isinstance(session.start(where, session_id=session_id, cwd="/", pid=1, model=None), Refused)
    assert isinstance(session.resume(where, session_id=session_id), Refused)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"SUPERVISOR_DEMO_DIR": "/d", "SUPERVISOR_HOME": "/h"}, "/d"),
        ({"SUPERVISOR_DEMO_DIR": "", "SUPERVISOR_HOME": "/h"}, "/h/demo-sessions"),
        ({"SUPERVISOR_HOME": ""}, str(Path.home() / ".supervisor-demo")),
    ],
)
def test_the_folder_is_the_nearest_that_is_named(env: dict[str, str], expected: str) -> None:
    assert session.folder(env) == expected


def test_a_new_session_is_there_with_its_header_before_anything_else(tmp_path: Path) -> None:
    start(tmp_path, "a b")
    header = {"type": "session", "session_id": "a b", "cwd": "/w", "pid": 7}
    assert [header] == records(tmp_path / "a%20b.jsonl")


def test_the_model_is_noted_when_there_is_one(tmp_path: Path) -> None:
    session.start(str(tmp_path), session_id="a", cwd="/w", pid=7, model="m")
    header = {"type": "session", "session_id": "a", "cwd": "/w", "pid": 7, "model": "m"}
    assert [header] == records(tmp_path / "a.jsonl")


def test_every_missing_folder_is_made_for_the_user_alone(tmp_path: Path) -> None:
    start(tmp_path / "home" / "sessions")
    modes = [(tmp_path / part).stat().st_mode & 0o777 for part in ("home", "home/sessions")]
    assert modes == [0o700, 0o700]


def test_an_id_in_use_is_refused_and_its_file_untouched(tmp_path: Path) -> None:
    start(tmp_path)
    before = (tmp_path / "a.jsonl").read_bytes()
    again = session.start(str(tmp_path), session_id="a", cwd="/", pid=8, model=None)
    assert Refused("session ID a is already in use") == again
    assert before == (tmp_path / "a.jsonl").read_bytes()


def test_an_unknown_conversation_is_refused_and_not_made(tmp_path: Path) -> None:
    found = session.resume(str(tmp_path / "none"), session_id="a")
    assert Refused("no conversation found with session ID: a") == found
    assert list(tmp_path.iterdir()) == []


def test_a_resume_shows_in_the_time_of_the_file_and_a_refused_one_makes_none(tmp_path: Path) -> None:
    start(tmp_path)
    os.utime(tmp_path / "a.jsonl", (1, 1))
    resume(tmp_path)
    assert (tmp_path / "a.jsonl").stat().st_mtime > 1
    assert isinstance(session.resume(str(tmp_path), session_id="b"), Refused)
    assert [p.name for p in tmp_path.iterdir()] == ["a.jsonl"]


def test_a_resumed_conversation_goes_on_counting_in_the_same_file(tmp_path: Path) -> None:
    first = start(tmp_path)
    first.prompt("one")
    first.end(0)
    again = resume(tmp_path)
    assert again.turn == 1
    again.prompt("two")
    again.tool("make", code=2, output="no")
    assert records(tmp_path / "a.jsonl")[1:] == [
        {"type": "prompt", "text": "one", "turn": 1},
        {"type": "end", "code": 0},
        {"type": "prompt", "text": "two", "turn": 2},
        {"type": "tool", "command": "make", "code": 2, "output": "no"},
    ]


def test_a_torn_last_line_costs_only_itself(tmp_path: Path) -> None:
    first = start(tmp_path)
    first.prompt("one")
    file = tmp_path / "a.jsonl"
    with file.open("ab") as tail:
        tail.write(b'{"type":"prompt","te')
    again = resume(tmp_path)
    again.prompt("two")
    lines = file.read_bytes().splitlines()
    assert lines[-2] == b'{"type":"prompt","te'
    assert json.loads(lines[-1]) == {"type": "prompt", "text": "two", "turn": 2}
    assert resume(tmp_path).turn == 2


@pytest.mark.parametrize(
    "line", [b"", b"\xff", b"7", b"[]", b'{"type":"prompt"}', b'{"type":"prompt","turn":"9"}', b'{"turn":9}']
)
def test_a_line_that_is_no_prompt_counts_no_turn(line: bytes) -> None:
    assert session.last_turn([b'{"type":"prompt","turn":3}\n', line]) == 3


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    start(tmp_path, "real")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real.jsonl")
    with pytest.raises(OSError):
        session.resume(str(tmp_path), session_id="link")


def test_bytes_that_are_no_utf8_come_back_as_they_were(tmp_path: Path) -> None:
    raw = b"\xff\x00\xc3(\xed\xa0\x80 \xe2\x80\xa8 \r\n"
    start(tmp_path).prompt(raw.decode("utf-8", "surrogateescape"))
    last = records(tmp_path / "a.jsonl")[-1]
    assert isinstance(last, dict)
    assert raw == last["text"].encode("utf-8", "surrogateescape")
