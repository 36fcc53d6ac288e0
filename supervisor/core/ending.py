"""Reading an end: an exit and a plan become a hand-off. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from supervisor.core.entry import MAX_SURVIVORS, Death, HandOff
from supervisor.core.launch_plan import LaunchPlan
from supervisor.core.liveness import Now
from supervisor.core.ports import Exit
from supervisor.core.text import bounded, one_line

# the portable numbers of POSIX and those that Linux and macOS share; others are named by number
_SIGNALS = dict(
    zip(
        (1, 2, 3, 4, 6, 8, 9, 11, 13, 14, 15),
        ("HUP", "INT", "QUIT", "ILL", "ABRT", "FPE", "KILL", "SEGV", "PIPE", "ALRM", "TERM"),
        strict=True,
    )
)


def signal_name(number: int) -> str:
    """`KILL` for 9; `SIG34` for one without a portable name."""
    return _SIGNALS.get(number, f"SIG{number}")


def signal_number(name: str) -> int:
    """The inverse of `signal_name`; 0 for an unknown name."""
    by_name = {n: number for number, n in _SIGNALS.items()}
    numbered = re.fullmatch(r"SIG([0-9]{1,3})", name)
    return int(numbered[1]) if numbered else by_name.get(name, 0)


def ended(
    end: Exit,
    plan: LaunchPlan,
    *,
    stopped: bool,
    now: int,
    output: bytes = b"",
    leftovers: int = 0,
    survivors: Sequence[str] = (),
    hung_up: bool = False,
) -> HandOff:
    """The hand-off of an agent whose process has ended; `output` is the end of what it printed.

    An unknown end is neither success nor failure; nor is a code of success of an agent that was stopped or hung up on,
    where nothing else tells.
    """
    notes = [f"{leftovers} of its processes still run (`supervisor stop` ends them)"] if leftovers else []
    success = None
    if end.signal is not None:
        success = False
    elif end.code is not None:
        success = _done(end.code, plan, says_success(output, plan.success_line), told=stopped or hung_up)
    return HandOff(
        outcome="exited" if end.code is not None else "signaled" if end.signal is not None else "unknown",
        cause="stopped" if stopped else "ended",
        observed_at=now,
        code=end.code,
        signal=signal_name(end.signal) if end.signal is not None else None,
        success=success,
        detail="; ".join(notes),
        survivors=tuple(survivors)[:MAX_SURVIVORS],
        hung_up=hung_up,
    )


def _done(code: int, plan: LaunchPlan, said: bool | None, *, told: bool) -> bool | None:
    """Some CLIs end with 0 when they are told to end: of work that is done it says nothing then."""
    if code not in plan.success_codes or said is False:
        return False
    return said if told else True


def says_success(output: bytes, expected: Mapping[str, str | bool]) -> bool | None:
    """Whether the last JSON line of an output is the one of work that is done; None when nothing can be told."""
    for line in reversed(output.split(b"\n") if expected else ()):
        try:
            raw = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue  # standard error goes to the same file
        if isinstance(raw, dict):
            return all(raw.get(key) == value for key, value in expected.items())
    return None


def not_started(why: str, *, cause: str, now: int) -> HandOff:
    """The hand-off of an agent that never ran."""
    return HandOff(
        outcome="not_started",
        cause="stopped" if cause == "stopped" else "lost" if cause == "lost" else "spawn_failed",
        observed_at=now,
        success=False,
        detail=bounded(one_line(why, 500), 500),
    )


def death(end: Exit, now: Now) -> Death:
    """One line of the tally."""
    return Death(
        at=now.wall_ms,
        boot_id=now.machine.boot_id,
        monotonic_ns=now.monotonic_ns,
        code=end.code,
        signal=signal_name(end.signal) if end.signal is not None else None,
    )


def exit_status(hand_off: HandOff) -> int:
    """What `launch` in the foreground and `wait` end with: the code, 128 + n, or 1 when it is not known.

    Also 1 for a code of 0 that is no success: whoever goes on after it takes 0 for work that is done.
    """
    if hand_off.code is not None:
        return hand_off.code or int(hand_off.success is False)
    if hand_off.signal is not None:
        return 128 + signal_number(hand_off.signal)
    return 1


def describe_early(hand_off: HandOff) -> str:
    """For people: the same of an agent that was waited for: `exited with 3 before it was up`."""
    return describe(hand_off) + ("" if hand_off.outcome == "not_started" else " before it was up")


def describe(hand_off: HandOff) -> str:
    """For people: `exited with 3`, `killed by TERM (stopped)`, `ended, nobody knows how`, …"""
    how = {
        "exited": f"exited with {hand_off.code}" + _in_spite_of(hand_off),
        "signaled": f"killed by {hand_off.signal}",
        "unknown": "ended, nobody could learn how",
        "not_started": "never started",
    }[hand_off.outcome]
    why = {"ended": "", "stopped": " (stopped)", "lost": " (found dead)", "spawn_failed": ""}[hand_off.cause]
    if hand_off.outcome == "not_started" and hand_off.cause == "lost":
        why = ""  # nobody has found a process: the detail says what came before it
    if hand_off.hung_up and hand_off.cause == "ended":
        why = " (its terminal was closed)"
    detail = f": {hand_off.detail}" if hand_off.detail else ""
    return f"{how}{why}{detail}{_survivors(hand_off.survivors)}"


def describe_it(hand_off: HandOff) -> str:
    """The same as a sentence: `it exited with 3`, `it was killed by TERM (stopped)`."""
    return f"it {'was ' if hand_off.outcome == 'signaled' else ''}{describe(hand_off)}"


def _in_spite_of(hand_off: HandOff) -> str:
    return ", which is no success" if hand_off.code == 0 and hand_off.success is False else ""


def _survivors(survivors: Iterable[str]) -> str:
    names = ", ".join(survivors)
    return f"; still alive: {names}" if names else ""
