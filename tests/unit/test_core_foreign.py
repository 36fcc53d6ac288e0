"""Which command lines are agents', and which of their processes are named."""

from __future__ import annotations

import pytest

from supervisor.core.foreign import profile_of, programs, topmost
from supervisor.core.ports import Process
from supervisor.core.profile import Argv, LaunchProfile

KNOWN = {"claude": "claude", "codex": "codex", "gemini": "gemini", "opencode": "opencode", "pi": "pi"}


def profile(name: str, *probe: str) -> LaunchProfile:
    return LaunchProfile(schema=1, name=name, summary="", probe=probe, argv=Argv(base=("{python}", "-m", "driver")))


def test_a_profile_stands_for_the_program_that_it_probes() -> None:
    found = programs([profile("codex-exec", "codex", "--version"), profile("codex", "codex", "-V"), profile("shell")])
    assert found == {"codex": "codex"}


def test_an_interpreter_is_nobodys_program() -> None:
    assert programs([profile("mine", "python3", "-V")]) == {}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("claude",), "claude"),
        (("/opt/bin/claude", "-p"), "claude"),
        (("claude --resume",), "claude"),
        (("node", "/usr/lib/node_modules/@openai/codex/bin/codex.js", "exec"), "codex"),
        (("node", "--no-warnings=DEP0040", "/usr/bin/gemini"), "gemini"),
        (("/usr/bin/node22", "/x/node_modules/@google/gemini-cli/dist/index.js"), "gemini"),
        (("node", "/x/node_modules/@anthropic-ai/claude-code/cli.js"), "claude"),
        (("python3.11", "/work/claude"), "claude"),
        (("bun", "/x/node_modules/opencode-ai/bin/run.js"), "opencode"),
        (("vim", "claude"), None),
        (("grep", "-r", "codex"), None),
        (("node", "server.js"), None),
        (("node",), None),
        (("claudette",), None),
        ((), None),
    ],
)
def test_an_agent_is_known_by_the_program_that_it_runs(command: tuple[str, ...], expected: str | None) -> None:
    assert profile_of(command, KNOWN) == expected


def row(pid: int, parent: int) -> Process:
    return Process(pid, parent, pid, 1, "S")


def test_a_wrapper_is_named_and_what_it_started_is_not() -> None:
    rows = {p.pid: p for p in (row(10, 1), row(11, 10), row(12, 11), row(20, 1))}
    assert topmost([12, 10, 20], rows, recorded=set()) == [10, 20]


def test_what_runs_inside_a_recorded_agent_is_not_foreign() -> None:
    rows = {p.pid: p for p in (row(10, 1), row(11, 10), row(12, 11))}
    assert topmost([10, 12], rows, recorded={10}) == []


def test_a_circle_of_parents_does_not_hang() -> None:
    rows = {p.pid: p for p in (row(10, 11), row(11, 10))}
    assert topmost([10], rows, recorded=set()) == [10]
