"""Installing what is measured, as a user has it: ours and the peers in venvs of their own, with compiled bytecode.

Owns `bench-results/` at the top of the checkout (git-ignored).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench-results"
PEER_PACKAGES = ("supervisor", "circus")
"""supervisord's distribution is called `supervisor` on PyPI; ours is `supervisor-agents`."""


@contextmanager
def alone() -> Iterator[None]:
    """One bench at a time: two would measure each other, and remove what the other has installed."""
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("  waiting for another bench to end", file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def clean_environment() -> dict[str, str]:
    """Ours, but for what changes how Python starts or compiles (PYTHONDONTWRITEBYTECODE and the like)."""
    return {n: v for n, v in os.environ.items() if not n.startswith("PYTHON") and n != "VIRTUAL_ENV"}


def install_ours() -> Path:
    """The bin folder of a venv with this checkout installed, not editable, all of it compiled. Kept while unchanged."""
    digest = _digest()
    venv = RESULTS / f"ours-{digest}"
    done = venv / "installed"
    if not done.exists():
        shutil.rmtree(venv, ignore_errors=True)
        _make_venv(venv)
        source = venv / "source"
        for path in _sources():
            target = source / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        _pip(venv, "--no-cache-dir", str(source))
        _compile(venv)
        done.touch()
    return venv / "bin"


def sweep(binaries: Path) -> None:
    """Remove earlier installations of ours, and what killed runs left; after the run, for deletions slow it down."""
    for old in (*RESULTS.glob("ours-*"), *RESULTS.glob("run-*")):
        if old not in binaries.parents:
            shutil.rmtree(old, ignore_errors=True)


def install_peers() -> Path | None:
    """The bin folder of a venv with supervisord and circus; None when they cannot be installed (no network)."""
    venv = RESULTS / "peers"
    done = venv / "installed"
    if not done.exists():
        shutil.rmtree(venv, ignore_errors=True)
        try:
            _make_venv(venv)
            _pip(venv, *PEER_PACKAGES)
            _compile(venv)
        except subprocess.CalledProcessError as error:
            print(f"peers could not be installed: {error.stderr.decode(errors='replace').strip()[-400:]}")
            return None
        done.touch()
    return venv / "bin"


def _sources() -> list[Path]:
    """What a wheel is built from: the package, its profiles, and the files at the top."""
    trees = (ROOT / "supervisor", ROOT / "launch_profiles")
    inside = [p for t in trees for p in t.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    return sorted([*inside, *(p for p in ROOT.iterdir() if p.is_file() and not p.name.startswith("."))])


def _digest() -> str:
    whole = hashlib.sha256(sys.version.encode())
    for path in _sources():
        whole.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return whole.hexdigest()[:12]


def _make_venv(venv: Path) -> None:
    RESULTS.mkdir(exist_ok=True)
    _run([sys.executable, "-m", "venv", str(venv)])


def _pip(venv: Path, *what: str) -> None:
    _run([str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", *what])


def _compile(venv: Path) -> None:
    """All of it: what is compiled at the first start on one machine would be measured on another."""
    _run([str(venv / "bin" / "python"), "-m", "compileall", "-q", str(venv / "lib")], check=False)
    for module in venv.glob("lib/*/site-packages/supervisor/**/*.py"):
        if not list(module.parent.glob(f"__pycache__/{module.stem}.*.pyc")):
            raise RuntimeError(f"{module} was not compiled")


def _run(argv: list[str], *, check: bool = True) -> None:
    subprocess.run(argv, env=clean_environment(), check=check, capture_output=True, cwd="/")
