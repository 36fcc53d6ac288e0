"""The waiting child's own records: what it asked, and what it gave up, on which evidence; also when no keeper lives."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from supervisor.adapters.ask_files import AskFiles
from supervisor.adapters.clock import SystemClock
from supervisor.adapters.review_log import ReviewLog
from supervisor.core.answering import by_person, unavailable
from supervisor.core.ask_reasons import undecidable
from supervisor.core.ask_wire import Response, encode_response
from supervisor.core.serving import ServingBeat, encode_beat
from supervisor.core.timing import MS
from supervisor.runtime import ask_call
from supervisor.runtime.compose import from_environment


class Leaping(SystemClock):
    """Half a second passes with every look."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def monotonic_ns(self) -> int:
        self.looks += 1
        return super().monotonic_ns() + self.looks * 500 * MS


class Child:
    """Asks session `p` of a root in which nobody has to live."""

    def __init__(self, home: Path) -> None:
        from_environment().prepare()
        self.home = home
        self.files = AskFiles(str(home / "forwarding"))
        self.env = {"SUPERVISOR_HOME": str(home), "SUPERVISOR_SESSION_ID": "c", "SUPERVISOR_PARENT_SESSION": "p"}
        self.answer: Response | None = None

    def ask(self, value: str = "echo hi", **more: Any) -> Any:
        return ask_call.ask(self.env, tool="bash", value=value, cwd="/", ended=self._peer, **more)

    def _peer(self) -> bool:
        """Plays the other side, at each look of the child."""
        if self.answer is not None:
            for ask_id in self.files.requests("p"):
                self.files.publish_response("p", ask_id, encode_response(self.answer))
        return False

    def log(self) -> list[dict[str, Any]]:
        return list(ReviewLog(str(self.home / "logs" / "asks.jsonl")).read())

    def events(self) -> list[str]:
        return [e["event"] for e in self.log()]


@pytest.fixture
def child(home: Path, monkeypatch: pytest.MonkeyPatch) -> Child:
    monkeypatch.setattr(ask_call, "SystemClock", Leaping)
    return Child(home)


def test_an_abandonment_is_on_record_with_its_evidence_although_nobody_lives(child: Child) -> None:
    child.files.beat("other", encode_beat(ServingBeat("other", os.getpid(), 0)))
    decision = child.ask()
    assert (decision.approved, decision.code) == (False, "not_serving")
    requested, abandoned = child.log()
    assert (requested["event"], abandoned["event"]) == ("requested", "abandoned")
    assert requested["ask"] == abandoned["ask"]
    assert abandoned | {"ask": 0, "at": 0, "reason": 0} == {
        "at": 0,
        "event": "abandoned",
        "ask": 0,
        "session": "p",
        "requester": "c",
        "agent": "unknown",
        "tool": "bash",
        "hops": [],
        "code": "not_serving",
        "reason": 0,
        "channel": "heartbeat",
        "state": "absent",
        "heartbeatAgeMs": None,
        "serving": ["other"],
    }
    assert decision.reason == abandoned["reason"]


def test_a_killed_server_s_last_heartbeat_has_an_age(child: Child) -> None:
    child.files.beat("p", encode_beat(ServingBeat("p", 2**30, 1)))
    assert child.ask().code == "not_serving"
    gone = child.log()[-1]
    assert (gone["state"], gone["heartbeatAgeMs"] > 0) == ("dead_pid", True)


def test_the_log_never_holds_what_was_to_be_used_and_is_the_owners_alone(child: Child) -> None:
    child.ask("echo the secret")
    path = child.home / "logs" / "asks.jsonl"
    assert b"secret" not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (by_person(approved=True, reason=None, remember=None, session="p", who="me", now=1), "decided"),
        (by_person(approved=False, reason="no", remember=None, session="p", who="me", now=1), "decided"),
        (unavailable(undecidable("p"), "p", 1), "no_rule"),
    ],
)
def test_what_was_answered_is_not_logged_twice(child: Child, answer: Response, code: str) -> None:
    child.answer = answer
    assert child.ask().code == code
    assert child.events() == ["requested"]


@pytest.mark.parametrize(
    ("env", "more", "code"),
    [
        ({"SUPERVISOR_PARENT_SESSION": ""}, {}, "no_target"),
        ({"SUPERVISOR_PARENT_SESSION": "c"}, {}, "self"),
        ({}, {"tool_input": "x" * ask_call.MAX_ASK}, "too_large"),
    ],
)
def test_one_that_could_not_even_ask_is_on_record_too(
    child: Child, env: dict[str, str], more: dict[str, Any], code: str
) -> None:
    child.env |= env
    assert child.ask(**more).code == code
    assert [(e["event"], e["code"]) for e in child.log()] == [("abandoned", code)]


def test_without_a_state_root_nothing_is_made(tmp_path: Path) -> None:
    env = {"SUPERVISOR_HOME": str(tmp_path / "none"), "SUPERVISOR_PARENT_SESSION": "p"}
    assert ask_call.ask(env, tool="bash", value="x", cwd="/").code == "not_serving"
    assert list(tmp_path.iterdir()) == []


def test_the_child_is_told_once_that_somebody_looks(child: Child) -> None:
    told: list[bool] = []
    looks = 0

    def peer() -> bool:
        nonlocal looks
        looks += 1
        child.files.beat("p", encode_beat(_mark("p")))
        (ask_id,) = child.files.requests("p")
        if 2 <= looks <= 5:
            child.files.claim("p", ask_id, encode_beat(_mark(ask_id)))
        elif looks > 5:
            child.files.remove_claim("p", ask_id)
        return looks > 8

    decision = ask_call.ask(child.env, tool="bash", value="x", cwd="/", ended=peer, looked=told.append)
    assert (decision.code, told) == ("withdrawn", [True, False])
    assert child.events() == ["requested", "abandoned"]


def _mark(session: str) -> ServingBeat:
    """In pi's form, of this process."""
    return ServingBeat(session, os.getpid(), SystemClock().wall_ms())


def test_the_log_is_moved_once_though_many_are_over_its_bound(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from_environment().prepare()
    monkeypatch.setattr("supervisor.adapters.review_log.MAX_LOG_BYTES", 2000)
    path = home / "logs" / "asks.jsonl"
    log = ReviewLog(str(path))
    for number in range(200):
        log.append("x", {"n": number}, at=1)
    assert path.stat().st_size + (home / "logs" / "asks.jsonl.1").stat().st_size < 5000
    assert [e["n"] for e in log.read()][-1] == 199


# The child's disk


def failing(child: Child, monkeypatch: pytest.MonkeyPatch, *numbers: int) -> None:
    """The first renames of request files fail so."""
    left, real = list(numbers), os.rename

    def rename(source: str, target: str) -> None:
        if "/requests/" in target and left:
            raise OSError(left.pop(0), "as told", target)
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)


def test_a_rename_that_is_forbidden_once_is_tried_again(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    child.answer = by_person(approved=True, reason=None, remember=None, session="p", who="me", now=1)
    failing(child, monkeypatch, errno.EPERM)
    assert child.ask().approved


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, "write_failed"), (errno.EDQUOT, "write_failed"), (errno.EACCES, "directories")]
)
def test_a_disk_that_does_not_take_the_request_is_a_denial_with_its_reason(
    child: Child, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    failing(child, monkeypatch, *[number] * 300)
    decision = child.ask()
    assert (decision.approved, decision.unavailable, decision.code) == (False, True, code)
    assert child.events() == ["abandoned"]
    assert [p for p in child.home.rglob("*") if ".tmp" in p.name] == []
