"""`make run`: both acts come true, piped and on a terminal, and nothing is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

ARGV = [sys.executable, "-P", "-m", "supervisor.demo.tour"]
PATIENCE = 110


def piped(env: dict[str, str]) -> tuple[int | None, str]:
    done = subprocess.run(ARGV, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout + done.stderr


def on_a_terminal(env: dict[str, str]) -> tuple[int | None, str]:
    tour = pexpect.spawn(ARGV[0], ARGV[1:], env=env, timeout=PATIENCE, encoding="utf-8", dimensions=(50, 150))
    tour.expect(pexpect.EOF)
    tour.close()
    return tour.exitstatus, str(tour.before)


@pytest.mark.parametrize(("watch", "good"), [(piped, "ok:"), (on_a_terminal, "✓")])
def test_the_tour_comes_true(tmp_path: Path, watch: object, good: str) -> None:
    assert callable(watch)
    env = {**os.environ, "TMPDIR": str(tmp_path), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    code, said = watch(env)
    assert code == 0, said
    assert "everything came true" in said
    assert said.count(good) >= 15
    assert list(tmp_path.glob("supervisor-tour-*")) == []


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_tour_whose_terminal_is_closed_tidies_up(tmp_path: Path, number: int) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    tour = subprocess.Popen(ARGV, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert tour.stdout is not None
    for line in tour.stdout:
        if line.startswith("lead: ready"):
            break
    tour.send_signal(number)
    tour.stdout.read()
    assert tour.wait(PATIENCE) == 130
    assert list(tmp_path.glob("supervisor-tour-*")) == []  # and nobody is left, as for every test
