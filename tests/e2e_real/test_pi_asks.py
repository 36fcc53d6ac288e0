"""Asks of a real pi through its permission extension, and asks of others to a real pi before a person."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e_real.clis import FAKE_MODEL, ROOT, Clis, pi_session_files
from tests.e2e_real.panes import Panes
from tests.e2e_real.pi_person import NO, NO_WITH_REASON, YES, Dialog, RpcPi
from tests.e2e_real.processes import kill, send, until
from tests.e2e_real.rig import Rig, Row, kill_keeper
from tests.e2e_real.test_asks import (
    answer,
    asks,
    demo,
    ended,
    files,
    history,
    mark,
    mode,
    over,
    stop_parents,
    waiting_ask,
)

pytestmark = pytest.mark.real

TERM_CODE = 143
TOUCH = "touch MARK"
REASON = "not on a Friday"
EXTENSION = ("--no-extensions", "-e", str(Clis(ROOT).permission_extension), "--model", FAKE_MODEL)


@pytest.fixture(autouse=True)
def _column(record_property: Callable[[str, object], None]) -> None:
    record_property("cli", "pi")


# ---------------------------------------------------------------- a pi child asks


def test_a_pi_childs_ask_is_allowed(rig: Rig) -> None:
    mode(rig, "hold")
    lead, kid = demo(rig, "lead"), pi(rig, "kid", f"RUN: {TOUCH} && true", "--parent", "lead")

    ask = waiting_ask(rig)
    assert (ask["session"], ask["requester"]) == (lead["sessionId"], kid["sessionId"])
    assert (ask["tool"], ask["value"]) == ("bash", f"{TOUCH} && true"), "all that will run, not its first command"
    assert (ask["lineage"], ask["cwd"]) == (["lead", "kid"], str(rig.cwd))
    until(lambda: served(rig) == [lead["sessionId"]], lambda: f"pi's folder is served: {served(rig)}")
    answer(rig, ask, "allow")

    ended(rig, "kid")
    assert mark(rig).exists()
    assert [e["event"] for e in history(rig) if e.get("ask") == ask["id"]][:2] == ["relayed", "prompted"]
    left_tidy(rig)


def test_a_pi_child_is_denied_with_a_reason_that_the_model_gets(rig: Rig) -> None:
    mode(rig, "hold")
    demo(rig, "lead")
    pi(rig, "kid", f"RUN: {TOUCH}", "--parent", "lead")

    answer(rig, waiting_ask(rig), "deny", "--reason", REASON)

    ended(rig, "kid")
    assert not mark(rig).exists()
    (told,) = results(rig)
    assert REASON in told
    assert "not decided" not in told
    left_tidy(rig)


def test_an_approval_for_a_pi_child_is_remembered_and_covers_exactly_what_was_shown(rig: Rig) -> None:
    mode(rig, "hold")
    demo(rig, "lead")
    pi(rig, "kid", f"RUN: {TOUCH}\nRUN: rm MARK\nRUN: {TOUCH}\nRUN: touch OTHER", "--parent", "lead")

    answer(rig, waiting_ask(rig, value=TOUCH), "allow", "--remember", "child")
    answer(rig, waiting_ask(rig, value="rm MARK"), "allow")
    answer(rig, waiting_ask(rig, value="touch OTHER"), "deny")  # pi itself would have remembered `touch *`

    ended(rig, "kid")
    assert mark(rig).exists(), "the second time nobody was asked"
    assert not (rig.cwd / "OTHER").exists()
    events = [e["event"] for e in history(rig) if e["event"] in ("answered", "auto_approved")]
    assert events == ["answered", "answered", "auto_approved", "answered"]
    left_tidy(rig)


def test_a_pi_child_that_nobody_serves_is_told_the_truth(rig: Rig) -> None:
    mode(rig, "attended")
    lead = demo(rig, "lead")
    pi(rig, "kid", f"RUN: {TOUCH}", "--parent", "lead")

    ended(rig, "kid")
    assert not mark(rig).exists()
    (told,) = results(rig)
    assert f"not decided: session '{lead['sessionId']}' is not serving" in told
    assert "this is not a refusal by the user" in told
    assert served(rig) == []
    left_tidy(rig)


def test_a_pi_childs_ask_ends_when_the_parent_and_its_keeper_are_killed(rig: Rig) -> None:
    mode(rig, "hold")
    lead = demo(rig, "lead")
    pi(rig, "kid", f"RUN: {TOUCH}", "--parent", "lead")
    waiting_ask(rig)

    kill_keeper(rig.row("lead"))
    kill(lead["pid"])

    ended(rig, "kid")
    assert not mark(rig).exists()
    (told,) = results(rig)
    assert "is not serving forwarded permission requests (its process is gone" in told
    assert requests(rig) == []
    rig.run("reconcile")
    rig.assert_no_process_left()


def test_nothing_runs_when_an_answer_is_garbled_or_who_relays_it_hangs(rig: Rig) -> None:
    """The keeper of a pi relays its asks: it may be stopped, and anybody may have written into pi's folder."""
    mode(rig, "hold")
    demo(rig, "lead")
    pi(rig, "kid", f"RUN: {TOUCH}\nRUN: touch OTHER", "--parent", "lead")
    waiting_ask(rig, value=TOUCH)
    (asked,) = forwarding(rig).glob("sessions/*/requests/*.json")
    (asked.parent.parent / "responses" / asked.name).write_text("{")

    ask = waiting_ask(rig, value="touch OTHER")
    kid = rig.row("kid")
    send(kid["keeperPid"], signal.SIGSTOP)
    try:
        answer(rig, ask, "allow")
        kill(kid["pid"])
    finally:
        send(kid["keeperPid"], signal.SIGCONT)

    assert rig.hand_off("kid")["signal"] == "KILL"
    assert [name for name in ("MARK", "OTHER") if (rig.cwd / name).exists()] == []
    assert len(results(rig)) == 1, "of the garbled answer the model was told"
    left_tidy(rig)


def test_a_stopped_pi_child_takes_its_ask_along(rig: Rig) -> None:
    mode(rig, "hold")
    demo(rig, "lead")
    pi(rig, "kid", f"RUN: {TOUCH}", "--parent", "lead")
    waiting_ask(rig)

    stopped = rig.run("stop", "kid", "--grace", "60")

    assert stopped.code == 0, stopped.err
    assert rig.hand_off("kid")["code"] == TERM_CODE, "it has ended by itself"
    until(lambda: asks(rig) == [], "nobody is asked any more")
    assert not mark(rig).exists()
    left_tidy(rig)


def test_an_ask_of_a_pi_whose_keeper_was_killed_is_found_by_the_next(rig: Rig) -> None:
    mode(rig, "hold")
    demo(rig, "lead")
    pi(rig, "kid", f"RUN: {TOUCH}", "--parent", "lead")
    ask = waiting_ask(rig)

    kill_keeper(rig.row("kid"))
    rig.run("reconcile")
    answer(rig, ask, "allow")

    until(lambda: mark(rig).exists(), "it runs")
    rig.hand_off("kid")
    stop_parents(rig)
    rig.assert_no_process_left()  # the killed one has left its heartbeat
    assert (files(rig), served(rig), requests(rig)) == ([], [], [])


def test_a_headless_master_pi_asks_its_own_session(rig: Rig) -> None:
    mode(rig, "hold")
    one = pi(rig, "one", f"RUN: {TOUCH}")

    ask = waiting_ask(rig)
    assert (ask["session"], ask["requester"]) == (one["sessionId"], one["sessionId"])
    answer(rig, ask, "allow")

    ended(rig, "one")
    assert mark(rig).exists()
    left_tidy(rig)


def test_a_pi_that_a_pi_starts_by_itself_is_served_too(rig: Rig) -> None:
    mode(rig, "hold")
    lead = demo(rig, "lead")
    own = f"pi -p {' '.join(EXTENSION)} 'RUN: {TOUCH}' </dev/null"
    pi(rig, "kid", f"RUN: {own}", "--parent", "lead")
    answer(rig, waiting_ask(rig, value=own), "allow")

    ask = waiting_ask(rig, value=TOUCH)
    assert (ask["session"], ask["lineage"]) == (lead["sessionId"], ["unknown"])
    answer(rig, ask, "allow")

    ended(rig, "kid")
    assert mark(rig).exists()
    left_tidy(rig)


def test_a_resumed_pi_goes_on_in_its_session_and_asks_as_before(rig: Rig) -> None:
    mode(rig, "hold")
    demo(rig, "lead")
    kid = pi(rig, "kid", "RUN: touch ONE", "--parent", "lead")
    answer(rig, waiting_ask(rig), "allow")
    ended(rig, "kid")

    resumed = rig.run("resume", "kid", "--detach", "--json", "--prompt", f"RUN: {TOUCH}")
    assert resumed.code == 0, resumed.err
    ask = waiting_ask(rig)
    assert (ask["requester"], ask["value"]) == (kid["sessionId"], TOUCH)
    answer(rig, ask, "allow")

    until(lambda: rig.row("kid")["status"] in ("closed", "resumable"), "its second end")
    assert mark(rig).exists()
    assert "[turn 2]" in rig.transcript(rig.row("kid")), "with its history"
    (file,) = pi_session_files(rig.env, kid["sessionId"])
    file.unlink()
    again = rig.run("resume", "kid", "--detach", "--prompt", "hello")
    assert again.code != 0
    assert pi_session_files(rig.env, kid["sessionId"]) == []
    left_tidy(rig)


# ---------------------------------------------------------------- a real pi is asked

PI = "pi-parent-1"
ASKER = """
import json, supervisor
with supervisor.join("script") as me:
    for value in ("touch ONE", "touch TWO"):
        decision = me.ask("bash", value)
        print(json.dumps([decision.approved, decision.reason, decision.code]), flush=True)
"""


def test_a_python_child_gets_the_answers_of_a_real_pis_person(rig: Rig) -> None:
    def person(dialog: Dialog) -> str:
        if dialog["method"] == "input":
            return REASON
        return YES if "touch ONE" in dialog["title"] else NO_WITH_REASON

    with RpcPi(rig, PI, EXTENSION, person=person) as parent:
        told = script(rig, PI_SUBAGENT_PARENT_SESSION=PI, PI_PARENT_PID=str(parent.pid))

    assert told == [[True, None, "decided"], [False, REASON, "decided"]]
    assert ["touch ONE" in d["title"] for d in parent.dialogs] == [True, False, False]
    assert (requests(rig), served(rig)) == ([], [])
    rig.assert_nothing_left()


def test_a_script_asks_a_real_pi_and_is_told_when_it_is_gone(rig: Rig) -> None:
    env = {"PI_SUBAGENT_PARENT_SESSION": PI}
    words = ("ask", "--tool", "bash", "--value", "touch X", "--json")
    with RpcPi(rig, PI, EXTENSION, person=lambda _dialog: NO):
        denied = rig.run(*words, env=env)
    nobody = rig.run(*words, env=env)

    assert (denied.code, json.loads(denied.out)["unavailable"]) == (1, False)
    assert (nobody.code, json.loads(nobody.out)["code"]) == (4, "not_serving")
    assert f"session '{PI}' is not serving" in nobody.err
    assert requests(rig) == []


def test_a_claude_that_a_real_pi_launches_is_answered_through_that_pi(rig: Rig) -> None:
    launch = f"supervisor launch --detach --wait exit claude --name kid --prompt 'RUN: {TOUCH}'"
    with RpcPi(rig, PI, EXTENSION, person=lambda _dialog: YES) as parent:
        parent.send({"type": "prompt", "message": f"RUN: {launch}"})
        ended_well(rig, "kid")
        until(lambda: [m for m in parent.said if m.get("type") == "agent_end"], "the end of pi's turn")

    assert mark(rig).exists()
    own, of_kid = [d["title"] for d in parent.dialogs]
    assert launch in own
    assert TOUCH in of_kid
    entry = rig.entry("kid")
    assert (entry["parent"]["sessionId"], entry["parent"]["pid"]) == (PI, parent.pid)
    assert entry["parent"]["asksFolder"] == str(forwarding(rig))
    assert requests(rig) == []
    rig.assert_nothing_left()


@pytest.fixture
def panes(rig: Rig) -> Iterator[Panes]:
    made = Panes(rig)
    yield made
    made.close()


def test_what_children_ask_is_answered_on_the_screen_of_their_pi_parent(rig: Rig, panes: Panes) -> None:
    lead = panes.launch("pi", "lead", "--", *EXTENSION, prompt="hello")
    panes.shows("lead", "TOOLRESULT<<")
    rig.launch("demo", "--name", "script", "--parent", "lead", "--prompt-file", "-", stdin=b"ASK: bash touch ONE")
    ask = waiting_ask(rig)
    assert ask["session"] == lead["sessionId"]

    panes.shows("lead", "touch ONE")
    panes.key("lead", "Enter")  # the first choice: yes
    ended(rig, "script")
    assert "ALLOWED" in rig.transcript(rig.row("script"))

    pi(rig, "kid", f"RUN: {TOUCH}", "--parent", "lead")  # pi to pi: by themselves
    panes.shows("lead", TOUCH)
    panes.key("lead", "Escape")
    ended(rig, "kid")
    assert not mark(rig).exists()

    rig.launch("demo", "--name", "other", "--parent", "lead", "--prompt-file", "-", stdin=b"ASK: bash touch TWO")
    panes.shows("lead", "touch TWO")
    answer(rig, waiting_ask(rig), "allow")  # by an inbox: the dialog has lost its ask
    ended(rig, "other")
    panes.key("lead", "Enter")
    assert rig.run("stop", "lead", "--grace", "1").code == 0
    panes.close()
    rig.assert_nothing_left()
    assert (files(rig), served(rig), requests(rig)) == ([], [], [])


# ---------------------------------------------------------------- words


def script(rig: Rig, **env: str) -> list[list[object]]:
    """What a Python program that joins is told, in an environment of its own."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", ASKER],
        env=rig.env | env,
        cwd=rig.cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def ended_well(rig: Rig, name: str) -> None:
    """An agent that somebody else launches, once it is on record and has ended."""
    until(lambda: name in rig.rows(), f"{name} on record")
    ended(rig, name)


def pi(rig: Rig, name: str, prompt: str, *options: str) -> Row:
    """A real pi whose bash asks."""
    return rig.launch("pi", "--name", name, *options, "--prompt-file", "-", "--", *EXTENSION, stdin=prompt.encode())


def forwarding(rig: Rig) -> Path:
    """pi's own folder of asks."""
    return Path(rig.env["PI_CODING_AGENT_DIR"]) / "sessions" / "permission-forwarding"


def served(rig: Rig) -> list[str]:
    """The ids that somebody serves in pi's folder."""
    return sorted(p.stem for p in forwarding(rig).glob("serving/*.json"))


def requests(rig: Rig) -> list[str]:
    """What waits or lies unfetched in pi's folder."""
    return sorted(p.name for p in forwarding(rig).glob("sessions/*/*/*"))


def results(rig: Rig) -> list[str]:
    """The tool results that pi's model got, oldest first."""
    last: list[str] = []
    for request in rig.model.requests():
        messages = request.get("req", {}).get("messages", [])
        found = [m["content"] if isinstance(m["content"], str) else json.dumps(m["content"]) for m in messages
                 if m.get("role") == "tool"]  # fmt: skip
        last = found if len(found) > len(last) else last
    return last


def left_tidy(rig: Rig) -> None:
    """Nothing is left in our folders, nor in pi's."""
    over(rig)
    assert (served(rig), requests(rig)) == ([], [])
