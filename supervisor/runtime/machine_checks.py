"""The doctor's checks of the machine and of the installation: clocks, kernel, tmux, Python. Reads nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from supervisor.adapters.tmux import OLDEST, recent_enough
from supervisor.core.text import span
from supervisor.runtime.findings import Facts, Finding

CLOCK_SLACK_MS = 60_000  # a corrected clock; more is a wrong one
LOW_INSTANCES, LOW_WATCHES = 128, 8192  # the kernel's own defaults: less was taken away by somebody
OLDEST_PYTHON = (3, 11)


def clocks(facts: Facts) -> Iterator[Finding]:
    """The monotonic clock runs, and the wall clock is past every record."""
    newest = facts.newest_start_ms
    if facts.monotonic_ns <= 0:
        yield Finding("fail", "clocks", "the monotonic clock cannot be read", "Report it, with the system's name")
    elif newest is not None and newest > facts.wall_ms + CLOCK_SLACK_MS:
        ahead = span(newest - facts.wall_ms)
        yield Finding("warn", "clocks", f"the newest record is {ahead} in the future", "Set the clock (timedatectl)")
    else:
        yield Finding("ok", "clocks", "the wall clock is past every record, the monotonic one runs")


def kernel(facts: Facts) -> Iterator[Finding]:
    """What the kernel tells of processes and of their ends."""
    kernel = facts.kernel
    if kernel.pidfd is None:
        yield Finding("info", "kernel", f"{kernel.release}: ends are watched by kqueue, a lost exit status is unknown")
        return
    if not kernel.pidfd:
        yield Finding("warn", "pidfd", f"{kernel.release} has none: ends are polled", "Use Linux 5.3 or newer")
        return
    yield Finding("ok", "pidfd", kernel.release)
    if not kernel.pidfs:
        yield Finding("info", "pidfs", "none (Linux 6.9 has it): a process is known by pid and start time alone")
    if kernel.exit_status is False:
        yield Finding(
            "info",
            "exit status",
            "not kept by the kernel (Linux 6.15 does): how an agent ended is unknown if its keeper died",
        )
    elif kernel.exit_status:
        yield Finding("ok", "exit status", "kept by the kernel also when a keeper dies")
    if not kernel.subreaper:
        yield Finding("warn", "subreaper", "not to be had: helpers that double-fork are found by their marker only")


def inotify(facts: Facts) -> Iterator[Finding]:
    """Whether views can watch folders, or have to poll."""
    kernel, what = facts.kernel, "inotify"
    if kernel.inotify_instances is None or kernel.inotify_watches is None:
        return
    limits = f"max_user_instances {kernel.inotify_instances}, max_user_watches {kernel.inotify_watches}"
    if kernel.inotify_exhausted:
        yield Finding(
            "warn", what, f"no instance left ({limits}): views poll", "sudo sysctl fs.inotify.max_user_instances=1024"
        )
    elif kernel.inotify_instances < LOW_INSTANCES:
        yield Finding("warn", what, f"low: {limits}", "sudo sysctl fs.inotify.max_user_instances=1024")
    elif kernel.inotify_watches < LOW_WATCHES:
        yield Finding("warn", what, f"low: {limits}", "sudo sysctl fs.inotify.max_user_watches=65536")
    else:
        yield Finding("ok", what, limits)


def tmux(facts: Facts) -> Iterator[Finding]:
    """There, and recent enough for `launch --tmux`."""
    oldest = ".".join(map(str, OLDEST))
    if facts.tmux is None:
        yield Finding("info", "tmux", f"not installed: `launch --tmux` needs {oldest} or newer")
    elif not recent_enough(facts.tmux):
        yield Finding("warn", "tmux", f"{facts.tmux} is too old for `launch --tmux`", f"Install {oldest} or newer")
    else:
        yield Finding("ok", "tmux", facts.tmux)


def python(facts: Facts) -> Iterator[Finding]:
    """Recent enough."""
    found = tuple(int(n) for n in re.findall(r"\d+", facts.python)[:2])
    if found < OLDEST_PYTHON:
        yield Finding("fail", "python", f"{facts.python} ({facts.executable})", "Install with Python 3.11 or newer")
    else:
        yield Finding("ok", "python", f"{facts.python} ({facts.executable})")


def supervisord(facts: Facts) -> Iterator[Finding]:
    """The other package of this name is not in the same environment."""
    others = [o for o in facts.owners if o.replace("_", "-").lower() != "supervisor-agents"]
    if facts.supervisord or others:
        where = facts.supervisord or f"the package `supervisor` also belongs to {', '.join(others)}"
        yield Finding(
            "fail",
            "supervisord",
            f"installed in the same environment ({where}): removing one breaks the other",
            "pip uninstall supervisor-agents here, then: uv tool install supervisor-agents (or pipx)",
        )
    else:
        yield Finding("ok", "supervisord", "not in this environment")
