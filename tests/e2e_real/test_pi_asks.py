"""Asks of a real pi through its permission extension, and asks of others to a real pi before a person."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e_real.clis import FAKE_MODEL, ROOT, Clis
from tests.e2e_real.processes import kill, until
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


def test_a_stopped_pi_child_takes_its_ask_along(rig: Rig) -> None:
    mode(rig, "hold")
    demo(rig, "lead")
    pi(rig, "kid", f"RUN: {TOUCH}", "--parent", "lead")
    waiting_ask(rig)

    stopped = rig.run("stop", "kid", "--grace", "1")

    assert stopped.code == 0, stopped.err
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


# ---------------------------------------------------------------- words


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
