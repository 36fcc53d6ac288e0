"""Asks of a real claude: through the hook to whoever decides, and what the model is told when nobody does."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e_real.driven import claude_spawns
from tests.e2e_real.panes import Panes
from tests.e2e_real.processes import below, command, kill, runs, send, until
from tests.e2e_real.rig import Rig, Row, kill_keeper

pytestmark = pytest.mark.real

TOUCH = "touch MARK"
REASON = "not on a Friday"
NOBODY = "this is not a refusal by the user"
OF_A_USER = (
    "denied by",
    "user doesn't want",
    "user has denied",
    "user rejected",
    "user denied",
    "rejected by the user",
)


@pytest.fixture(autouse=True)
def _column(record_property: Callable[[str, object], None]) -> None:
    record_property("cli", "claude")


# ---------------------------------------------------------------- somebody decides


def test_an_ask_is_allowed_by_answer(rig: Rig) -> None:
    mode(rig, "hold")
    lead, kid = lead_and_kid(rig)

    ask = waiting_ask(rig)
    assert (ask["session"], ask["requester"]) == (lead["sessionId"], kid["sessionId"])
    assert (ask["tool"], ask["value"], ask["hops"]) == ("bash", TOUCH, [])
    assert (ask["lineage"], ask["cwd"]) == (["lead", "kid"], str(rig.cwd))
    assert not mark(rig).exists(), "it has not waited"
    answer(rig, ask, "allow")

    ended(rig, "kid")
    assert mark(rig).exists()
    over(rig)


def test_an_ask_is_denied_with_a_reason_that_the_model_gets(rig: Rig) -> None:
    mode(rig, "hold")
    lead_and_kid(rig)

    answer(rig, waiting_ask(rig), "deny", "--reason", REASON)

    ended(rig, "kid")
    assert not mark(rig).exists()
    (told,) = results(rig)
    assert "denied by the user" in told
    assert REASON in told
    assert NOBODY not in told
    over(rig)


def test_rules_allow_and_deny_without_a_person(rig: Rig) -> None:
    mode(rig, "rules")
    rules = [
        {"action": "allow", "tool": "bash", "value": TOUCH},
        {"action": "deny", "tool": "bash", "value": "touch OTHER*", "reason": REASON},
    ]
    settings(rig, "asks.rules", json.dumps(rules))

    lead_and_kid(rig, f"RUN: touch OTHER\nRUN: {TOUCH}\nRUN: touch THIRD")

    ended(rig, "kid")
    assert [(rig.cwd / name).exists() for name in ("MARK", "OTHER", "THIRD")] == [True, False, False]
    by_rule, _, uncovered = results(rig)
    assert "denied by a rule" in by_rule
    assert REASON in by_rule
    assert_nobody_decided(uncovered, "none of them covers")
    events = [e["event"] for e in history(rig) if "ask" in e and e["event"] not in ("settled", "requested")]
    assert events == ["auto_denied", "auto_approved", "undecidable"]
    over(rig)


def test_a_headless_masters_own_ask_is_answered(rig: Rig) -> None:
    mode(rig, "hold")
    one = claude(rig, "one")

    ask = waiting_ask(rig)
    assert (ask["session"], ask["requester"]) == (one["sessionId"], one["sessionId"])
    answer(rig, ask, "allow")

    ended(rig, "one")
    assert mark(rig).exists()
    over(rig)


def test_an_ask_of_a_sub_agent_passes_a_headless_parent_on_its_way_to_the_root(rig: Rig) -> None:
    mode(rig, "hold")
    root = demo(rig, "root")
    middle = demo(rig, "middle", "--parent", "root")
    kid = claude(rig, "kid", "--parent", "middle", prompt=claude_spawns(TOUCH))

    ask = waiting_ask(rig, at=root)
    assert (ask["requester"], ask["hops"]) == (kid["sessionId"], [middle["sessionId"]])
    assert ask["lineage"] == ["root", "middle", "kid"]
    answer(rig, ask, "allow")

    ended(rig, "kid")
    assert mark(rig).exists()
    events = {e["event"] for e in history(rig) if e.get("ask") == ask["id"]}  # of three processes: their order is luck
    assert events - {"settled"} == {"requested", "escalated", "prompted", "answered", "answered_above"}
    over(rig)


def test_an_ask_is_answered_by_a_person_in_an_inbox_under_tmux(rig: Rig) -> None:
    panes = Panes(rig)
    try:
        lead = demo(rig, "lead")
        panes.open("supervisor inbox lead")
        panes.reads("No ask waits")
        claude(rig, "kid", "--parent", "lead")
        panes.reads(f"│ {TOUCH}")
        assert waiting_ask(rig)["session"] == lead["sessionId"]
        until(lambda: panes.types("a") and mark(rig).exists(), lambda: f"the tool has run: {panes.text()}")
        panes.reads("allowed: kid bash")
        ended(rig, "kid")
        panes.types("q")
        over(rig)
    finally:
        panes.close()


# ---------------------------------------------------------------- nobody decides


def test_an_ask_that_nobody_serves_is_no_refusal_by_the_user(rig: Rig) -> None:
    mode(rig, "attended")
    lead, _ = lead_and_kid(rig)

    ended(rig, "kid")
    assert not mark(rig).exists()
    (told,) = results(rig)
    assert_nobody_decided(told, f"session '{lead['sessionId']}' is not serving")
    over(rig)


def test_an_ask_ends_when_the_parent_and_its_keeper_are_killed(rig: Rig) -> None:
    mode(rig, "hold")
    lead, kid = lead_and_kid(rig)

    kill_parent_amid_an_ask(rig, lead, kid)

    ended(rig, "kid")
    assert not mark(rig).exists()
    (told,) = results(rig)
    assert_nobody_decided(told, "is not serving forwarded permission requests (its process is gone")
    assert files(rig, "sessions") == []
    rig.run("reconcile")
    rig.assert_no_process_left()


def test_nothing_runs_when_the_hook_is_killed(rig: Rig) -> None:
    kill_a_hook(rig)

    ended(rig, "kid")
    assert not mark(rig).exists()
    assert len(results(rig)) == 1, "the model was told that it has not run"
    until(lambda: not files(rig, "sessions"), lambda: f"its ask is gone: {files(rig, 'sessions')}")
    assert asks(rig) == []
    stop_parents(rig)
    rig.assert_no_process_left()
    assert files(rig) == []


@pytest.mark.parametrize("said", ["{", '{"hookSpecificOutput": {"decision": {"behavior": "maybe"}}}'])
def test_nothing_runs_when_the_hook_prints_garbage(rig: Rig, said: str) -> None:
    """In place of ours a program that answers at once, and not as it should."""
    hook = {"type": "command", "command": "/bin/echo", "args": [said]}
    file = rig.tmp / "garbled.json"
    file.write_text(json.dumps({"hooks": {"PermissionRequest": [{"matcher": "*", "hooks": [hook]}]}}))
    rig.profile("garbled", 'schema = 1\nname = "garbled"\nextends = "claude"\n[asks]\nadapter = "none"\n')

    rig.launch(
        "garbled", "--name", "kid", "--prompt-file", "-", "--", "--settings", str(file), stdin=f"RUN: {TOUCH}".encode()
    )

    ended(rig, "kid")
    assert not mark(rig).exists()
    assert len(results(rig)) == 1, "the model was told that it has not run"
    over(rig)


def test_nothing_runs_when_the_hook_hangs(rig: Rig) -> None:
    """What was allowed meanwhile has not run either, and nothing of the ask is left."""
    mode(rig, "hold")
    _, kid = lead_and_kid(rig)
    ask = waiting_ask(rig)
    (hook,) = hooks(kid)

    send(hook, signal.SIGSTOP)
    answer(rig, ask, "allow")
    send(hook, signal.SIGKILL)

    ended(rig, "kid")
    assert not mark(rig).exists()
    assert len(results(rig)) == 1, "the model was told that it has not run"
    until(lambda: not files(rig, "sessions"), lambda: f"its ask is gone: {files(rig, 'sessions')}")
    over(rig)


def kill_a_hook(rig: Rig) -> None:
    """SIGKILL it while its ask waits."""
    mode(rig, "hold")
    _, kid = lead_and_kid(rig)
    waiting_ask(rig)
    (hook,) = hooks(kid)
    send(hook, signal.SIGKILL)


def test_stop_amid_an_ask_leaves_nothing(rig: Rig) -> None:
    mode(rig, "hold")
    lead, kid = lead_and_kid(rig)
    waiting_ask(rig)
    (hook,) = hooks(kid)

    stopped = rig.run("stop", "kid")

    assert stopped.code == 0, stopped.err
    until(lambda: not runs(hook), f"the end of the hook {hook}")
    until(lambda: files(rig) == [f"serving/{lead['sessionId']}.json"], lambda: f"only the lead's mark: {files(rig)}")
    assert asks(rig) == []
    assert not mark(rig).exists()
    over(rig)


# ---------------------------------------------------------------- words


def settings(rig: Rig, key: str, value: str) -> None:
    """`settings set`."""
    done = rig.run("settings", "set", key, value)
    assert done.code == 0, done.err


def mode(rig: Rig, name: str) -> None:
    """When sessions serve."""
    settings(rig, "asks.mode", name)


def demo(rig: Rig, name: str, *options: str) -> Row:
    """A scripted agent that only is there."""
    return rig.launch("demo", "--name", name, *options, "--prompt-file", "-", stdin=b"SLEEP: 600")


def claude(rig: Rig, name: str, *options: str, prompt: str = f"RUN: {TOUCH}") -> Row:
    """A real one whose shell tool no rule of its own allows."""
    return rig.launch("claude", "--name", name, *options, "--prompt-file", "-", stdin=prompt.encode())


def lead_and_kid(rig: Rig, prompt: str = f"RUN: {TOUCH}") -> tuple[Row, Row]:
    """A scripted parent and its real child."""
    return demo(rig, "lead"), claude(rig, "kid", "--parent", "lead", prompt=prompt)


def mark(rig: Rig) -> Path:
    """What the tool makes."""
    return rig.cwd / "MARK"


def asks(rig: Rig) -> list[Row]:
    """`asks --json`."""
    rows: list[Row] = rig.run("asks", "--json").data
    return rows


def waiting_ask(rig: Rig, *, at: Row | None = None, value: str | None = None) -> Row:
    """The one ask that waits (at that session; for that value), once it does."""

    def there() -> Row | None:
        found = [ask for ask in asks(rig) if at is None or ask["session"] == at["sessionId"]]
        found = [ask for ask in found if value is None or ask["value"] == value]
        assert len(found) < 2, found
        return found[0] if found else None

    return until(there, lambda: f"an ask; told: {results(rig)}")


def answer(rig: Rig, ask: Row, decision: str, *words: str) -> None:
    """`answer`, which must apply."""
    done = rig.run("answer", ask["id"], decision, *words, "--json")
    assert (done.code, json.loads(done.out)["result"]) == (0, "applied"), done


def history(rig: Rig) -> list[Row]:
    """`asks --log`."""
    return [json.loads(line) for line in rig.run("asks", "--log", "--json").out.splitlines()]


def hooks(row: Row) -> list[int]:
    """The hook processes of an agent that wait."""
    return [pid for pid in below(row["pid"]) if "supervisor" in (c := command(pid)) and "hook" in c]


def files(rig: Rig, folder: str = ".") -> list[str]:
    """What is below forwarding/ besides folders."""
    root = rig.state / "forwarding"
    return sorted(str(p.relative_to(root)) for p in (root / folder).rglob("*") if not p.is_dir())


def results(rig: Rig) -> list[str]:
    """The tool results that the model got, oldest first."""
    last: list[str] = []
    for request in rig.model.requests():
        messages = request.get("req", {}).get("messages", [])
        found = [_text(part) for m in messages for part in _parts(m) if part.get("type") == "tool_result"]
        last = found if len(found) > len(last) else last
    return last


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _text(part: dict[str, Any]) -> str:
    content = part.get("content")
    return content if isinstance(content, str) else "".join(p.get("text", "") for p in content or [])


def assert_nobody_decided(told: str, why: str) -> None:
    """The model is told so, and nothing that it could take for the user's will."""
    assert why in told
    assert NOBODY in told
    said = told.lower()
    assert [words for words in OF_A_USER if words in said] == []


def kill_parent_amid_an_ask(rig: Rig, lead: Row, kid: Row) -> None:
    """SIGKILL it and its keeper while the one ask of its child waits there."""
    ask = waiting_ask(rig)
    marks = sorted(f"serving/{row['sessionId']}.json" for row in (lead, kid))
    request = f"sessions/{lead['sessionId']}/requests/{ask['id']}.json"
    # the kid's too: at its first mark a keeper removes those of dead ones, and what is told of them would be luck
    until(lambda: files(rig) == [*marks, request], lambda: f"both serve, one ask waits: {files(rig)}")
    kill_keeper(rig.row("lead"))
    kill(lead["pid"])


def ended(rig: Rig, name: str) -> None:
    """The agent has ended by itself: a denial is no failure."""
    hand_off = rig.hand_off(name)
    assert (hand_off["outcome"], hand_off["code"]) == ("exited", 0), rig.transcript(rig.row(name))[-2000:]


def stop_parents(rig: Rig) -> None:
    """The scripted ones, which would stay for minutes."""
    rows = rig.rows()
    for name in ("lead", "root"):
        if name in rows:
            stopped = rig.run("stop", name, "--cascade")
            assert stopped.code == 0, stopped.err


def over(rig: Rig) -> None:
    """The usual end of a test: nothing is left, in the folders of asks neither."""
    stop_parents(rig)
    rig.assert_nothing_left()
    assert files(rig) == []
