"""Asking a pi session before a person: in pi's folder, and with nobody there the truth; over real files."""

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
from supervisor.adapters.proc_stat import boot_id, pid_namespace, start_ticks
from supervisor.core.ask_reasons import NO_TARGET, Reason
from supervisor.core.ask_wire import build_request
from supervisor.core.asks import Decision
from supervisor.core.serving import Judgement, Target
from supervisor.runtime.asking import Asker
from supervisor.runtime.pi_asking import PiAsker, asker_for
from supervisor.runtime.pi_parent import pi_parent
from supervisor.runtime.targets import resolve_target

S = "s-pi"
DATA = Path(__file__).parents[1] / "data" / "pi"
ME = (os.getpid(), start_ticks(os.getpid()) or 0)
GONE = (os.getpid(), 1)


class Folder:
    """pi's folder."""

    def __init__(self, tmp: Path) -> None:
        self.home = tmp / "state"
        self.root = tmp / "pi" / "sessions" / "permission-forwarding"
        self.session = self.root / "sessions" / S

    def target(self, process: tuple[int, int] | None = None) -> Target:
        return Target(S, "env", str(self.root), process)

    def asker(self) -> PiAsker:
        made = asker_for(self.target(), str(self.home), clock=SystemClock())
        assert isinstance(made, PiAsker)
        return made

    def ask(self, process: tuple[int, int] | None = None, **options: Any) -> Decision:
        request = build_request(
            "perm-1", now=1, requester="kid", target=S, agent_name="kid", tool="bash", value="echo hi", cwd="/", ours={}
        )
        return self.asker().ask(request, self.target(process), timeout_ms=20_000, **options)

    @contextmanager
    def pi(self, response: bytes, *, seen: Callable[[Path], None] = lambda _path: None) -> Iterator[None]:
        """A parent as the extension from npm is one: it looks, makes `responses`, answers, removes the request."""
        over = threading.Event()

        def look() -> None:
            while not over.wait(0.01):
                for path in (self.session / "requests").glob("*.json"):
                    (self.session / "responses").mkdir(exist_ok=True)
                    seen(path)
                    temp = self.session / "responses" / f"{path.name}.1.tmp"
                    temp.write_bytes(response)
                    temp.rename(self.session / "responses" / path.name)
                    path.unlink()

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def beat(self, **changes: Any) -> None:
        path = self.root / "serving" / f"{S}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        body = {"sessionId": S, "pid": os.getpid(), "updatedAt": SystemClock().wall_ms(), **changes}
        path.write_text(json.dumps(body))

    def judged(self, process: tuple[int, int] | None = None) -> Judgement:
        return self.asker().judge(self.target(process))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


# -- asked and answered


@pytest.mark.parametrize(
    ("name", "approved", "reason"),
    [
        ("approved", True, None),
        ("approved_for_session", True, None),
        ("denied", False, None),
        ("denied_with_reason", False, "because no"),
    ],
)
def test_what_a_real_pi_answers_is_the_decision(folder: Folder, name: str, approved: bool, reason: str | None) -> None:
    asked: list[dict[str, Any]] = []
    with folder.pi(
        (DATA / f"response-20.7.3-{name}.json").read_bytes(), seen=lambda p: asked.append(json.loads(p.read_bytes()))
    ):
        decision = folder.ask()
    assert (decision.approved, decision.reason, decision.unavailable) == (approved, reason, False)
    real = json.loads((DATA / "request-20.7.3-bash.json").read_bytes())
    assert set(real) <= set(asked[0]), "every field that pi itself writes"
    assert {k: type(v) for k, v in real.items()} == {k: type(asked[0][k]) for k in real}
    assert list(folder.session.rglob("*.json")) == []


def test_with_nobody_there_it_is_told_and_nothing_is_left(folder: Folder) -> None:
    decision = folder.ask()
    assert (decision.approved, decision.code, decision.unavailable) == (False, "not_serving", True)
    assert "it is a pi that takes up no requests" in (decision.reason or "")
    assert "have a person before that pi" in (decision.reason or "")
    assert list(folder.session.rglob("*.json")) == []
    assert not (folder.session / "responses").exists(), "it is for pi to make"


def test_a_contradictory_answer_is_a_denial(folder: Folder) -> None:
    with folder.pi(b'{"approved":true,"state":"denied","responderSessionId":"x"}'):
        assert folder.ask().code == "corrupt_response"


def test_one_that_is_adopted_meanwhile_asks_its_new_parent(folder: Folder) -> None:
    decision = folder.ask(moved=lambda: Target("s-new", "entry"))
    assert (decision.code, decision.unavailable) == ("not_serving", True)
    assert "'s-new'" in (decision.reason or "")
    assert list(folder.root.rglob("*.json")) == []


def test_a_folder_that_cannot_be_made_is_a_reason(folder: Folder) -> None:
    folder.root.parent.mkdir(parents=True)
    folder.root.write_text("no folder")
    assert folder.ask().code == "directories"


# -- does it serve


def test_a_heartbeat_is_what_counts(folder: Folder) -> None:
    folder.beat()
    assert folder.judged().answer == "serving"
    folder.beat(updatedAt=1)
    assert (folder.judged(ME).answer, folder.judged(ME).state) == ("not_serving", "stale")
    folder.beat(pid=2**22 + 1)
    assert folder.judged(ME).state == "dead_pid"


@pytest.mark.parametrize(
    ("process", "answer", "state"),
    [(ME, "serving", "alive"), (GONE, "not_serving", "dead_pid"), (None, "not_serving", "absent")],
)
def test_without_one_a_living_pi_that_has_taken_up_asks_serves(
    folder: Folder, process: tuple[int, int] | None, answer: str, state: str
) -> None:
    if process != GONE:
        assert folder.judged(process).state == "absent"
    (folder.session / "responses").mkdir(parents=True)
    assert (folder.judged(process).answer, folder.judged(process).state) == (answer, state)


def test_a_pi_that_takes_an_ask_up_is_waited_for_although_nothing_else_is_known_of_it(folder: Folder) -> None:
    asker, target = folder.asker(), folder.target()
    request = build_request(
        "perm-1", now=1, requester="kid", target=S, agent_name="kid", tool="bash", value="x", cwd="/", ours={}
    )
    assert asker._write(request, target) is None
    assert asker.judge(target).answer == "not_serving"
    (folder.session / "responses").mkdir()
    assert asker.judge(target).answer == "serving"
    (folder.session / "responses").rmdir()
    assert asker.judge(target).answer == "serving"


# -- who it is


def env(**more: str) -> dict[str, str]:
    return {"PI_CODING_AGENT_DIR": "/a/pi", **more}


def test_a_declared_parent_is_asked_in_its_folder(tmp_path: Path) -> None:
    found = resolve_target(env(PI_SUBAGENT_PARENT_SESSION=S), str(tmp_path))
    assert found == Target(S, "env", "/a/pi/sessions/permission-forwarding")
    found = resolve_target(env(PI_PARENT_SESSION=S, PI_PARENT_PID=str(os.getpid())), str(tmp_path))
    assert found == Target(S, "env", "/a/pi/sessions/permission-forwarding", ME)


def test_our_own_parent_comes_before_pis(tmp_path: Path) -> None:
    given = env(PI_SUBAGENT_PARENT_SESSION=S, SUPERVISOR_PARENT_SESSION="lead")
    assert resolve_target(given, str(tmp_path)) == Target("lead", "env")


@pytest.mark.parametrize("bad", ["", " ", "unknown", "..", "a\nb", "x" * 201])
def test_a_malformed_parent_of_pi_is_none(tmp_path: Path, bad: str) -> None:
    assert resolve_target(env(PI_SUBAGENT_PARENT_SESSION=bad), str(tmp_path)) == NO_TARGET


@pytest.mark.parametrize("pid", ["", "-1", "0", "x", "4194305", "²"])
def test_a_malformed_or_dead_pid_is_no_evidence(tmp_path: Path, pid: str) -> None:
    found = resolve_target(env(PI_SUBAGENT_PARENT_SESSION=S, PI_PARENT_PID=pid), str(tmp_path))
    assert isinstance(found, Target)
    assert found.process is None


def test_oneself_is_not_asked(tmp_path: Path) -> None:
    found = resolve_target(env(PI_SUBAGENT_PARENT_SESSION=S, SUPERVISOR_SESSION_ID=S), str(tmp_path))
    assert isinstance(found, Reason)
    assert found.code == "self"


def test_the_session_of_a_tool_shell_counts_only_below_that_pi() -> None:
    assert pi_parent(env(PI_SESSION_ID=S)) is None, "no ancestor of a test is a pi"
    assert pi_parent(env(PI_SESSION_ID=S, PI_SUBAGENT_PARENT_SESSION=S)) is not None
    assert pi_parent({"PI_SUBAGENT_PARENT_SESSION": S}) is None, "without a home there is no folder"


@pytest.mark.parametrize("folder_name", ["relative", 7, None, ""])
def test_a_recorded_pi_parent_is_asked_in_its_folder(tmp_path: Path, folder_name: Any) -> None:
    records = tmp_path / "process-matrix"
    records.mkdir()
    machine = {"hostId": "h", "bootId": boot_id(), "pidNamespace": pid_namespace()}
    process = {"machine": machine, "key": {"pid": ME[0], "startTicks": ME[1]}}

    def put(where: Any, with_process: Any) -> None:
        parent = {"sessionId": S, "asksFolder": where, "process": with_process}
        (records / "worker-kid.json").write_text(json.dumps({"sessionId": "kid", "parent": parent}))

    own = {"SUPERVISOR_SESSION_ID": "kid"}
    put("/a/f", process)
    assert resolve_target(own, str(tmp_path)) == Target(S, "entry", "/a/f", ME)
    for wrong in (None, 7, {}, {"machine": machine, "key": 7}, {**process, "machine": {**machine, "bootId": "other"}}):
        put("/a/f", wrong)
        assert resolve_target(own, str(tmp_path)) == Target(S, "entry", "/a/f")
    put(folder_name, process)
    assert resolve_target(own, str(tmp_path)) == Target(S, "entry")


def test_others_are_asked_as_ever(tmp_path: Path) -> None:
    assert type(asker_for(Target("lead", "env"), str(tmp_path), clock=SystemClock())) is Asker
