"""A person at `supervisor inbox`: real agents ask, keys are typed on a real terminal, and every way out is clean."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.e2e.processes import children, gone, kill, wait_for
from tests.e2e.rig import Supervisor, spawn

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
FRAME = "\x1b[H"
CODES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|.)")
BUSY = ("requests", "responses", "claims")


class Person:
    """Somebody at a terminal with an inbox on it. `screen` is what it shows now."""

    def __init__(self, sv: Supervisor, *words: str, columns: int = 100, rows: int = 30, command: str = "inbox") -> None:
        env = {**sv.environment(), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        self._child = pexpect.spawn(
            sv.argv[0],
            [*sv.argv[1:], command, *words],
            env=env,
            cwd=str(sv.work),
            dimensions=(rows, columns),
            encoding="utf-8",
            codec_errors="replace",
            timeout=10,
        )
        self.pid = int(self._child.pid or 0)
        self.tty = os.open(f"/proc/{self.pid}/fd/0", os.O_RDWR | os.O_NOCTTY)
        self._all = ""

    def written(self) -> str:
        """Everything that was ever written to the terminal."""
        try:
            while True:
                self._all += self._child.read_nonblocking(65536, timeout=0)
        except (pexpect.TIMEOUT, pexpect.EOF):
            return self._all

    @property
    def screen(self) -> str:
        """The last frame, without its codes."""
        return CODES.sub("", self.written().rpartition(FRAME)[2]).replace("\r", "")

    def sees(self, *texts: str) -> None:
        """Wait until all of this is on the screen."""

        def there() -> bool:
            screen = self.screen
            return all(text in screen for text in texts)

        try:
            wait_for(there, f"{texts} on the screen")
        except AssertionError:
            raise AssertionError(f"{texts} is not on the screen:\n{self.screen}") from None

    def types(self, keys: str) -> None:
        self._child.send(keys)

    def reads_and_types(self, text: str, keys: str, gives: str) -> None:
        """See an ask, then press a key until it was heard: none is, shortly after a change."""
        self.sees(text)

        def heard() -> bool:
            if gives in self.screen:
                return True
            if text in self.screen:
                self.types(keys)
            return False

        wait_for(heard, f"{gives!r} after {keys!r}")

    def resizes(self, *, columns: int, rows: int) -> None:
        self._child.setwinsize(rows, columns)

    def ended(self) -> int:
        """The exit code, once it has ended by itself."""
        self._child.expect(pexpect.EOF)
        self._all += self._child.before or ""
        self._child.wait()
        assert self._child.exitstatus is not None, f"killed by signal {self._child.signalstatus}"
        return int(self._child.exitstatus)

    def draws_again(self) -> bool:
        self.types("\x0c")
        return True

    def is_stalled(self) -> bool:
        """Whether the terminal takes nothing more, for nobody has read it."""
        return not select.select([], [self.tty], [], 0)[1]

    def modes(self) -> list[Any]:
        return termios.tcgetattr(self.tty)

    def close(self) -> None:
        if self._child.isalive():
            kill(self.pid)
        self._child.close(force=True)
        if self.tty >= 0:
            os.close(self.tty)
            self.tty = -1


Sit = Callable[..., Person]


@pytest.fixture
def sit(sv: Supervisor) -> Iterator[Sit]:
    """People at inboxes; they get up before the agents are stopped."""
    people: list[Person] = []

    def at(*words: str, **how: Any) -> Person:
        people.append(Person(sv, *words, **how))
        people[-1].sees("supervisor inbox")
        return people[-1]

    yield at
    for person in people:
        person.close()


def busy(sv: Supervisor) -> list[Path]:
    """What lies in the inboxes: requests, answers, claims, and temp files of them."""
    return [f for kind in BUSY for f in (sv.home / "forwarding").glob(f"sessions/*/{kind}/*")]


def marks(sv: Supervisor) -> list[Path]:
    return list((sv.home / "run" / "inboxes").glob("*"))


def family(sv: Supervisor, **asks: str) -> None:
    """An agent `lead` with a child for each, which does what it is told; asks come in this order."""
    lines = [f"WAIT_FILE: {sv.work}/go"]
    lines += [line for name, prompt in asks.items() for line in (spawn(name, prompt), f"WAIT_FILE: {sv.work}/{name}")]
    sv.demo("lead", "\n".join([*lines, "SLEEP: 1000"]))
    (sv.work / "go").touch()
    for name in asks:
        wait_for(lambda name=name: name in sv.ps(), f"{name} launched")  # type: ignore[misc]
        wait_for(lambda name=name: name in [a["agent"] for a in sv.json("asks")], f"{name} asks")  # type: ignore[misc]
        (sv.work / name).touch()


def says(sv: Supervisor, name: str, text: str) -> None:
    wait_for(lambda: text in sv.transcript(name), f"{text!r} from {name}")


def hold(sv: Supervisor) -> None:
    """Asks wait although nobody is there yet."""
    sv.run("settings", "set", "asks.mode", "hold")


# Answers


@pytest.mark.parametrize(
    ("keys", "told", "heard"),
    [
        ("a", "allowed: kid bash echo hi", "ALLOWED bash echo hi"),
        ("d", "denied: kid bash echo hi", "DENIED bash echo hi"),
        ("c", "allowed for this child: kid bash echo hi", "ALLOWED bash echo hi"),
    ],
)
def test_one_key_answers_the_ask_on_the_screen(sv: Supervisor, sit: Sit, keys: str, told: str, heard: str) -> None:
    person = sit()
    family(sv, kid="ASK: bash echo hi\nSLEEP: 1000")
    person.sees("lead > kid", "bash", "│ echo hi", "a allow")
    person.reads_and_types("│ echo hi", keys, told)
    says(sv, "kid", heard)
    person.sees("No ask waits")
    wait_for(lambda: not busy(sv), "nothing of the ask left")


def test_a_denial_carries_its_reason_and_typing_it_approves_nothing(sv: Supervisor, sit: Sit) -> None:
    person = sit()
    family(sv, kid="ASK: bash rm -rf x\nSLEEP: 1000")
    person.reads_and_types("│ rm -rf x", "r", "why not?")
    person.types("no\x1b")
    person.sees("a allow")
    person.types("\x1b[200~a\ra\x1b[201~")
    person.reads_and_types("a allow", "r", "why not?")
    person.types("a says yes, \x1b[D\x1b[D\x1b[C\x1b[Call y")
    person.sees("> a says yes, all y")
    assert sv.json("asks")[0]["agent"] == "kid"
    person.types("\r")
    person.sees("denied with a reason: kid bash rm -rf x")
    says(sv, "kid", "DENIED bash rm -rf x: a says yes, all y")


def test_the_same_for_all_below_asks_first_and_then_asks_no_more(sv: Supervisor, sit: Sit) -> None:
    person = sit()
    family(sv, kid="ASK: bash echo hi\nSLEEP: 1000")
    person.reads_and_types("│ echo hi", "s", "everybody below lead from now on? y/n")
    person.types("x")
    person.types("y")
    person.sees("allowed for all below: kid bash echo hi")
    says(sv, "kid", "ALLOWED bash echo hi")
    sv.demo("kid2", "ASK: bash echo hi\nSLEEP: 1000", "--parent", "lead")
    says(sv, "kid2", "ALLOWED bash echo hi")
    assert "kid2" not in person.written()


def test_while_it_is_open_agents_are_served_and_after_it_they_are_told_the_truth(sv: Supervisor, sit: Sit) -> None:
    person = sit()
    family(sv, kid="ASK: bash one\nASK: bash two\nSLEEP: 1000")
    claims = wait_for(lambda: [f for f in busy(sv) if f.parent.name == "claims"], "a claim")
    assert len(marks(sv)) == 1
    person.reads_and_types("│ one", "a", "│ two")
    person.types("\x03")
    assert person.ended() == 130
    assert not marks(sv)
    assert not claims[0].exists()
    says(sv, "kid", "DENIED bash two")
    assert "is not serving" in sv.transcript("kid")


# The queue


def test_a_later_ask_waits_visibly_while_a_long_one_is_read(sv: Supervisor, sit: Sit) -> None:
    hold(sv)
    sv.sh("lead", "sleep 1000")
    value = "\n".join(f"echo line {n} \x1b[2J\x1b[31m\x07" for n in range(1500))
    asking = ask(sv, "lead", value)
    person = sit()
    person.sees("│ echo line 0 \\x1b[2J", "cut: ", "v shows the full text")
    person.reads_and_types("cut: ", "v", "lines 1-")
    later = ask(sv, "lead", "echo later")
    wait_for(lambda: len(sv.json("asks")) == 2, "both asks")
    for keys, line in (("G", "echo line 1499 "), ("g", "echo line 0 "), (" ", "echo line 40 "), ("b", "echo line 0 ")):
        person.types(keys)
        person.sees(line)
    person.types("q")
    person.sees("1 more waits", "│ echo line 0 ")
    assert "\x1b[2J" not in person.written()
    assert "\x07" not in person.written().replace("\x07", "", 1), "an agent has rung the bell"
    person.reads_and_types("│ echo line 0 ", "d", "│ echo later")
    assert "1 more waits" not in person.screen
    assert asking.wait(10) == 1
    person.reads_and_types("│ echo later", "a", "No ask waits")
    assert later.wait(10) == 0


def test_next_leaves_it_for_later(sv: Supervisor, sit: Sit) -> None:
    hold(sv)
    sv.sh("lead", "sleep 1000")
    ask(sv, "lead", "echo one")
    ask(sv, "lead", "echo two")
    person = sit()
    person.sees("│ echo one", "1 more waits")
    person.reads_and_types("│ echo one", "n", "│ echo two")
    person.sees("1 more waits")
    assert [a["lookedAt"] for a in sv.json("asks")] == [False, True]
    person.reads_and_types("│ echo two", "n", "│ echo one")


def ask(sv: Supervisor, to: str, value: str) -> subprocess.Popen[bytes]:
    """Somebody asks that agent; the asks of one test arrive in order."""
    before = len(sv.json("asks"))
    asking: subprocess.Popen[bytes] = sv.start(
        "ask", "--to", sv.row(to)["sessionId"], "--tool", "bash", "--value", value
    )
    wait_for(lambda: len(sv.json("asks")) > before, "the ask")
    return asking


def test_who_asks_is_told_that_somebody_looks(sv: Supervisor, sit: Sit) -> None:
    hold(sv)
    sv.sh("lead", "sleep 1000")
    asking = ask(sv, "lead", "echo hi")
    assert asking.stderr is not None
    person = sit()
    person.sees("│ echo hi")
    assert b"being looked at since" in asking.stderr.readline()
    (told,) = sv.json("asks")
    assert told["lookedSince"] > 0
    person.reads_and_types("│ echo hi", "a", "allowed: ")
    assert asking.wait(30) == 0


def test_an_agent_is_no_person_at_an_inbox(sv: Supervisor) -> None:
    inside = "import os, pty, sys; os.environ['TERM'] = 'xterm'; pty.spawn(sys.argv[1:])"
    sv.sh("lead", shlex.join([sys.executable, "-c", inside, *sv.argv, "inbox"]) + "; sleep 1000")
    says(sv, "lead", "an inbox is a person's, and this terminal is inside agent lead")


# What happens to the ask on the screen


def test_a_child_that_is_killed_takes_its_ask_from_the_screen_and_leaves_nothing(sv: Supervisor, sit: Sit) -> None:
    person = sit()
    family(sv, kid="ASK: bash echo hi\nSLEEP: 1000")
    person.sees("│ echo hi")
    asking = [p for p, _ in children(sv.pid("kid"))]
    kill(sv.pid("kid"))
    for pid in asking:
        kill(pid)
    person.sees("withdrawn: kid bash echo hi", "No ask waits")
    wait_for(lambda: not busy(sv), "nothing of the ask left")


def test_what_is_typed_for_a_lost_ask_goes_nowhere(sv: Supervisor, sit: Sit) -> None:
    hold(sv)
    sv.sh("lead", "sleep 1000")
    first = ask(sv, "lead", "echo one")
    ask(sv, "lead", "echo two")
    person = sit()
    person.reads_and_types("│ echo one", "r", "why not?")
    person.types("beca")
    person.sees("> beca")
    first.terminate()
    person.sees("the ask has gone, nothing was answered")
    person.types("use all of it")
    person.types("\r")
    person.sees("│ echo two", "withdrawn: unknown bash echo one")
    assert [(a["value"], a["lookedAt"]) for a in sv.json("asks")] == [("echo two", True)]


def test_of_two_inboxes_one_wins_and_the_other_is_told(sv: Supervisor, sit: Sit) -> None:
    anna, ben = sit(), sit()
    family(sv, kid="ASK: bash echo hi\nASK: bash echo more\nSLEEP: 1000")
    anna.sees("│ echo hi")
    ben.sees("│ echo hi")
    wait_for(lambda: "in another inbox" in anna.screen + ben.screen, "one of them sees the other")
    anna.reads_and_types("│ echo hi", "a", "allowed: kid bash echo hi")
    ben.sees("already answered, ", " has allowed it: kid bash echo hi", "│ echo more")
    anna.sees("│ echo more")
    wait_for(lambda: sv.json("asks")[0]["lookedAt"], "the next one claimed")
    pressed_together(anna, ben)
    applied = ["allowed: kid bash echo more" in anna.screen, "denied: kid bash echo more" in ben.screen]
    assert sorted(applied) == [False, True]
    says(sv, "kid", "ALLOWED bash echo more" if applied[0] else "DENIED bash echo more")


def pressed_together(anna: Person, ben: Person) -> None:
    """Both answer the same ask, one allows and one denies, until both have been told something."""

    def both_told() -> bool:
        for person, key in ((anna, "a"), (ben, "d")):
            if "│ echo more" in person.screen:
                person.types(key)
        return all(p.screen.count("bash echo more") == 1 and "│ echo more" not in p.screen for p in (anna, ben))

    wait_for(both_told, "both told")


def test_an_answer_from_elsewhere_takes_it_from_the_screen(sv: Supervisor, sit: Sit) -> None:
    person = sit()
    family(sv, kid="ASK: bash echo hi\nSLEEP: 1000")
    person.sees("│ echo hi")
    sv.run("answer", sv.json("asks")[0]["id"], "deny", "--reason", "no")
    person.sees("already answered, ", "has denied it: kid bash echo hi", "No ask waits")


# Which asks


def test_an_inbox_of_one_agent_attends_that_one_only(sv: Supervisor, sit: Sit) -> None:
    person = sit_at_lead(sv, sit)
    asking = sv.start("ask", "--to", sv.row("other")["sessionId"], "--tool", "bash", "--value", "echo no")
    assert asking.wait(10) == 4, "nobody attends the other one"
    ask(sv, "lead", "echo yes")
    person.reads_and_types("│ echo yes", "a", "No ask waits")
    assert "echo no" not in person.written()


def sit_at_lead(sv: Supervisor, sit: Sit) -> Person:
    sv.sh("lead", "sleep 1000")
    sv.sh("other", "sleep 1000")
    return sit("lead")


def test_an_inbox_of_a_tree_attends_its_agents(sv: Supervisor, sit: Sit) -> None:
    prompt = "ASK: bash echo hi\nSLEEP: 1000"
    agents = {"lead": {"profile": "demo", "prompt": "SLEEP: 1000"}}
    agents["kid"] = {"profile": "demo", "prompt": f"WAIT_FILE: {sv.work}/go\n{prompt}", "parent": "lead"}
    sv.run("up", sv.tree_file(agents))
    person = sit("team.toml")
    (sv.work / "go").touch()
    person.sees("· tree ")
    person.reads_and_types("│ echo hi", "a", "allowed: kid bash echo hi")
    says(sv, "kid", "ALLOWED bash echo hi")


def test_up_on_a_terminal_is_the_inbox_of_its_tree_and_leaving_it_leaves_the_tree_running(
    sv: Supervisor, sit: Sit
) -> None:
    prompt = f"WAIT_FILE: {sv.work}/go\nASK: bash echo hi\nSLEEP: 1000"
    agents = {"lead": {"profile": "demo", "prompt": "SLEEP: 1000"}}
    agents["kid"] = {"profile": "demo", "prompt": prompt, "parent": "lead"}
    person = sit(str(sv.tree_file(agents)), command="up")
    person.sees("· tree ", "No ask waits", "lead                 up", "kid                  up")
    (sv.work / "go").touch()
    person.reads_and_types("│ echo hi", "a", "allowed: kid bash echo hi")
    says(sv, "kid", "ALLOWED bash echo hi")
    person.types("q")
    assert person.ended() == 0
    assert "The tree runs on. Its inbox: supervisor inbox w/team-" in person.written()
    assert {sv.row(n)["verdict"] for n in agents} == {"alive"}


def test_the_inbox_of_up_ends_with_its_tree(sv: Supervisor, sit: Sit) -> None:
    agents = {"one": {"profile": "demo", "prompt": f"WAIT_FILE: {sv.work}/go\nEXIT: 3"}}
    person = sit(str(sv.tree_file(agents)), command="up")
    person.sees("No ask waits")
    (sv.work / "go").touch()
    assert person.ended() == 0
    assert "one                  exited with 3" in person.written()
    assert "The tree runs on" not in person.written()


def test_an_ask_from_three_levels_down_comes_once_and_is_seen_as_looked_at_all_the_way(
    sv: Supervisor, sit: Sit
) -> None:
    person = sit()
    kid = f"WAIT_FILE: {sv.work}/go\nASK: bash echo hi\nSLEEP: 1000"
    sv.demo("lead", spawn("mid", spawn("kid", kid) + "\nSLEEP: 1000") + "\nSLEEP: 1000")
    sv.wait_ready("lead", "mid", "kid")
    (sv.work / "go").touch()
    person.sees("lead > mid > kid", "by way of mid")
    levels = {sv.row("lead")["sessionId"], sv.row("mid")["sessionId"]}
    wait_for(lambda: {f.parts[-3] for f in busy(sv) if f.parent.name == "claims"} == levels, "claims on both levels")
    person.reads_and_types("│ echo hi", "a", "allowed: kid bash echo hi")
    says(sv, "kid", "ALLOWED bash echo hi")
    wait_for(lambda: not busy(sv), "nothing of the ask left")
    assert "withdrawn" not in person.written()


def test_nobody_of_that_name(sv: Supervisor) -> None:
    assert "there is no agent 'nobody', and no running tree" in sv.run("inbox", "nobody", code=3).err


def test_one_that_has_ended_is_not_attended(sv: Supervisor) -> None:
    sv.sh("short", "exit 0")
    sv.ended("short")
    assert "short has ended" in sv.run("inbox", "short", code=1).err


def test_once_handles_what_waits_and_leaves(sv: Supervisor, sit: Sit) -> None:
    hold(sv)
    sv.sh("lead", "sleep 1000")
    one, two = ask(sv, "lead", "echo one"), ask(sv, "lead", "echo two")
    person = sit("--once")
    person.sees("│ echo one", "1 more waits")
    ask(sv, "lead", "echo late")
    person.reads_and_types("│ echo one", "a", "│ echo two")
    person.reads_and_types("│ echo two", "d", "denied: unknown bash echo two")
    assert person.ended() == 0
    assert (one.wait(10), two.wait(10)) == (0, 1)
    assert "echo late" not in person.written()
    assert [a["value"] for a in sv.json("asks")] == ["echo late"]


# Lines for programs


def test_piped_it_tells_what_comes_and_goes_and_answers_nothing(sv: Supervisor) -> None:
    sv.sh("lead", "sleep 1000")
    inbox = sv.start("inbox")
    wait_for(lambda: marks(sv), "the mark")
    ask(sv, "lead", "echo \x1b[31m")
    asked = json.loads(inbox.stdout.readline())
    assert (asked["event"], asked["value"], asked["tool"]) == ("asked", "echo \x1b[31m", "bash")
    sv.run("answer", asked["id"], "allow")
    gone = json.loads(inbox.stdout.readline())
    assert (gone["event"], gone["id"]) == ("gone", asked["id"])
    assert "has allowed it" in gone["why"]
    inbox.send_signal(signal.SIGTERM)
    assert inbox.wait(10) == 128 + signal.SIGTERM
    assert not marks(sv)


def test_piped_it_ends_with_its_reader(sv: Supervisor) -> None:
    inbox = sv.start("inbox", "--json")
    wait_for(lambda: marks(sv), "the mark")
    inbox.stdout.close()
    assert inbox.wait(10) == 0
    assert not marks(sv)


def test_once_piped_prints_what_waits(sv: Supervisor) -> None:
    hold(sv)
    sv.sh("lead", "sleep 1000")
    ask(sv, "lead", "echo one")
    lines = sv.run("inbox", "--once").out.splitlines()
    assert [json.loads(line)["value"] for line in lines] == ["echo one"]
    assert len(sv.json("asks")) == 1


# Every way out


@pytest.mark.parametrize(
    ("way", "code"),
    [
        ("q", 0),
        ("\x04", 0),
        ("\x03", 130),
        ("\x1c", 131),
        (signal.SIGTERM, 143),
        (signal.SIGHUP, 129),
        (signal.SIGINT, 130),
    ],
)
def test_the_terminal_and_the_mark_are_put_back(sv: Supervisor, sit: Sit, way: str | int, code: int) -> None:
    hold(sv)
    sv.sh("lead", "sleep 1000")
    ask(sv, "lead", "echo one")
    person = Person(sv)
    try:
        before = person.modes()
        person.sees("│ echo one")
        assert person.modes() != before
        if isinstance(way, int):
            os.kill(person.pid, way)
        elif way in "\x03\x1c":
            person.types(way)

        def left() -> bool:
            if way in ("q", "\x04"):  # not heard, shortly after an ask has come
                person.types(str(way))
            return "\x1b[?1049l" in person.written()

        wait_for(left, "the end")
        assert person.ended() == code
        assert person.modes() == before
        assert not marks(sv)
        assert [f.parent.name for f in busy(sv)] == ["requests"], "the ask waits on, unclaimed"
        assert person.written().count("\x1b[?1049h") == person.written().count("\x1b[?1049l") == 1
    finally:
        person.close()


def test_a_terminal_that_takes_nothing_more_holds_up_no_end(sv: Supervisor, sit: Sit) -> None:
    hold(sv)
    sv.sh("lead", "sleep 1000")
    ask(sv, "lead", "\n".join(f"echo line {n}" for n in range(1000)))
    person = sit()
    person.reads_and_types("cut: ", "v", "lines 1-")
    wait_for(lambda: person.draws_again() and person.is_stalled(), "a full terminal")
    os.kill(person.pid, signal.SIGTERM)
    wait_for(lambda: gone(person.pid), "its end")
    assert not marks(sv)
    assert [f.parent.name for f in busy(sv)] == ["requests"]


def test_a_killed_inbox_is_believed_no_more_and_swept_by_the_next(sv: Supervisor, sit: Sit) -> None:
    sv.sh("lead", "sleep 1000")
    person = sit()
    kill(person.pid)
    person.close()
    assert len(marks(sv)) == 1
    wait_for(lambda: not list((sv.home / "forwarding" / "serving").glob("*")), "served no more")
    sit()
    assert len(marks(sv)) == 1


def test_a_terminal_that_cannot_show_it_is_refused(sv: Supervisor) -> None:
    env = {**sv.environment(), "TERM": "dumb"}
    ran = pexpect.run(f"{sv.command} inbox", env=env, cwd=str(sv.work), withexitstatus=True)
    assert "supervisor answer ID" in str(ran)
    assert ran[1] == 1
    assert not marks(sv)


# In tmux, under a shell


class Pane:
    """A shell in a private tmux."""

    def __init__(self, sv: Supervisor) -> None:
        self._socket = str(sv.root / "tmux")
        self._env = {**sv.environment(), "TERM": "xterm-256color", "LANG": "C.UTF-8", "PS1": "$ "}
        self.tmux("new-session", "-d", "-x", "100", "-y", "24", "/bin/sh", "-i")

    def tmux(self, *words: str) -> str:
        argv = ["tmux", "-f", "/dev/null", "-S", self._socket, *words]
        return subprocess.run(argv, env=self._env, capture_output=True, text=True, check=True, timeout=20).stdout

    def types(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def sees(self, text: str) -> None:
        try:
            wait_for(lambda: text in self.tmux("capture-pane", "-p"), f"{text!r} in the pane")
        except AssertionError:
            raise AssertionError(f"{text!r} is not in the pane:\n{self.tmux('capture-pane', '-p')}") from None

    def types_until(self, text: str, *keys: str) -> None:
        """Press until it was heard: no key is, shortly after an ask has come to the screen."""

        def heard() -> bool:
            if text in self.tmux("capture-pane", "-p"):
                return True
            self.types(*keys)
            return False

        wait_for(heard, f"{text!r} after {keys}")

    def close(self) -> None:
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], env=self._env, check=False, timeout=20)


@pytest.fixture
def pane(sv: Supervisor) -> Iterator[Pane]:
    made = Pane(sv)
    yield made
    made.close()


@needs_tmux
def test_in_tmux_it_resizes_and_leaves_the_scrollback_alone(sv: Supervisor, pane: Pane) -> None:
    hold(sv)
    sv.sh("lead", "sleep 1000")
    ask(sv, "lead", "echo " + "x" * 150 + " end")
    pane.types("echo before; " + shlex.join([*sv.argv, "inbox"]), "Enter")
    pane.sees("x end")
    pane.tmux("resize-window", "-x", "60", "-y", "12")
    pane.sees("a  d  r  c  s  n  v  ?  q")
    pane.sees("x end")
    pane.tmux("resize-window", "-x", "100", "-y", "24")
    pane.sees("deny with a reason")
    pane.types_until("before\n", "q")
    pane.types("C-u", "stty -a", "Enter")
    pane.sees(" icanon")
    assert "deny with a reason" not in pane.tmux("capture-pane", "-p", "-S", "-")


@needs_tmux
def test_suspended_nobody_attends_and_back_it_goes_on(sv: Supervisor, pane: Pane) -> None:
    hold(sv)
    sv.sh("lead", "sleep 1000")
    ask(sv, "lead", "echo one")
    pane.types("set -m; " + shlex.join([*sv.argv, "inbox"]), "Enter")
    pane.sees("│ echo one")
    pane.types("C-z")
    wait_for(lambda: pane.tmux("capture-pane", "-p").rstrip().endswith("$") and not marks(sv), "stopped")
    assert [f.parent.name for f in busy(sv)] == ["requests"]
    pane.types("stty -a", "Enter")
    pane.sees(" icanon")
    pane.types("fg", "Enter")
    pane.sees("│ echo one")
    wait_for(lambda: marks(sv), "the mark again")
    pane.types("C-z")
    wait_for(lambda: pane.tmux("capture-pane", "-p").rstrip().endswith("$") and not marks(sv), "stopped again")
    pane.types("kill %1; wait; echo ended; stty -a", "Enter")
    pane.sees("ended\n")
    pane.sees(" icanon")
    assert not marks(sv)
