"""The keeper-to-be: what it weighs, and what becomes of a launch whose keeper-to-be is gone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from supervisor.runtime import seed

ROOT = Path(__file__).parents[2]
ONLY_FOR_LAUNCHERS = {"click", "rich", "tomllib", "supervisor.cli", "supervisor.runtime.launching"}


def test_a_keeper_to_be_has_loaded_nothing_of_the_command_line() -> None:
    script = "import sys, supervisor.runtime.seed; print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    modules = set(done.stdout.split())
    assert "supervisor.runtime.keeper" in modules
    assert modules & ONLY_FOR_LAUNCHERS == set()


def test_a_dead_keeper_to_be_is_noticed_before_anything_is_started() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    before = os.listdir("/dev/fd")
    with ours:
        assert seed._hand_over(ours, (), ()) is None
        assert len(os.listdir("/dev/fd")) == len(before)


def test_what_is_handed_over_arrives_whole_with_its_descriptors() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        news = seed._hand_over(ours, [], ())
        assert news is not None
        found = seed._receive(theirs)
        assert found is not None
        drafts, (writer,) = found
        os.write(writer, b"kept\n")
        os.close(writer)
        assert (drafts, os.read(news, 16), os.read(news, 16)) == ([], b"kept\n", b"")
        os.close(news)


def test_a_launcher_that_ends_without_a_word_ends_the_keeper_to_be() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        assert seed._receive(theirs) is None
