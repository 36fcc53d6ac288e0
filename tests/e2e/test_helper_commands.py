"""Short commands that are run to their end: tmux, version probes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervisor.adapters.process_table import system_process_table
from supervisor.adapters.signals import SystemSignals
from supervisor.adapters.spawn import run
from supervisor.core.identity import ProcessKey


def test_one_that_does_not_end_is_given_up_though_a_daemon_of_it_holds_its_output(tmp_path: Path) -> None:
    pid_file, processes = tmp_path / "pid", system_process_table("here")
    script = f"setsid sh -c 'echo $$ > {pid_file}; exec sleep 60' & sleep 60"
    with pytest.raises(TimeoutError):
        run(["sh", "-c", script], env=dict(os.environ), timeout=2)
    daemon = processes.identify(int(pid_file.read_text()))
    assert isinstance(daemon, ProcessKey), "its end was waited for"
    SystemSignals(processes).send(daemon, 9)
