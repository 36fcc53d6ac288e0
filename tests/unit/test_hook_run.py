"""One run of the hook up to the ask: what it reads, when it has no opinion, and whose session it asks for."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from supervisor.adapters.clock import SystemClock
from supervisor.core.asks import SERVING_GRACE_MS, Decision
from supervisor.core.timing import TICK_MS
from supervisor.hook import run as hook_run
from supervisor.hook.ended import Ended
from supervisor.hook.run import Outcome, read_input, run
from supervisor.runtime import ask_call
from supervisor.testing.clock import FakeClock

DATA = Path(__file__).parent.parent / "data" / "hook"
BASH = (DATA / "claude-PermissionRequest-Bash.stdin.json").read_bytes()
START = (DATA / "claude-SessionStart.stdin.json").read_bytes()
IN_A_TREE = {"SUPERVISOR_SESSION_ID": "s-1", "SUPERVISOR_ENTRY_ID": "b03a054629d3"}
Ask = Callable[..., Decision]


class Asking:
    """In the place of `ask`: notes what it was called with, and gives the answer of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[dict[str, Any]] = []
        self.answer: Ask = lambda **_how: Decision(approved=True, state="approved")
        monkeypatch.setattr(ask_call, "ask", self._ask)

    def _ask(self, env: Any, **how: Any) -> Decision:
        self.calls.append({"env": dict(env), **how})
        return self.answer(**how)


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Asking:
    return Asking(monkeypatch)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing comes on a standard input that stays open: not waited for in tests."""
    for name in ("INPUT_WAIT_MS", "MISUSED_WAIT_MS"):
        monkeypatch.setattr(hook_run, name, 20)


@contextmanager
def given(data: bytes, *, open_end: bool = False) -> Iterator[int]:
    """A pipe with these bytes, written by a thread (they may be more than a pipe holds)."""
    reader, writer = os.pipe()

    def write() -> None:
        left = data
        try:
            while left:
                left = left[os.write(writer, left) :]
        except BrokenPipeError:
            pass
        if not open_end:
            os.close(writer)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield reader
    finally:
        os.close(reader)
        thread.join()
        if open_end:
            os.close(writer)


def go(data: bytes, *words: str, env: dict[str, str] | None = None, open_end: bool = False) -> Outcome:
    with given(data, open_end=open_end) as fd:
        return run(words or ("claude",), env=IN_A_TREE if env is None else env, stdin=fd)


def message(outcome: Outcome) -> str:
    decision = json.loads(outcome.out)["hookSpecificOutput"]["decision"]
    assert (decision["behavior"], outcome.code) == ("deny", 0)
    return str(decision["message"])


def test_an_understood_request_is_asked_once_with_all_it_says(asking: Asking, home: Path) -> None:
    outcome = go(BASH, env={**IN_A_TREE, "SUPERVISOR_HOME": str(home)})
    assert '"behavior":"allow"' in outcome.out
    (call,) = asking.calls
    assert (call["tool"], call["value"], call["cwd"]) == ("bash", "touch MARK", "<CWD>")
    assert call["tool_input"] == {"command": "touch MARK"}
    assert call["env"]["SUPERVISOR_SESSION_ID"] == "s-1"


@pytest.mark.parametrize("data", [BASH, START, b"", b"no JSON", b"x" * 5_000_000])
@pytest.mark.parametrize("env", [{}, {"SUPERVISOR_SESSION_ID": ""}, {"SUPERVISOR_HOME": "/x"}])
def test_outside_a_supervisor_tree_the_hook_has_no_opinion(asking: Asking, data: bytes, env: dict[str, str]) -> None:
    assert go(data, env=env) == Outcome()
    assert asking.calls == []


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", BASH[:-5], BASH * 2, b"x" * 5_000_000, b"[" * 1_000_000])
def test_in_a_tree_what_is_no_event_is_denied_and_never_asked(asking: Asking, data: bytes) -> None:
    assert message(go(data)).startswith("not decided: ")
    assert asking.calls == []


def test_an_input_that_does_not_end_is_not_waited_for_for_ever(asking: Asking, quick: None) -> None:
    assert "no JSON" in message(go(BASH[:50], open_end=True))


def test_a_closed_standard_input_is_denied(asking: Asking) -> None:
    assert "no hook input" in message(run(["claude"], env=IN_A_TREE, stdin=987))


def test_a_too_long_input_is_read_to_its_end_so_that_its_writer_reads_our_reply() -> None:
    with given(b"x" * 9_000_000) as fd:
        assert len(read_input(fd, wait_ms=60_000, clock=SystemClock())) == 4 * 1024 * 1024 + 1
        assert os.read(fd, 1) == b""


def test_no_time_to_read_reads_nothing() -> None:
    with given(b"x") as fd:
        assert read_input(fd, wait_ms=0, clock=FakeClock()) == b""


def withdrawn(look: Callable[[], object] = lambda: None) -> Ask:
    """Asks as `ask` does: until nobody needs the answer any more."""

    def answer(**how: Any) -> Decision:
        look()
        ended = how["ended"]
        while not ended():
            threading.Event().wait(0.005)
        return Decision(approved=False, state="denied", code="withdrawn", reason="withdrawn", unavailable=True)

    return answer


def test_the_deadline_is_a_denial_of_its_own(asking: Asking) -> None:
    asking.answer = withdrawn()
    assert "not decided in time" in message(go(BASH, "claude", "--deadline", "0.05"))


def test_a_signal_is_a_denial_too_for_silence_would_let_another_decide(asking: Asking) -> None:
    asking.answer = lambda **_how: Decision(False, "denied", "told to end", "withdrawn", unavailable=True)
    assert "told to end" in message(go(BASH, "codex"))


def test_nothing_is_printed_to_a_cli_that_is_gone(asking: Asking) -> None:
    asking.answer = withdrawn()
    theirs, ours = os.pipe()
    os.close(theirs)
    with given(BASH) as fd:
        assert run(["claude"], env=IN_A_TREE, stdin=fd, stdout=ours) == Outcome()
    os.close(ours)


@pytest.mark.parametrize(("cli", "quiet"), [("claude", True), ("codex", False)])
def test_an_answer_in_claudes_own_dialog_ends_the_hook_quietly(
    asking: Asking, tmp_path: Path, cli: str, quiet: bool
) -> None:
    """Codex has no dialog beside its hook, and its transcript is another one: not looked at."""
    transcript = tmp_path / "s-1.jsonl"
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "touch MARK"}}
    got = {"type": "tool_result", "tool_use_id": "t1"}
    lines = [
        {"message": {"id": "m", "content": [use]}},
        {"message": {"content": [got]}, "timestamp": "2999-01-01T00:00:00Z"},
    ]
    asking.answer = withdrawn(lambda: transcript.write_text("".join(f"{json.dumps(x)}\n" for x in lines)))
    data = json.dumps({**json.loads(BASH), "transcript_path": str(transcript)}).encode()
    outcome = go(data, cli, "--deadline", "1" if quiet else "0.05")
    assert (outcome == Outcome()) is quiet


def test_after_a_switch_inside_the_cli_it_asks_as_the_session_of_the_entry(asking: Asking) -> None:
    go(json.dumps({**json.loads(BASH), "session_id": "s-2"}).encode())
    assert asking.calls[0]["env"]["SUPERVISOR_SESSION_ID"] == IN_A_TREE["SUPERVISOR_SESSION_ID"]


def test_a_session_start_is_proven_and_prints_nothing(asking: Asking, home: Path) -> None:
    assert go(START, env={**IN_A_TREE, "SUPERVISOR_HOME": str(home)}) == Outcome()
    proof = json.loads((home / "proofs" / "b03a054629d3.json").read_text())
    assert (proof["sessionId"], proof["above"][0][0]) == ("<UUID_1>", os.getppid())


def test_a_session_start_that_cannot_be_proven_complains_and_prints_nothing(asking: Asking) -> None:
    outcome = go(START)
    assert (outcome.out, outcome.code) == ("", 0)
    assert "not proven" in outcome.err


@pytest.mark.parametrize("words", [("gemini",), (), ("claude", "--nonsense"), ("claude", "--deadline", "never")])
@pytest.mark.parametrize("env", [IN_A_TREE, {}])
def test_a_cli_that_calls_the_hook_wrongly_gets_a_denial(
    asking: Asking, words: tuple[str, ...], env: dict[str, str]
) -> None:
    with given(BASH) as fd:
        outcome = run(words, env=env, stdin=fd)
    assert "called wrongly" in message(outcome)
    assert "usage: " in outcome.err
    assert asking.calls == []


@pytest.mark.parametrize("data", [b"", b"\n", START])
def test_a_person_that_calls_it_wrongly_gets_the_usage(data: bytes, quick: None) -> None:
    with given(data) as fd:
        outcome = run(["gemini"], env=IN_A_TREE, stdin=fd)
    assert (outcome.out, outcome.code) == ("", 2)
    assert "there is no CLI 'gemini'" in outcome.err and "usage: " in outcome.err


def test_help_reads_nothing_and_prints_nothing_where_a_cli_would_read_it() -> None:
    with given(BASH) as fd:
        outcome = run(["--help"], env=IN_A_TREE, stdin=fd)
        assert os.read(fd, 9999) == BASH
    assert (outcome.out, outcome.code) == ("", 2)
    assert outcome.err.startswith("usage: ")


def test_nobody_serving_is_refused_after_eight_ticks(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real ask, with its looks counted: each is at least one tick after the one before."""
    looks: list[bool] = []
    real = Ended.__call__

    def counted(self: Ended) -> bool:
        looks.append(real(self))
        return looks[-1]

    monkeypatch.setattr(Ended, "__call__", counted)
    env = {**IN_A_TREE, "SUPERVISOR_HOME": str(home), "SUPERVISOR_PARENT_SESSION": "p-1"}
    told = message(go(BASH, env=env))
    assert "session 'p-1' is not serving" in told
    assert told.endswith("this is not a refusal by the user")
    assert 2 <= len(looks) <= SERVING_GRACE_MS // TICK_MS + 2
    assert list((home / "forwarding" / "sessions" / "p-1" / "requests").iterdir()) == []
