"""Real CLIs behind their drivers: the same promises for each, whatever its protocol."""

import shlex
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e_real.between import garbles
from tests.e2e_real.clis import DUMMY_KEY
from tests.e2e_real.driven import BUSY, CLAUDE, CODEX, KINDS, MARK, OPENCODE, Kind, cli_of, tool
from tests.e2e_real.homes import KEY
from tests.e2e_real.processes import below, command, environ, kill, runs, send, until, watched_command_lines
from tests.e2e_real.rig import Rig, Row, kill_keeper
from tests.e2e_real.test_asks import (
    NOBODY,
    REASON,
    answer,
    asks,
    demo,
    ended,
    files,
    kill_parent_amid_an_ask,
    mark,
    mode,
    over,
    waiting_ask,
)
from tests.e2e_real.test_one_agent import (
    AWKWARD,
    MIB,
    assert_never_seen,
    await_pids,
    nasty_tool,
    prompts_at_the_model,
    stop,
)

pytestmark = pytest.mark.real

NO_SESSION = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(params=KINDS, ids=str)
def kind(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Kind:
    """Each driven CLI in turn."""
    found: Kind = request.param
    record_property("cli", found.profile.partition("-")[0])
    return found


def family(rig: Rig, kind: Kind, prompt: str) -> tuple[Row, Row]:
    """A scripted parent that keeps asks, and a driven child."""
    mode(rig, "hold")
    lead = demo(rig, "lead")
    return lead, kind.launch(rig, prompt, "--parent", "lead")


def session_of(rig: Rig, name: str = "kid") -> str:
    """What it has proven."""
    found: str = rig.entry(name)["generation"]["session"]
    return found


# ---------------------------------------------------------------- a turn


def test_a_turn_with_its_session_proven_and_its_prompt_intact(rig: Rig, kind: Kind) -> None:
    secret = "SECRET-PROMPT-4711"
    with watched_command_lines() as lines:
        kind.launch(rig, f"{AWKWARD}\n{secret}")
        ended(rig, "kid")

    session = session_of(rig)
    context = rig.entry("kid")["agent"]["resumeContext"]
    (file,) = kind.sessions(rig, session)
    known = str(file) if kind.has_file else None
    assert (context["providerSessionId"], context["sessionFile"]) == (session, known)
    until(lambda: f"{AWKWARD}\n{secret}" in prompts(rig), lambda: f"the prompt at the model: {prompts(rig)}")
    assert not list(rig.cwd.rglob("PWNED"))
    assert_never_seen(lines, secret, KEY, DUMMY_KEY)
    said = rig.transcript(rig.row("kid"))
    assert f"[session {session}]" in said
    assert "TOOLRESULT<<(none)>> [turn 1]" in said
    assert '{"' not in said.replace("TOOLRESULT", "")
    rig.assert_nothing_left()


def test_a_codex_notes_no_folder_as_trusted_and_has_its_sandbox_all_the_same(rig: Rig) -> None:
    """Its user's `config.toml` stays as it is, whatever sandbox it speaks of."""
    config = Path(rig.env["CODEX_HOME"]) / "config.toml"
    config.write_text('sandbox_mode = "danger-full-access"\n' + config.read_text())
    before = config.read_bytes()
    outside = rig.tmp / "outside"

    CODEX.launch(rig, f"RUN: touch {outside}")

    ended(rig, "kid")
    assert before == config.read_bytes()
    assert not outside.exists()
    rig.assert_nothing_left()


def prompts(rig: Rig) -> list[str]:
    """User texts in all requests, of either shape."""
    found = prompts_at_the_model(rig)
    for request in rig.model.requests():
        for item in request.get("req", {}).get("input", []):
            if isinstance(item, dict) and item.get("role") == "user":
                found += [part.get("text", "") for part in item.get("content") or [] if isinstance(part, dict)]
        for content in request.get("req", {}).get("contents", []):
            found += [part.get("text", "") for part in content.get("parts", [])]
    return found


def test_a_prompt_of_a_mebibyte_arrives_intact(rig: Rig, kind: Kind) -> None:
    line = "0123456789 abcdef 'quoted' $(x) é\n"
    text = (line * (MIB // len(line.encode()) + 1)).encode()[: MIB - 4].decode(errors="ignore") + "END"

    kind.launch(rig, text)

    ended(rig, "kid")
    assert text in prompts(rig)
    rig.assert_nothing_left()


# ---------------------------------------------------------------- asks


def test_an_allowed_ask_runs_and_a_denied_one_does_not(rig: Rig, kind: Kind) -> None:
    lead, kid = family(rig, kind, kind.asks(MARK))

    ask = waiting_ask(rig)
    assert (ask["session"], ask["requester"]) == (lead["sessionId"], kid["sessionId"])
    assert (ask["tool"], ask["value"], ask["cwd"]) == ("bash", MARK, str(rig.cwd))
    assert not mark(rig).exists(), "it has not waited"
    answer(rig, ask, "allow")
    ended(rig, "kid")
    assert mark(rig).exists()

    kind.launch(rig, kind.asks("touch OTHER"), "--parent", "lead", name="other")
    answer(rig, waiting_ask(rig), "deny", "--reason", REASON)
    ended(rig, "other")
    assert not (rig.cwd / "OTHER").exists()
    told = "\n".join(kind.told_of_tools(rig))
    assert not kind.told or REASON in told, told
    assert f"denied by the user at session '{lead['sessionId']}': {REASON}" in rig.transcript(rig.row("other"))
    over(rig)


def test_with_nobody_to_decide_it_is_refused_and_that_is_no_users_will(rig: Rig, kind: Kind) -> None:
    demo(rig, "lead")
    kind.launch(rig, kind.asks(MARK), "--parent", "lead")

    ended(rig, "kid")
    assert not mark(rig).exists()
    said = rig.transcript(rig.row("kid"))
    assert "is not serving forwarded permission requests" in said
    told = "\n".join(kind.told_of_tools(rig))
    assert not kind.told or NOBODY in told, told
    over(rig)


def test_an_ask_ends_when_the_driven_childs_parent_and_its_keeper_are_killed(rig: Rig, kind: Kind) -> None:
    lead, kid = family(rig, kind, kind.asks(MARK))

    kill_parent_amid_an_ask(rig, lead, kid)

    ended(rig, "kid")
    assert not mark(rig).exists()
    assert "is not serving forwarded permission requests (its process is gone" in rig.transcript(kid)
    told = "\n".join(kind.told_of_tools(rig))
    assert not kind.told or NOBODY in told, told
    assert files(rig, "sessions") == []
    rig.run("reconcile")
    rig.assert_no_process_left()


def test_a_sub_session_asks_too(rig: Rig, kind: Kind) -> None:
    """Or is not begun at all: then nothing has run, and its transcript says so."""
    family(rig, kind, kind.asks_below(MARK))

    if kind.sub_sessions:
        answer(rig, waiting_ask(rig), "allow")

    ended(rig, "kid")
    assert mark(rig).exists() == kind.sub_sessions, "the turn was not over before its sub-session was"
    assert kind.sub_sessions or "denied by policy" in rig.transcript(rig.row("kid"))
    over(rig)


def test_an_agent_that_its_tool_launches_is_its_child_and_saves_its_session(rig: Rig, kind: Kind) -> None:
    path = f"PATH={shlex.quote(rig.env['PATH'])}"  # codex gives its tools a login shell's
    words = ("launch", "--detach", "--name", "inner", "--prompt", "hello", kind.profile)
    _, kid = family(rig, kind, kind.asks(f"{path} {rig.command} {shlex.join(words)}"))

    answer(rig, waiting_ask(rig), "allow")

    ended(rig, "kid")
    ended(rig, "inner")
    inner = rig.row("inner")
    assert inner["parentSessionId"] == kid["sessionId"]
    assert len(kind.sessions(rig, session_of(rig, "inner"))) == 1
    assert session_of(rig, "inner") != session_of(rig)
    over(rig)


# ---------------------------------------------------------------- told while it runs


def test_an_interrupt_ends_the_turn_and_a_follow_up_begins_another_in_the_same_session(rig: Rig, kind: Kind) -> None:
    kid = kind.run(rig, BUSY)
    busy = tool(kid["pid"])

    assert rig.run("interrupt", "kid").code == 0
    until(lambda: not runs(busy), f"the end of the tool {busy}")
    until(lambda: "the turn has been interrupted" in rig.transcript(kid), lambda: rig.transcript(kid))
    assert rig.row("kid")["verdict"] == "alive", "the agent stays"
    session = session_of(rig)

    sent = rig.run("send", "kid", "--prompt-file", "-", stdin=b"and now?")
    assert sent.code == 0, sent.err
    ended(rig, "kid")
    assert "and now?" in prompts(rig)
    assert rig.transcript(kid).count("[the turn has ended]") == 1, rig.transcript(kid)
    assert session_of(rig) == session
    assert rig.run("send", "kid", "--", "too late").code == 1
    rig.assert_nothing_left()
    assert list((rig.state / "drivers").iterdir()) == []


# ---------------------------------------------------------------- its end


def test_stop_amid_a_tool_leaves_nothing(rig: Rig, kind: Kind) -> None:
    prompt, path = nasty_tool(rig)
    kid = kind.run(rig, prompt.removeprefix("RUN: "))
    pids = in_view(path, kid)

    stop(rig, "kid")

    assert [pid for pid in pids if runs(pid)] == []
    hand_off = rig.hand_off("kid")
    assert (hand_off["code"], hand_off["cause"], hand_off["survivors"]) == (143, "stopped", [])


def in_view(path: Path, kid: Row) -> list[int]:
    """The tool's processes as seen from here: in a sandbox it has written pids of its own."""
    await_pids(path, 4)
    return until(lambda: [p for p in below(kid["pid"]) if command(p) == BUSY], f"tools below {kid['pid']}")


def test_a_hung_and_then_killed_driver_runs_nothing_and_leaves_nothing(rig: Rig, kind: Kind) -> None:
    """What was allowed while it hung has not run."""
    _, kid = family(rig, kind, kind.asks(MARK))
    ask = waiting_ask(rig)
    cli = cli_of(kid["pid"])

    send(kid["pid"], signal.SIGSTOP)
    answer(rig, ask, "allow")
    kill(kid["pid"])

    assert rig.hand_off("kid")["signal"] == "KILL"
    until(lambda: not runs(cli), f"the end of the CLI {cli}")
    until(lambda: asks(rig) == [], lambda: f"no ask is left: {asks(rig)}")
    assert not mark(rig).exists()
    over(rig)


def test_a_garbled_answer_of_a_driver_runs_nothing(rig: Rig, kind: Kind) -> None:
    seen = garbles(rig, kind, "answer")
    family(rig, kind, kind.asks(MARK))

    ask = waiting_ask(rig)
    assert not seen.exists(), "nothing was answered yet"
    answer(rig, ask, "allow")

    until(seen.exists, "the answer")
    assert kind is not OPENCODE or rig.hand_off("kid")["code"] == 1, "a server says that it has not understood"
    assert rig.run("stop", "kid").code == 0
    assert not mark(rig).exists()
    over(rig)


def test_an_ask_that_reaches_the_driver_garbled_runs_nothing_and_ends_it(rig: Rig, kind: Kind) -> None:
    """Nobody can tell what was asked for: better an end than an agent that waits for ever."""
    seen = garbles(rig, kind, "ask")
    _, kid = family(rig, kind, kind.asks(MARK))

    assert rig.hand_off("kid")["code"] == 1
    assert seen.exists()
    assert "[error]" in rig.transcript(kid)
    assert not mark(rig).exists()
    over(rig)


@pytest.mark.parametrize("kind", [OPENCODE], indirect=True, ids=str)
def test_an_ask_whose_event_was_garbled_is_found_in_the_list(rig: Rig, kind: Kind) -> None:
    seen = garbles(rig, kind, "event")
    family(rig, kind, kind.asks(MARK))

    ask = waiting_ask(rig)
    assert seen.exists()
    assert ask["value"] == MARK
    answer(rig, ask, "deny")

    ended(rig, "kid")
    assert not mark(rig).exists()
    over(rig)


def test_a_killed_driver_amid_a_tool_leaves_nothing(rig: Rig, kind: Kind) -> None:
    kid = kind.run(rig, BUSY)
    busy, cli = tool(kid["pid"]), cli_of(kid["pid"])

    kill(kid["pid"])

    until(lambda: not runs(busy) and not runs(cli), f"the end of tool {busy} and CLI {cli}")
    rig.assert_nothing_left()


def test_what_a_killed_driver_and_keeper_leave_is_found_and_ended(rig: Rig, kind: Kind) -> None:
    kid = kind.run(rig, BUSY)
    busy, cli = tool(kid["pid"]), cli_of(kid["pid"])

    kill_keeper(rig.row("kid"))
    kill(kid["pid"])
    stopped = rig.run("stop", "kid")

    assert stopped.code == 0, stopped.err
    assert [pid for pid in (busy, cli) if runs(pid)] == []
    rig.assert_no_process_left()


# ---------------------------------------------------------------- resuming


def test_a_resume_is_the_same_session_or_nothing(rig: Rig, kind: Kind) -> None:
    kind.launch(rig, "hello")
    ended(rig, "kid")
    session = session_of(rig)

    again = rig.run("resume", "kid", "--detach", "--prompt", "and now?")  # gemini: once the minute is over
    assert again.code == 0, again.err
    ended(rig, "kid")
    generation = rig.entry("kid")["generation"]
    assert (generation["resumes"], generation["session"]) == (session, session)
    assert "[turn 2]" in rig.transcript(rig.row("kid"))
    assert len(kind.sessions(rig, session)) == 1

    before = len(rig.model.requests())
    unknown = kind.by_hand(rig, "--resume", NO_SESSION)
    assert unknown.code == 1
    assert "[error]" in unknown.out
    assert kind.sessions(rig, NO_SESSION) == []
    assert len(rig.model.requests()) == before, "no turn was begun"
    rig.assert_nothing_left()


@pytest.mark.parametrize("kind", [CODEX, CLAUDE], indirect=True, ids=str)
def test_the_command_resumes_it_and_says_so_when_it_is_proven(rig: Rig, kind: Kind) -> None:
    kind.launch(rig, "hello")
    ended(rig, "kid")
    session = session_of(rig)

    again = rig.run("resume", "kid", "--detach", "--prompt", "and now?")

    assert again.code == 0, again.err
    ended(rig, "kid")
    generation = rig.entry("kid")["generation"]
    assert (generation["resumes"], generation["session"]) == (session, session)
    assert "[turn 2]" in rig.transcript(rig.row("kid"))
    rig.assert_nothing_left()


def test_a_second_writer_is_refused(rig: Rig, kind: Kind) -> None:
    """By the CLI itself, or by the lease of the session before anything is started."""
    kid = kind.run(rig, BUSY)
    busy = tool(kid["pid"])

    if kind.one_writer:
        second = kind.by_hand(rig, "--resume", session_of(rig))
        assert second.code == 1
        assert "one writer at a time" in second.out
    leased = rig.run("resume", "kid", "--detach", "--prompt", "me too")
    assert leased.code == 5, leased
    assert runs(busy), "the first one goes on"
    stop(rig, "kid")


def test_a_driver_that_was_started_by_hand_ends_only_its_own(rig: Rig, kind: Kind) -> None:
    """Also from inside an agent's tool, whose environment names that agent."""
    other = rig.launch("shell", "--name", "other", "--", "sh", "-c", f"exec {BUSY}")
    names = {n: v for n, v in environ(other["pid"]).items() if n.startswith("SUPERVISOR_")}
    rig.env |= names

    done = kind.by_hand(rig)

    assert done.code == 0, done
    assert runs(other["pid"])
    assert rig.entry("other")["generation"]["session"] is None
    assert list((rig.state / "drivers").glob("*")) == []
    for name in names:
        if name != "SUPERVISOR_HOME":
            del rig.env[name]
    stop(rig, "other")
