"""The real agent CLIs for the end-to-end tests: installed once, each test with a throw-away home.

Owns `<repo>/.clis/` (npm packages of exact versions; git ignores it) and what a test asks it to
write below its own temporary folder. Never reads or writes the user's own agent homes, and starts
no agent: it hands out paths and environments.

    python -m tests.e2e_real.clis      installs if needed, prints what is installed
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab import fakellm

ROOT = Path(__file__).resolve().parents[2] / ".clis"

WANTED = {
    "node": "22.23.3",
    "@anthropic-ai/claude-code": "2.1.332",
    "@earendil-works/pi-coding-agent": "1.6.0",
    "@gotgenes/pi-permission-system": "20.7.3",
    "@openai/codex": "0.171.0",
    "@google/gemini-cli": "0.61.0",
    "opencode-ai": "1.18.33",
}
BINARIES = {
    "node": "node",
    "@anthropic-ai/claude-code": "claude",
    "@earendil-works/pi-coding-agent": "pi",
    "@openai/codex": "codex",
    "@google/gemini-cli": "gemini",
    "opencode-ai": "opencode",
}
RUN_SCRIPTS_OF = ("node", "@anthropic-ai/claude-code", "opencode-ai")  # they put the native binary in place themselves
INSTALL_SECONDS = 600.0  # 770 MB to unpack; 17 s on a warm npm cache
# offline, npm's own retries take 280 s to say so; these take 4 s
ONE_RETRY = ("--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=2000")
VERSION_SECONDS = 30.0  # a first start reads 400 MB of claude from a cold disk

DUMMY_KEY = "sk-ant-dummy-for-the-fake-model-0123456789"
FAKE_MODEL = "fake/fake-1"  # pi's `--model`; also the default in the home made below


class ClisUnavailable(Exception):
    """The agent CLIs can't be installed here; `why` is for the test's skip or failure message."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True)
class Clis:
    """Where the installed programs are."""

    root: Path

    @property
    def bin(self) -> Path:
        """node 22 and all CLIs in one folder: first on PATH, or pi finds another node."""
        return self.root / "node_modules" / ".bin"

    @property
    def claude(self) -> Path:
        return self.bin / "claude"

    @property
    def pi(self) -> Path:
        return self.bin / "pi"

    @property
    def permission_extension(self) -> Path:
        """For `pi --no-extensions -e …`; pi loads the TypeScript as it is."""
        return self.root / "node_modules" / "@gotgenes" / "pi-permission-system" / "src" / "index.ts"

    def path(self, rest: str) -> str:
        """A PATH with our programs before `rest`."""
        return f"{self.bin}{os.pathsep}{rest}"

    def versions(self) -> dict[str, str]:
        """What npm really installed, by package name."""
        modules = self.root / "node_modules"
        return {name: _package_version(modules / name / "package.json") for name in WANTED}


def versions() -> dict[str, str]:
    """The versions the tests run against, installing them if needed."""
    return ensure_installed().versions()


def ensure_installed(root: Path = ROOT) -> Clis:
    """Install the wanted versions into `root` unless they are there. Raises ClisUnavailable."""
    clis = Clis(root)
    if _is_complete(clis):
        return clis
    root.mkdir(parents=True, exist_ok=True)
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test workers at once: the second finds it done
        if not _is_complete(clis):
            _install(clis)
    return clis


def _stamp(clis: Clis) -> Path:
    return clis.root / "stamp.json"


def _is_complete(clis: Clis) -> bool:
    try:
        stamped = json.loads(_stamp(clis).read_text())
    except (FileNotFoundError, ValueError):
        return False
    return bool(stamped == WANTED) and all((clis.bin / name).exists() for name in BINARIES.values())


def _install(clis: Clis) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise ClisUnavailable("npm is not on PATH: install Node.js with npm to run the real-CLI tests")
    _stamp(clis).unlink(missing_ok=True)
    (clis.root / ".gitignore").write_text("*\n")
    package = {
        "private": True,
        "dependencies": WANTED,
        "allowScripts": dict.fromkeys(RUN_SCRIPTS_OF, True),
    }
    (clis.root / "package.json").write_text(json.dumps(package, indent=1))
    quiet = ("--no-audit", "--no-fund", "--loglevel=error")
    argv = [npm, "install", *quiet, "--ignore-scripts=false", *ONE_RETRY]
    try:
        done = subprocess.run(
            argv, cwd=clis.root, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=INSTALL_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ClisUnavailable(f"npm install did not end within {INSTALL_SECONDS:.0f} s (offline?)") from None
    if done.returncode != 0:
        raise ClisUnavailable(
            f"npm install in {clis.root} failed, exit code {done.returncode} (offline?): " + done.stderr[:600]
        )
    for package_name, binary in BINARIES.items():
        _check_runs(clis, binary=binary, version=WANTED[package_name])
    _stamp(clis).write_text(json.dumps(WANTED))


def _check_runs(clis: Clis, *, binary: str, version: str) -> None:
    """An npm which skips install scripts leaves a stub: better said here than by a test."""
    home = clis.root / "home"
    home.mkdir(exist_ok=True)
    env = {"HOME": str(home), "PATH": clis.path(os.defpath), "PI_OFFLINE": "1", "DISABLE_AUTOUPDATER": "1"}
    try:
        done = subprocess.run(
            [str(clis.bin / binary), "--version"], env=env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=VERSION_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClisUnavailable(f"{binary} is installed in {clis.root} but does not run: {error}") from None
    if version not in done.stdout:
        said = (done.stdout + done.stderr)[-500:]
        raise ClisUnavailable(f"{binary} in {clis.root} is not version {version}; it said: {said}")


def _package_version(package_json: Path) -> str:
    return str(json.loads(package_json.read_text())["version"])


# ------------------------------------------------------------------ throw-away agent homes


def claude_home(tmp: Path, port: int, cwd: Path) -> dict[str, str]:
    """A new claude home below `tmp`, past onboarding and with `cwd` trusted; its environment.

    The environment holds claude's own variables only: the caller adds PATH, LANG and the like.
    """
    config = tmp / "claude"
    config.mkdir(parents=True)
    home = _new_home(tmp)
    seed: dict[str, Any] = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "autoUpdates": False,
        "customApiKeyResponses": {"approved": [DUMMY_KEY[-20:]], "rejected": []},
        "projects": {str(cwd): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}},
    }
    (config / ".claude.json").write_text(json.dumps(seed))
    return {
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(config),
        "CLAUDE_CODE_TMPDIR": str(_folder(tmp / "claude-tmp")),
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
        "ANTHROPIC_API_KEY": DUMMY_KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def claude_session_file(env: dict[str, str], cwd: Path, session_id: str) -> Path:
    """Where claude keeps the session which it started in `cwd`."""
    folder = re.sub(r"[^A-Za-z0-9]", "-", str(cwd))
    return Path(env["CLAUDE_CONFIG_DIR"]) / "projects" / folder / f"{session_id}.jsonl"


def pi_home(tmp: Path, port: int) -> dict[str, str]:
    """A new pi agent folder below `tmp` whose only model is the fake one; its environment.

    Without the permission extension every tool runs unasked. With it, bash asks.
    """
    agent = tmp / "pi"
    agent.mkdir(parents=True)
    provider = {
        "baseUrl": f"http://127.0.0.1:{port}/v1",
        "api": "openai-completions",
        "apiKey": "dummy",
        "models": [{"id": "fake-1", "contextWindow": 128_000, "maxTokens": 1024}],
    }
    (agent / "models.json").write_text(json.dumps({"providers": {"fake": provider}}))
    (agent / "settings.json").write_text(json.dumps({"defaultProvider": "fake", "defaultModel": "fake-1"}))
    asks = {"permissionReviewLog": True, "debugLog": True, "permission": {"*": "allow", "bash": "ask"}}
    extension = _folder(agent / "extensions" / "pi-permission-system")
    (extension / "config.json").write_text(json.dumps(asks))
    return {
        "HOME": str(_new_home(tmp)),
        "PI_CODING_AGENT_DIR": str(agent),
        "PI_OFFLINE": "1",
        "PI_SKIP_VERSION_CHECK": "1",
        "PI_TELEMETRY": "0",
    }


def pi_session_files(env: dict[str, str], session_id: str) -> list[Path]:
    """The files of a pi session: one, unless the same id was used in another folder as well."""
    return sorted(Path(env["PI_CODING_AGENT_DIR"]).glob(f"sessions/*/*_{session_id}.jsonl"))


def _new_home(tmp: Path) -> Path:
    return _folder(tmp / "home")


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


# ------------------------------------------------------------------ the fake model


@dataclass(frozen=True)
class FakeModel:
    """A model on loopback; what it shall do is written in the prompts (see tests/lab/fakellm.py)."""

    port: int
    log: Path

    def requests(self) -> list[dict[str, Any]]:
        """Every request so far, oldest first, with what was answered (`calls`, `text`)."""
        lines = self.log.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]


@contextmanager
def fake_model(log: Path) -> Iterator[FakeModel]:
    """Serve the fake model from a thread of this process, on a port the kernel chooses."""
    log.touch()
    server = fakellm.serve(0, str(log))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield FakeModel(port=server.server_address[1], log=log)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def main() -> int:
    """Print what is installed."""
    try:
        clis = ensure_installed()
    except ClisUnavailable as unavailable:
        print(f"can't install the agent CLIs: {unavailable.why}", file=sys.stderr)
        return 1
    print(clis.bin)
    for name, version in clis.versions().items():
        print(f"{name} {version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
