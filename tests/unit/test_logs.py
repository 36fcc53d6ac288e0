"""`runtime/logs`: what our own processes have to say."""

from __future__ import annotations

import re
import subprocess
import sys


def said(code: str) -> str:
    """Standard error of a process of its own: its log is set up once."""
    done = subprocess.run(
        [sys.executable, "-c", f"from supervisor.runtime.logs import into_file, warn\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr


def test_a_warning_to_a_person_is_one_line_of_ours() -> None:
    assert (
        said("warn('it {is} odd', agent='a b'); warn('it {is} odd', agent='a b')")
        == "supervisor: it {is} odd agent='a b'\n"
    )


def test_a_line_in_a_shared_log_says_when_and_who() -> None:
    told = said("warn('first'); into_file(); warn('second')")
    assert re.fullmatch(r"supervisor: first\n\d{4}-\d\d-\d\dT\S+ WARNING pid=\d+ second\n", told), told
