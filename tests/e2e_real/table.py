"""The table at the end of a run: check × CLI, with versions and seconds. Owns nothing; reads test reports."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

FILES = (
    "test_real_agents.py",
    "test_driven.py",
    "test_one_agent.py",
    "test_pid_reuse.py",
    "test_many.py",
    "test_endurance.py",
)
"""The main job first."""

CLIS = ("claude", "pi", "codex", "gemini", "opencode")

ALONE = "no CLI"
"""The column of checks that need no agent CLI."""


class Report(Protocol):
    """What is read of a pytest report (under xdist it has crossed a process border)."""

    nodeid: str
    when: str
    outcome: str
    duration: float
    user_properties: Sequence[tuple[str, object]]


def columns(versions: Mapping[str, str]) -> dict[str, str]:
    """Column key → its head."""
    return {**{name: f"{name} {version}" for name, version in versions.items()}, ALONE: ALONE}


def check_of(nodeid: str) -> str:
    """`test_a_prompt_arrives_intact[words-claude]` → `a prompt arrives intact (words)`."""
    name, _, rest = nodeid.rpartition("::")[2].partition("[")
    about = [part for part in rest.rstrip("]").split("-") if part not in ("", *CLIS)]
    text = name.removeprefix("test_").replace("_", " ")
    return f"{text} ({'-'.join(about)})" if about else text


def lines(reports: Iterable[Report], heads: Mapping[str, str]) -> list[str]:
    """The table, in order of the checks' names within their files; empty when nothing ran."""
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for report in sorted(reports, key=_place):
        if report.when != "call" and report.outcome == "passed":
            continue
        column = str(dict(report.user_properties).get("cli", ALONE))
        file = report.nodeid.partition("::")[0].rpartition("/")[2]
        row = cells.setdefault((file, check_of(report.nodeid)), {})
        if report.when == "call":
            word = {"passed": "ok", "failed": "FAILED"}.get(report.outcome, report.outcome)
            row[column] = f"{word} {report.duration:.1f} s"
        elif row.get(column, "ok").startswith("ok"):
            row[column] = "skipped" if report.outcome == "skipped" else f"{report.when.upper()} FAILED"
    if not cells:
        return []
    return _aligned(
        [["check", *heads.values()], *([c, *(r.get(h, "-") for h in heads)] for (_, c), r in cells.items())]
    )


def _place(report: Report) -> tuple[int, str, bool]:
    file = report.nodeid.partition("::")[0].rpartition("/")[2]
    number = FILES.index(file) if file in FILES else len(FILES)
    return number, report.nodeid, report.when != "call"


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
