"""The peers: how each is configured for N sleeping agents, started, asked and ended. Measures nothing itself."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.bench.procs import SECONDS, SLEEP


class Peer:
    """A supervisor in the foreground of its own session, in a folder of its own."""

    name = "?"
    settle = 3.0
    """Seconds after its start until it is at rest."""

    def __init__(self, binaries: Path | None, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self.env = dict(env)
        self._bin = str(binaries) + "/" if binaries else ""
        self.process: subprocess.Popen[bytes] | None = None

    def version(self) -> str | None:
        """Its version, empty when it does not tell, None when it is not installed."""
        raise NotImplementedError

    def configure(self, agents: int) -> None:
        """Write what it needs into its folder."""
        raise NotImplementedError

    def argv(self) -> list[str]:
        """The supervisor itself."""
        raise NotImplementedError

    def status(self) -> list[str]:
        """Its list of agents."""
        raise NotImplementedError

    def stop(self) -> list[str]:
        """Stop all agents."""
        raise NotImplementedError

    def help(self) -> list[str] | None:
        """Its `--help`, if its command line has one."""
        return None

    def launch(self) -> None:
        """Start the supervisor."""
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                self.argv(),
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _told_version(self, argv: list[str], pattern: str) -> str | None:
        try:
            done = subprocess.run(argv, env=self.env, capture_output=True, timeout=30, check=False)
        except OSError:
            return None
        found = re.search(pattern, (done.stdout + done.stderr).decode(errors="replace"))
        return found.group(1) if found else ""


class Supervisord(Peer):
    """supervisord with one program per agent."""

    name = "supervisord"

    def version(self) -> str | None:
        return self._told_version([f"{self._bin}supervisord", "--version"], r"(\d[\d.]*)") if self._bin else None

    def configure(self, agents: int) -> None:
        at = self.folder
        text = (
            f"[unix_http_server]\nfile={at}/s\n[supervisord]\nnodaemon=true\nminfds={max(1024, 8 * agents)}\n"
            f"pidfile={at}/pid\nlogfile={at}/s.log\nchildlogdir={at}\n"
            "[rpcinterface:supervisor]\nsupervisor.rpcinterface_factory = supervisor.rpcinterface:"
            f"make_main_rpcinterface\n[supervisorctl]\nserverurl=unix://{at}/s\n"
        )
        program = f"command={SLEEP} {SECONDS}\nautorestart=true\nstartsecs=0\n"
        (at / "conf").write_text(text + "".join(f"[program:a{i}]\n{program}" for i in range(agents)))

    def argv(self) -> list[str]:
        return [f"{self._bin}supervisord", "-n", "-c", f"{self.folder}/conf"]

    def status(self) -> list[str]:
        return [f"{self._bin}supervisorctl", "-c", f"{self.folder}/conf", "status"]

    def stop(self) -> list[str]:
        return [f"{self._bin}supervisorctl", "-c", f"{self.folder}/conf", "stop", "all"]

    def help(self) -> list[str] | None:
        return [f"{self._bin}supervisorctl", "--help"]


class Circus(Peer):
    """circusd with one watcher per agent."""

    name = "circus"
    settle = 6.0

    def version(self) -> str | None:
        return self._told_version([f"{self._bin}circusd", "--version"], r"(\d[\d.]*)") if self._bin else None

    def configure(self, agents: int) -> None:
        at = self.folder
        text = f"[circus]\nendpoint = ipc://{at}/e\npubsub_endpoint = ipc://{at}/p\nstatsd = false\n"
        watcher = f"cmd = {SLEEP} {SECONDS}\nnumprocesses = 1\nwarmup_delay = 0\ncopy_env = true\n"
        (at / "conf").write_text(text + "".join(f"[watcher:a{i}]\n{watcher}" for i in range(agents)))

    def argv(self) -> list[str]:
        return [f"{self._bin}circusd", f"{self.folder}/conf"]

    def _ctl(self, word: str) -> list[str]:
        return [f"{self._bin}circusctl", "--timeout", "60", "--endpoint", f"ipc://{self.folder}/e", word]

    def status(self) -> list[str]:
        return self._ctl("status")

    def stop(self) -> list[str]:
        return self._ctl("stop")

    def help(self) -> list[str] | None:
        return [f"{self._bin}circusctl", "--help"]


class Runit(Peer):
    """runsvdir over one service folder per agent."""

    name = "runit"
    settle = 6.0

    def version(self) -> str | None:
        return "" if shutil.which("runsvdir") else None

    def configure(self, agents: int) -> None:
        for number in range(agents):
            folder = self.folder / "sv" / f"a{number}"
            folder.mkdir(parents=True)
            run = folder / "run"
            run.write_text(f"#!/bin/sh\nexec {SLEEP} {SECONDS}\n")
            run.chmod(0o755)

    def argv(self) -> list[str]:
        return ["runsvdir", "-P", f"{self.folder}/sv"]

    def status(self) -> list[str]:
        return ["sh", "-c", 'sv status "$0"/*', f"{self.folder}/sv"]

    def stop(self) -> list[str]:
        return ["sh", "-c", 'sv -w 30 stop "$0"/*', f"{self.folder}/sv"]


class S6(Runit):
    """s6-svscan over the same service folders."""

    name = "s6"
    settle = 3.0

    def version(self) -> str | None:
        return "" if shutil.which("s6-svscan") else None

    def argv(self) -> list[str]:
        return ["s6-svscan", "-c", "1000", f"{self.folder}/sv"]

    def status(self) -> list[str]:
        return ["sh", "-c", 'for d in "$0"/a*; do s6-svstat "$d"; done', f"{self.folder}/sv"]

    def stop(self) -> list[str]:
        return ["sh", "-c", 'for d in "$0"/a*; do s6-svc -d "$d"; done', f"{self.folder}/sv"]


KINDS: tuple[type[Peer], ...] = (Supervisord, Circus, Runit, S6)
