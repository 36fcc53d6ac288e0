"""A tmux server of the test's own, and what is on the screen of an agent's pane. Ended by the fixture that made it."""

import subprocess
import tempfile
from pathlib import Path

from tests.e2e_real.processes import until
from tests.e2e_real.rig import Rig, Row


class Panes:
    """The panes of one test's agents."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self._folder = tempfile.TemporaryDirectory(prefix="tm")  # a socket's path has at most 107 bytes
        self.env = {"TMUX_TMPDIR": self._folder.name, "TERM": "xterm-256color"}
        rig.env |= self.env
        self._tmux("-f", "/dev/null", "new-session", "-d", "-s", "supervisor", "-x", "180", "-y", "50", "sleep", "3600")

    def launch(self, profile: str, name: str, *words: str, prompt: str | None = None) -> Row:
        """`launch --tmux`, which must succeed; a prompt goes by a file."""
        options: tuple[str, ...] = ()
        if prompt is not None:
            file = self.rig.tmp / f"{name}.prompt"
            file.write_text(prompt)
            options = ("--prompt-file", str(file))
        done = self.rig.run("launch", "--tmux", "--json", "--name", name, *options, profile, *words)
        row: Row = done.data
        return row

    def screen(self, name: str) -> str:
        """What the agent's pane shows."""
        return self._tmux("capture-pane", "-p", "-t", self.rig.entry(name)["terminal"]["pane"])

    def shows(self, name: str, text: str) -> None:
        """Wait until it does."""
        until(lambda: text in self.screen(name), lambda: f"{text!r} on the screen:\n{self.screen(name)}")

    def type(self, name: str, text: str) -> None:
        """Type a line, and Enter once it is on the screen (a paste and a key at once are one paste for some)."""
        pane = self.rig.entry(name)["terminal"]["pane"]
        self._tmux("send-keys", "-t", pane, "-l", text)
        self.shows(name, text[:30])
        self._tmux("send-keys", "-t", pane, "Enter")

    def key(self, name: str, key: str) -> None:
        """Press one key."""
        self._tmux("send-keys", "-t", self.rig.entry(name)["terminal"]["pane"], key)

    def open(self, line: str) -> None:
        """Run a command in the pane of this test's own, by a shell."""
        self._tmux("respawn-pane", "-k", "-t", "supervisor:0", "/bin/sh", "-c", line)

    def text(self) -> str:
        """What that pane shows."""
        return self._tmux("capture-pane", "-p", "-t", "supervisor:0")

    def reads(self, text: str) -> None:
        """Wait until it does."""
        until(lambda: text in self.text(), lambda: f"{text!r} on the screen:\n{self.text()}")

    def types(self, keys: str) -> bool:
        """Type into it, once."""
        self._tmux("send-keys", "-t", "supervisor:0", "-l", keys)
        return True

    def kill_server(self) -> None:
        """End the server, with all of its panes."""
        subprocess.run(["tmux", "kill-server"], env=self.rig.env, capture_output=True, check=False)

    def close(self) -> None:
        """End the server for good."""
        self.kill_server()
        self._folder.cleanup()

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(["tmux", *words], env=self.rig.env, capture_output=True, text=True, check=False)
        return done.stdout


def hooked(path: Path) -> list[str]:
    """The CLIs' own files of settings below a folder that speak of hooks or of us."""
    names = (".claude.json", "config.toml", "settings.json", "settings.local.json", "hooks.json")
    files = [p for p in path.rglob("*") if p.name in names]
    return [str(p) for p in files if b"hook" in p.read_bytes() or b"supervisor" in p.read_bytes()]
