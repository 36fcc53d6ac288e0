"""Fixtures of the real-CLI tests: a world per test, ended by pid; what a passed test leaves running fails it."""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from _pytest.terminal import TerminalReporter

from tests.e2e_real import table
from tests.e2e_real.clis import ROOT, WANTED, Clis, ClisUnavailable, ensure_installed, fake_model
from tests.e2e_real.rig import Rig

FAILED = pytest.StashKey[bool]()
PACKAGES = {
    "claude": "@anthropic-ai/claude-code",
    "pi": "@earendil-works/pi-coding-agent",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "opencode": "opencode-ai",
}
FIRST = (
    "test_nobody_is_declared_dead",
    "test_fifty_writers",
)  # the longest: started first, or one core idles at the end


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first."""
    items.sort(key=lambda item: not item.name.startswith(FIRST))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember a failure: then what is left running is no news."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture(scope="session")
def clis() -> Clis:
    """The installed agent CLIs. Not to have them is a failure here: this is what `make e2e` is for."""
    try:
        return ensure_installed()
    except ClisUnavailable as unavailable:
        pytest.fail(unavailable.why)


@pytest.fixture
def rig(clis: Clis, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Rig]:
    """A world with claude, pi and a fake model for them."""
    with fake_model(tmp_path / "model.jsonl") as model:
        yield from _ended(Rig(tmp_path, clis=clis, model=model), request)


@pytest.fixture
def bare(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Rig]:
    """A world without agent CLIs."""
    yield from _ended(Rig(tmp_path), request)


def _ended(rig: Rig, request: pytest.FixtureRequest) -> Iterator[Rig]:
    yield rig
    left = rig.end_all()
    if left and not request.node.stash.get(FAILED, False):
        pytest.fail("still running after the test:\n" + "\n".join(left))


@pytest.fixture(params=["claude", "pi"])
def cli(request: pytest.FixtureRequest, record_property: Any) -> str:
    """Each agent CLI in turn."""
    record_property("cli", request.param)
    return cast(str, request.param)


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """The tables."""
    reports = [r for kind in terminalreporter.stats.values() for r in kind if isinstance(r, pytest.TestReport)]
    ours = [cast(table.Report, r) for r in reports if "e2e_real" in r.nodeid]
    heads = table.columns(_versions())
    for title, lines in (
        ("real agents, test by test", table.lines(ours, heads)),
        ("real agents", table.promises(ours, heads)),
    ):
        if lines:
            terminalreporter.section(title)
            for line in lines:
                terminalreporter.write_line(line)


def _versions() -> dict[str, str]:
    try:
        installed = Clis(ROOT).versions()
    except OSError:
        installed = {name: f"{version} (not installed)" for name, version in WANTED.items()}
    return {cli: installed[package] for cli, package in PACKAGES.items()}
