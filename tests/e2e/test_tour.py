"""`make run`: both acts come true, and nothing is left of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_the_tour_comes_true(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    argv = [sys.executable, "-P", "-m", "supervisor.demo.tour"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT TRUE" not in done.stdout
    assert done.stdout.count("ok:") >= 15
    assert list(tmp_path.glob("supervisor-tour-*")) == []
