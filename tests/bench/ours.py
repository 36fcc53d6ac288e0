"""Driving the installed `supervisor` in a throw-away state root. Owns that root; measures nothing itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.bench.commands import Done, timed
from tests.bench.procs import SECONDS, SLEEP

TREE = "bench"


class Ours:
    """One state root. Every command gets the same small environment, as from a shell."""

    def __init__(self, binaries: Path, folder: Path, env: Mapping[str, str]) -> None:
        self._binaries = binaries
        self.folder = folder
        self.home = folder / "state"
        self.env = {**env, "SUPERVISOR_HOME": str(self.home), "HOME": str(folder)}
        folder.mkdir(parents=True)

    @property
    def binary(self) -> Path:
        """The installed command."""
        return self._binaries / "supervisor"

    def run(self, *words: str, ok: tuple[int, ...] = (0,)) -> Done:
        """One `supervisor …`. Raises RuntimeError: an exit code that is not `ok`."""
        done = timed([str(self._binaries / "supervisor"), *words], env=self.env, cwd=str(self.folder))
        if done.code not in ok:
            raise RuntimeError(f"supervisor {' '.join(words)}: exit {done.code}: {done.err[-600:]}")
        return done

    def python(self, *words: str, feed: bytes = b"") -> Done:
        """The installed project's Python."""
        done = timed([str(self._binaries / "python"), *words], env=self.env, cwd=str(self.folder), feed=feed)
        if done.code:
            raise RuntimeError(f"python {' '.join(words)}: exit {done.code}: {done.err[-600:]}")
        return done

    def inside(self, *words: str, feed: bytes = b"") -> bytes:
        """`inside.py` there; what it printed."""
        return self.python("-P", str(Path(__file__).with_name("inside.py")), *words, feed=feed).out

    def tree(self, agents: int, *, lead: bool = False) -> str:
        """A tree file of so many sleeping agents; with a `lead`, the first is the parent of all others."""
        path = self.folder / f"tree-{agents}-{lead}.toml"
        table = f'profile = "shell"\nargs = ["{SLEEP.rsplit("/", 1)[1]}", "{SECONDS}"]\nrestart = "permanent"\n'
        text = f'name = "{TREE}"\n' + "".join(
            f"[agents.a{i}]\n{table}" + ('parent = "a0"\n' if lead and i else "") for i in range(agents)
        )
        path.write_text(text)
        return str(path)

    def rows(self, *options: str) -> list[dict[str, Any]]:
        """`ps --json`."""
        found: list[dict[str, Any]] = json.loads(self.run("ps", "--json", *options).out)
        return found

    def keepers(self) -> set[int]:
        """The pids of all keepers on record."""
        return {r["keeperPid"] for r in self.rows()}
