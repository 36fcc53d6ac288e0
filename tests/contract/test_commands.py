"""Commands beside an event loop: bounded, timed, and gone with whoever waited for them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import pytest

from supervisor.adapters import commands
from supervisor.adapters.commands import Ran, run_command
from tests.e2e.processes import alive, wait_for

ENV = {"PATH": os.environ["PATH"]}


def run(script: str, *, stdin: bytes = b"", timeout_s: float = 60) -> Ran:
    async def main() -> Ran:
        return await run_command([sys.executable, "-c", script], env=ENV, cwd="/", stdin=stdin, timeout_s=timeout_s)

    return anyio.run(main)


def test_code_and_both_streams_come_back() -> None:
    ran = run(
        "import sys; sys.stdout.write(sys.stdin.read().upper()); sys.stderr.write('no'); sys.exit(3)", stdin=b"hi"
    )
    assert ran == Ran(3, b"HI", b"no")


def test_one_that_does_not_read_its_input_is_no_failure() -> None:
    assert run("import sys; sys.stdin.close(); print('done')", stdin=b"x" * 1_000_000).out == b"done\n"


def test_only_the_end_of_a_long_output_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "MAX_OUTPUT", 1000)
    ran = run("print('x' * 300_000 + 'end')")
    assert (len(ran.out), ran.out.endswith(b"end\n"), ran.cut) == (1000, True, True)


def test_one_that_does_not_end_in_time_is_killed() -> None:
    with pytest.raises(TimeoutError):
        run("import time; time.sleep(1000)", timeout_s=0.2)


def test_a_cancelled_caller_takes_it_along(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    script = f"import os, time; open({str(told)!r}, 'w').write(str(os.getpid()) + ' '); time.sleep(1000)"

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: run_command([sys.executable, "-c", script], env=ENV, cwd="/", timeout_s=600))
            while not (told.exists() and " " in told.read_text()):
                await anyio.sleep(0.02)
            tasks.cancel_scope.cancel()

    anyio.run(main)
    pid = int(told.read_text())
    wait_for(lambda: not alive(pid), "the end of the command")
