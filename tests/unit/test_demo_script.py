"""What the demo agent reads in a prompt."""

import signal

import pytest

from supervisor.demo import script
from supervisor.demo.script import (
    Ask,
    Background,
    Crash,
    Exit,
    Ignore,
    Malformed,
    Print,
    Run,
    Sleep,
    Spawn,
    Step,
    WaitFile,
)

ONE_STEP: list[tuple[str, Step]] = [
    ("RUN: make test", Run("make test")),
    ("RUN:make test", Run("make test")),
    ("  RUN: make test  ", Run("make test")),
    ("RUN: make test\r", Run("make test")),
    ("RUN: echo 'a: b' \"$(x)\" \\", Run("echo 'a: b' \"$(x)\" \\")),
    ("RUN: printf '\u2028\x0c'", Run("printf '\u2028\x0c'")),
    ("RUN: cat \udcff", Run("cat \udcff")),
    ("BG: sleep 1 &", Background("sleep 1 &")),
    ('SPAWN: w-1 demo "a\\nRUN: b \\"c\\" é"', Spawn("w-1", "demo", 'a\nRUN: b "c" é')),
    ('SPAWN: w demo ""', Spawn("w", "demo", "")),
    ("SLEEP: 0", Sleep(0.0)),
    ("SLEEP: .25", Sleep(0.25)),
    ("PRINT: a b ", Print("a b ")),
    ("PRINT:  a", Print(" a")),
    ("PRINT:", Print("")),
    ("ASK: Bash git push --force", Ask("Bash", "git push --force")),
    ("ASK: Bash  -rf  x", Ask("Bash", "-rf  x")),
    ("WAIT_FILE: a file", WaitFile("a file")),
    ("IGNORE: TERM", Ignore(signal.SIGTERM)),
    ("IGNORE: SIGINT", Ignore(signal.SIGINT)),
    ("IGNORE: HUP", Ignore(signal.SIGHUP)),
    ("EXIT: 0", Exit(0)),
    ("EXIT: 255", Exit(255)),
    ("CRASH: SIGKILL", Crash(signal.SIGKILL)),
    ("CRASH: SEGV", Crash(signal.SIGSEGV)),
]


@pytest.mark.parametrize(("prompt", "step"), ONE_STEP, ids=[repr(prompt) for prompt, _ in ONE_STEP])
def test_a_directive_becomes_its_step(prompt: str, step: Step) -> None:
    steps = script.parse(prompt)
    assert (step,) == steps
    assert [type(step)] == [type(found) for found in steps]  # tuples of two kinds can be equal


MALFORMED = [
    ("RUN:", "RUN"),
    ("RUN:   ", "RUN"),
    ("BG:", "BG"),
    ("RUN: a\0b", "RUN"),
    ("WAIT_FILE: a\0b", "WAIT_FILE"),
    ("SPAWN: w demo", "SPAWN"),
    ("SPAWN: w demo plain words", "SPAWN"),
    ("SPAWN: w demo 7", "SPAWN"),
    ('SPAWN: w demo ["a"]', "SPAWN"),
    ('SPAWN: w demo "a" "b"', "SPAWN"),
    ('SPAWN: w demo "\\ud800"', "SPAWN"),
    ('SPAWN: -w demo "a"', "SPAWN"),
    ('SPAWN: w --yes "a"', "SPAWN"),
    ("SPAWN: w demo " + "[" * 100_000, "SPAWN"),
    ("SLEEP: x", "SLEEP"),
    ("SLEEP:", "SLEEP"),
    ("SLEEP: -1", "SLEEP"),
    ("SLEEP: nan", "SLEEP"),
    ("SLEEP: inf", "SLEEP"),
    ("SLEEP: 1e99", "SLEEP"),
    ("ASK: Bash", "ASK"),
    ("ASK: Bash  ", "ASK"),
    ("WAIT_FILE:", "WAIT_FILE"),
    ("IGNORE: KILL", "IGNORE"),
    ("IGNORE: term", "IGNORE"),
    ("IGNORE:", "IGNORE"),
    ("EXIT: 256", "EXIT"),
    ("EXIT: -1", "EXIT"),
    ("EXIT: ²", "EXIT"),
    ("EXIT:", "EXIT"),
    ("CRASH: NOSUCH", "CRASH"),
    ("CRASH: CHLD", "CRASH"),
    ("CRASH: STOP", "CRASH"),
    ("CRASH: 9", "CRASH"),
    ("CRASH:", "CRASH"),
]


@pytest.mark.parametrize(("line", "name"), MALFORMED, ids=[repr(line[:30]) for line, _ in MALFORMED])
def test_a_malformed_directive_spoils_the_whole_prompt_and_says_where(line: str, name: str) -> None:
    found = script.parse(f"RUN: true\nprose\n{line}\nRUN: true")
    assert isinstance(found, Malformed)
    assert (3, name) == (found.line, found.directive)
    assert found.why


@pytest.mark.parametrize(
    "prose", ["", "please RUN: make", "run: make", "RUN make", "NOTE: x", "- RUN: x", ": x", "RUN : x", "\0"]
)
def test_prose_is_passed_over(prose: str) -> None:
    assert script.parse(prose) == ()


def test_directives_keep_their_order_between_prose() -> None:
    prompt = "Do this:\nPRINT: one\nand then\nRUN: two\nPRINT: three"
    assert script.parse(prompt) == (Print("one"), Run("two"), Print("three"))
