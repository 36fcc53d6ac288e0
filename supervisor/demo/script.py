"""What a prompt tells the demo agent to do: text in, typed steps out.

Owns nothing. Never runs, reads or prints anything; a prompt with one malformed directive gives no steps at
all, so that nothing of it is run.
"""

import json
import math
import signal
from collections.abc import Callable
from typing import NamedTuple

LONGEST_SLEEP = 30 * 86400.0  # a month; far above any scenario, far below what time.sleep overflows at

# Their default action ends nobody, so a CRASH by them would be a lie.
_HARMLESS = {"CHLD", "CLD", "CONT", "URG", "WINCH", "STOP", "TSTP", "TTIN", "TTOU", "INFO"}
_IGNORABLE = ("TERM", "INT", "HUP")


class Run(NamedTuple):
    command: str


class Background(NamedTuple):
    command: str


class Spawn(NamedTuple):
    name: str
    profile: str
    prompt: str


class Sleep(NamedTuple):
    seconds: float


class Print(NamedTuple):
    text: str


class Ask(NamedTuple):
    tool: str
    value: str


class WaitFile(NamedTuple):
    path: str


class Ignore(NamedTuple):
    signum: int


class Exit(NamedTuple):
    code: int


class Crash(NamedTuple):
    signum: int


Step = Run | Background | Spawn | Sleep | Print | Ask | WaitFile | Ignore | Exit | Crash


class Malformed(NamedTuple):
    line: int
    directive: str
    why: str


def parse(prompt: str) -> tuple[Step, ...] | Malformed:
    """Read every directive of the prompt; a line that is none is prose and passed over."""
    steps: list[Step] = []
    # split("\n"), not splitlines(): that one also cuts a command at a form feed or U+2028
    for number, line in enumerate(prompt.split("\n"), start=1):
        name, colon, value = line.lstrip(" \t").removesuffix("\r").partition(":")
        reader = _DIRECTIVES.get(name) if colon else None
        if reader is None:
            continue
        # NUL: no argument or path can hold one
        step = "it holds a NUL byte" if "\0" in value else reader(value)
        if isinstance(step, str):
            return Malformed(line=number, directive=name, why=step)
        steps.append(step)
    return tuple(steps)


def _run(value: str) -> Step | str:
    command = value.strip(" \t")
    return Run(command) if command else "the command is missing"


def _background(value: str) -> Step | str:
    command = value.strip(" \t")
    return Background(command) if command else "the command is missing"


def _spawn(value: str) -> Step | str:
    words = value.split(None, 2)
    if len(words) != 3:
        return 'it takes NAME PROFILE "prompt as a JSON string"'
    name, profile, quoted = words
    if name.startswith("-") or profile.startswith("-"):
        return "a name or profile can't start with a dash"
    try:
        prompt = json.loads(quoted)
    except (ValueError, RecursionError):
        prompt = None
    if not isinstance(prompt, str):
        return "the prompt is no JSON string"
    try:
        prompt.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return "the prompt holds half a surrogate pair"
    return Spawn(name, profile, prompt)


def _sleep(value: str) -> Step | str:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= LONGEST_SLEEP:  # false for nan too
        return f"{value.strip()!r} is no number of seconds from 0 to {LONGEST_SLEEP:.0f}"
    return Sleep(seconds)


def _print(value: str) -> Step | str:
    return Print(value.removeprefix(" "))


def _ask(value: str) -> Step | str:
    tool, _, asked = value.strip(" \t").partition(" ")
    return Ask(tool, asked.lstrip(" \t")) if tool and asked else "it takes a tool and a value"


def _wait_file(value: str) -> Step | str:
    path = value.strip(" \t")
    return WaitFile(path) if path else "the path is missing"


def _ignore(value: str) -> Step | str:
    name = value.strip().removeprefix("SIG")
    if name not in _IGNORABLE:
        return f"{name!r} is none of {', '.join(_IGNORABLE)}"
    return Ignore(signal.Signals["SIG" + name])


def _exit(value: str) -> Step | str:
    code = value.strip()
    if not (code.isascii() and code.isdigit() and len(code) <= 3 and int(code) <= 255):
        return f"{code!r} is no exit code from 0 to 255"
    return Exit(int(code))


def _crash(value: str) -> Step | str:
    name = value.strip().removeprefix("SIG")
    if name in _HARMLESS or "SIG" + name not in signal.Signals.__members__:
        return f"{name!r} is no signal that ends a process"
    return Crash(signal.Signals["SIG" + name])


_DIRECTIVES: dict[str, Callable[[str], Step | str]] = {
    "RUN": _run,
    "BG": _background,
    "SPAWN": _spawn,
    "SLEEP": _sleep,
    "PRINT": _print,
    "ASK": _ask,
    "WAIT_FILE": _wait_file,
    "IGNORE": _ignore,
    "EXIT": _exit,
    "CRASH": _crash,
}
