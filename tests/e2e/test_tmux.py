"""`launch --tmux`: the keeper is the pane's command. A tmux server of the test's own, ended by it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.e2e.processes import DEADLINE, alive, cmdline, gone, wait_for
from tests.e2e.rig import Supervisor

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture
def server(sv: Supervisor, short_tmp: Path) -> Iterator[dict[str, str | None]]:
    """The environment that leads to a tmux server of this test alone."""
    env: dict[str, str | None] = {"TMUX_TMPDIR": str(short_tmp), "TMUX": None, "TERM": "xterm"}
    yield env
    subprocess.run(["tmux", "kill-server"], env=sv.environment(env), capture_output=True, check=False)


def panes(sv: Supervisor, server: dict[str, str | None]) -> list[str]:
    done = subprocess.run(
        ["tmux", "list-panes", "-a", "-F", "#{pane_id} #{window_name}"],
        env=sv.environment(server),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()


def test_an_agent_in_a_pane_is_recorded_with_it_and_stopped_like_any_other(
    sv: Supervisor, server: dict[str, str | None]
) -> None:
    told = sv.json("launch", "--json", "--tmux", "--name", "a1", "shell", "--", "sleep", "1000", env=server)

    terminal = sv.record("a1")["terminal"]
    assert (terminal["kind"], [f"{terminal['pane']} a1"]) == ("tmux", panes(sv, server))
    assert sv.row("a1")["verdict"] == "alive"
    sv.run("stop", "a1")
    assert gone(told["pid"])
    wait_for(lambda: panes(sv, server) == [], "the pane's end")


def test_neither_prompt_nor_environment_stands_in_a_panes_cmdline(
    sv: Supervisor, server: dict[str, str | None]
) -> None:
    sv.run("launch", "--tmux", "--name", "a1", "--env", "GIVEN=hush", "demo", "--", "SLEEP: 1000", env=server)

    assert "SLEEP" not in " ".join(cmdline(sv.keeper("a1")))
    assert "hush" not in " ".join(cmdline(sv.keeper("a1")))
    assert list((sv.home / "requests").iterdir()) == []
    sv.run("stop", "a1")


def test_a_name_is_nothing_that_tmux_or_a_shell_would_run(sv: Supervisor, server: dict[str, str | None]) -> None:
    marker = sv.work / "ran"
    words = ("sh", "-c", "sleep 1000", "#{pane_id}", f"$(touch {marker})", "; touch ran")
    sv.run("launch", "--tmux", "--name", "a.1-x", "shell", "--", *words, env=server)

    assert cmdline(sv.pid("a.1-x"))[-3:] == list(words[-3:])
    assert not marker.exists()
    sv.run("stop", "a.1-x")


def test_an_agent_that_launches_into_a_pane_gets_a_child_with_a_terminal(
    sv: Supervisor, server: dict[str, str | None]
) -> None:
    """It is no child in the background whose pane stays empty."""
    launch = f"{sys.executable} -P -m supervisor launch --tmux --name kid demo; exec sleep 1000"
    sv.run("launch", "--detach", "--name", "lead", "shell", "--", "sh", "-c", launch, env=server)

    kid = wait_for(lambda: sv.ps().get("kid"), "the child")
    record = sv.record("kid")
    assert (kid["parent"], record["terminal"]["kind"], record["plan"]["mode"]) == ("lead", "tmux", "interactive")
    assert "--interactive" in cmdline(sv.pid("kid"))
    sv.run("stop", "--cascade", "lead")


def test_a_killed_pane_ends_its_agent_and_the_end_is_on_record(sv: Supervisor, server: dict[str, str | None]) -> None:
    told = sv.json("launch", "--json", "--tmux", "--name", "a1", "shell", "--", "sleep", "1000", env=server)
    assert alive(told["pid"])

    subprocess.run(["tmux", "kill-server"], env=sv.environment(server), capture_output=True, check=True)

    wait_for(lambda: gone(told["pid"]), "its end")
    assert sv.ended("a1")["signal"] == "HUP"


def test_a_pane_that_cannot_start_its_agent_says_why(sv: Supervisor, server: dict[str, str | None]) -> None:
    done = sv.run("launch", "--tmux", "--name", "a1", "shell", "--", "no-such-program", env=server, code=1)

    assert "no-such-program was not found" in done.err
    wait_for(lambda: not sv.traces(), "nothing left of it")


def sleeper(**more: object) -> dict[str, object]:
    return {"profile": "shell", "args": ["sleep", "1000"], **more}


def windows(sv: Supervisor, server: dict[str, str | None]) -> list[str]:
    """`window title` of every pane."""
    form = "#{window_name} #{pane_title} #{@supervisor_agent} #{pane-border-status}"
    done = subprocess.run(
        ["tmux", "list-panes", "-a", "-F", form],
        env=sv.environment(server),
        capture_output=True,
        text=True,
        check=False,
    )
    return sorted(done.stdout.splitlines())


def test_a_tree_gets_one_window_with_a_titled_pane_for_each_agent(
    sv: Supervisor, server: dict[str, str | None]
) -> None:
    """Parents first, and once, however many ask for it."""
    sv.tree_file({"kid": sleeper(parent="lead", after=["other"]), "lead": sleeper(), "other": sleeper()})

    racing = [sv.start("up", "--tmux", "--json", "team.toml", env=server) for _ in range(3)]
    told = [json.loads(r.communicate(timeout=120)[0]) for r in racing]

    assert sorted(len(t["started"]) for t in told) == [0, 0, 3]
    tree = told[0]["tree"]
    assert windows(sv, server) == [f"{tree} {n} {n} top" for n in ("kid", "lead", "other")]
    rows = sv.ps()
    assert (rows["kid"]["parent"], {r["tree"] for r in rows.values()}) == ("lead", {tree})
    assert sv.record("kid")["terminal"]["kind"] == "tmux"
    sv.run("down", "team.toml")
    wait_for(lambda: panes(sv, server) == [], "the panes' end")


def test_a_tree_in_tmux_is_checked_whole_before_its_first_pane(sv: Supervisor, server: dict[str, str | None]) -> None:
    sv.tree_file({"a": sleeper(), "b": {"profile": "shell", "args": ["no-such-program"]}})

    done = sv.run("up", "--tmux", "team.toml", env=server, code=1)

    assert "no-such-program was not found" in done.err
    assert (panes(sv, server), sv.traces()) == ([], [])


def test_a_tree_that_needs_more_room_than_a_window_has_gets_another_one(
    sv: Supervisor, server: dict[str, str | None]
) -> None:
    sv.tree_file({f"a{n}": sleeper() for n in range(14)})

    sv.run("up", "--tmux", "team.toml", env=server)

    assert len(panes(sv, server)) == 14
    sv.run("down", "team.toml")


@pytest.mark.parametrize("name", ["#{pane_id}", "#(touch ran)", "a;", "##", "$(touch ran)"])
def test_a_title_is_nothing_that_tmux_or_a_shell_would_run(
    sv: Supervisor, server: dict[str, str | None], name: str
) -> None:
    """Agents' names cannot hold such; titles of trees and of other callers can."""
    from supervisor.adapters.tmux import new_window, title

    env = sv.environment(server)
    pane = new_window(["sleep", "1000"], name=name, cwd=str(sv.work), env=env)
    title(pane, name, env=env)

    (line,) = windows(sv, server)
    assert line == f"{name} {name} {name} top"
    assert not (sv.work / "ran").exists()


@pytest.mark.parametrize("how", ["-L", "-S"])
def test_a_server_of_the_users_own_is_used_and_found_again(
    sv: Supervisor, server: dict[str, str | None], short_tmp: Path, how: str
) -> None:
    socket = "mine" if how == "-L" else str(short_tmp / "sock")
    options = ("--tmux", "--tmux-socket", socket)
    try:
        sv.run("launch", *options, "--name", "a1", "demo", "--", "SLEEP: 1000", env=server)

        terminal = sv.record("a1")["terminal"]
        told = subprocess.run(
            ["tmux", how, socket, "list-panes", "-a", "-F", "#{pane_id} #{socket_path}"],
            env=sv.environment(server), capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert told == f"{terminal['pane']} {terminal['socket']}\n"
        assert panes(sv, server) == []
        assert "standard input is no terminal" in sv.run("attach", "a1", env=server, code=1).err  # its pane is found
        sv.run("stop", "a1")
        sv.run("resume", "a1", *options, "--prompt", "SLEEP: 1000", env=server)
        assert (sv.record("a1")["terminal"]["socket"], panes(sv, server)) == (terminal["socket"], [])
        sv.run("stop", "a1")
    finally:
        subprocess.run(
            ["tmux", how, socket, "kill-server"], env=sv.environment(server), capture_output=True, check=False
        )


def test_a_killed_server_is_one_event_and_all_of_its_agents_can_be_brought_back(
    sv: Supervisor, server: dict[str, str | None]
) -> None:
    demo = {"profile": "demo", "prompt": "SLEEP: 1000"}
    sv.tree_file({"lead": demo, "kid": {**demo, "parent": "lead"}, "other": demo})
    sv.run("up", "--tmux", "team.toml", env=server)
    socket = sv.record("lead")["terminal"]["socket"]
    sessions = {n: r["sessionId"] for n, r in sv.ps().items()}
    with (sv.work / "events").open("wb") as out:
        watching = sv.start("watch", "--json", env=server, stdout=out)
    events = lambda: [json.loads(line) for line in (sv.work / "events").read_bytes().splitlines()]  # noqa: E731
    wait_for(lambda: len(events()) >= 3, "the first look")
    view: Any = pexpect.spawn(
        sv.argv[0], [*sv.argv[1:], "watch"],
        env={**sv.environment(server), "TERM": "xterm-256color"}, timeout=DEADLINE, dimensions=(30, 300),
    )  # fmt: skip
    view.expect_exact("3 alive of 3")

    subprocess.run(["tmux", "kill-server"], env=sv.environment(server), capture_output=True, check=True)

    told = wait_for(lambda: [e for e in events() if e["what"] == "server_gone"], "the event")
    assert [(e["name"], "3 of its agents" in e["detail"]) for e in told] == [(socket, True)]
    assert "supervisor recover --tmux" in told[0]["detail"]
    assert [e for e in events() if e["what"] == "ended"] == []
    assert all(sv.ended(n)["success"] is False for n in ("lead", "kid", "other"))
    watching.send_signal(2)
    watching.wait(60)
    view.expect(
        "the tmux server is gone, and 3 of its agents with it: .*; to bring them back: supervisor recover --tmux"
    )
    view.sendintr()
    view.expect(pexpect.EOF)
    view.close()

    back = sv.run("recover", "--tmux", "--json", env=server).out

    assert sorted((e["event"], e["name"]) for e in map(json.loads, back.splitlines())) == [
        ("resumed", "kid"),
        ("resumed", "lead"),
        ("resumed", "other"),
    ]
    rows = sv.ps(all=False)
    assert {n: r["sessionId"] for n, r in rows.items()} == sessions
    assert rows["kid"]["parent"] == "lead"
    assert {sv.record(n)["terminal"]["socket"] for n in rows} == {socket}
    assert [line.split()[1] for line in windows(sv, server)] == ["kid", "lead", "other"]
    assert "nothing to recover in tmux" in sv.run("recover", "--tmux", env=server).out
    sv.run("stop", "lead", "kid", "other")


def test_an_agent_that_ends_before_it_confirms_its_session_is_not_told_of_as_resumed(
    sv: Supervisor, server: dict[str, str | None]
) -> None:
    for name in ("well", "ill"):
        sv.run("launch", "--tmux", "--name", name, "demo", "--", "SLEEP: 1000", env=server)
    subprocess.run(["tmux", "kill-server"], env=sv.environment(server), capture_output=True, check=True)
    for name in ("well", "ill"):
        sv.ended(name)

    def will_not_go_on(record: Any) -> None:
        line = record["plan"]["resumeLines"]["interactive"]
        line.update(argv=["/bin/sh", "-c", "exit 3", "sh", "{session_id}"], sessionAt=4, takes="none", prompt=[])

    sv.edit("ill", will_not_go_on)

    back = sv.run("recover", "--tmux", "--json", code=1, env=server).out

    told = {e["name"]: e for e in map(json.loads, back.splitlines())}
    assert {n: e["event"] for n, e in told.items()} == {"well": "resumed", "ill": "failed"}
    assert told["ill"]["why"] == "it exited with 3 before it had confirmed its session"
    assert "failedResume" in sv.record("ill")["state"]
    sv.run("stop", "well")


def test_an_ask_pops_up_in_tmux_and_is_answered_there(sv: Supervisor, server: dict[str, str | None]) -> None:
    """Whoever types on when it comes does not answer anything."""
    sv.run("settings", "set", "notify.tmux", "popup")
    sv.run("launch", "--tmux", "--name", "lead", "demo", "--", "SLEEP: 1000", env=server)
    env: Any = {**sv.environment(server), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    person: Any = pexpect.spawn(
        "tmux", ["-u", "attach"], env=env, timeout=DEADLINE, encoding="utf-8", dimensions=(30, 100)
    )
    try:
        person.expect("lead")
        ask = f"{sv.command} ask --tool bash --value make; exec sleep 1000"
        for name in ("one", "two"):
            sv.sh(name, ask, "--parent", "lead")
            person.expect_exact(f"{name} asks to use bash.")  # the popup, not the status bar
            if name == "one":
                person.send("a")  # typed into something else
                wait_for(lambda: not popped_up(sv), "the popup's end")
                (first,) = sv.json("asks")
                sv.run("answer", first["id"], "deny")
        person.expect("Enter: look at it")
        person.send("\r")
        person.expect("make")

        def allowed() -> bool:
            person.send("a")
            return sv.json("asks") == []

        wait_for(allowed, "the answer")
    finally:
        person.close(force=True)
    log = [json.loads(line) for line in sv.run("asks", "--log", "--json").out.splitlines()]
    assert [e["approved"] for e in log if e["event"] == "answered"] == [False, True]
    sv.run("stop", "lead", "one", "two")


def popped_up(sv: Supervisor) -> bool:
    return any("_popup" in cmdline(pid) for pid in sv.alive())
