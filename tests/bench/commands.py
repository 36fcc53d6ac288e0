"""Running one command and timing it: wall clock and processor time of exactly that process."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Done:
    """A command that has ended. `issued` is CLOCK_BOOTTIME in seconds, as process start times are."""

    code: int
    wall: float
    cpu: float
    issued: float
    out: bytes
    err: str


def timed(argv: Sequence[str], *, env: Mapping[str, str], cwd: str, feed: bytes = b"") -> Done:
    """Run to the end. Output goes to files, so that reading it costs the command nothing."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as given:
        given.write(feed)
        given.seek(0)
        issued = time.clock_gettime(time.CLOCK_BOOTTIME)
        began = time.perf_counter()
        child = subprocess.Popen(argv, env=dict(env), cwd=cwd, stdin=given, stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return Done(
            child.returncode,
            wall,
            usage.ru_utime + usage.ru_stime,
            issued,
            out.read(),
            err.read().decode(errors="replace").strip(),
        )
