"""`supervisor asks --log`: the history, for people and as data."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from supervisor.adapters.ask_files import AskFiles
from supervisor.adapters.places import Places
from supervisor.cli.main import run
from supervisor.core.ask_wire import build_request, encode_request

EVENT = {
    "at": 1796048399829,
    "event": "answered",
    "ask": "perm-1",
    "agent": "kid",
    "hops": [],
    "approved": False,
    "by": {"kind": "user", "who": "ann"},
    "reason": None,
}


@pytest.fixture
def log(home: Path) -> None:
    places = Places(str(home), runtime_dir=None)
    places.prepare()
    Path(places.logs, "asks.jsonl").write_text(json.dumps(EVENT) + "\n")


def test_people_get_a_local_time_and_plain_words(log: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["asks", "--log"]) == 0
    at, *rest = capsys.readouterr().out.rstrip("\n").split("\t")
    assert re.fullmatch(r"2026-\d\d-\d\d \d\d:\d\d:\d\d", at)
    assert rest == ["answered", "perm-1", "agent=kid approved=no by=user ann"]


def test_programs_get_the_line_as_it_is(log: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["asks", "--log", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == EVENT


def test_an_answer_to_an_ask_that_has_ended_is_refused_and_told_what_became_of_it(
    log: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["answer", "perm-1", "allow", "--json"]) == 1
    told = capsys.readouterr()
    assert json.loads(told.out)["result"] == "already_answered"
    assert "perm-1 was not answered:" in told.err
    assert "Denied by ann." in told.err


def test_an_answer_to_an_ask_that_was_withdrawn_is_refused(
    log: None, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"at": 1, "event": "received", "ask": "perm-2"}
    Path(Places(str(home), runtime_dir=None).logs, "asks.jsonl").write_text(json.dumps(asked) + "\n")
    assert run(["answer", "perm-2", "deny", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["result"] == "gone"


def test_an_answer_to_an_ask_that_was_never_made_is_not_found(log: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["answer", "perm-9", "allow", "--json"]) == 3
    told = capsys.readouterr()
    assert (told.out, "no ask 'perm-9' waits" in told.err) == ("", True)


def test_the_words_of_an_agent_that_was_answered_cannot_drive_the_terminal(
    log: None, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = build_request(
        "perm-3",
        now=1,
        requester="kid",
        target="lead",
        agent_name="k\x1b[2Jid\nallowed: all",
        tool="ba\x9bsh",
        value="ls",
        cwd="/",
        ours={},
    )
    AskFiles(Places(str(home), runtime_dir=None).forwarding).write_request("lead", "perm-3", encode_request(request))
    assert run(["answer", "perm-3", "deny"]) == 0
    assert capsys.readouterr().out == "denied: k\\x1b[2Jid allowed: all ba\\x9bsh ls\n"
