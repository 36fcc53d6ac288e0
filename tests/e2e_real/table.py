"""The tables at the end of a run: promise × CLI and test × CLI, with versions and seconds. Reads reports."""

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

NOT_SHOWN = "-"


PROMISES: Mapping[str, tuple[str, ...]] = {
    "launch headless": (
        "test_a_detached_launch_returns_when_the_session_file_is_there",
        "test_a_turn_with_its_session_proven_and_its_prompt_intact",
    ),
    "session id and file right": (
        "test_an_agents_session_and_file_are_proven",
        "test_a_turn_with_its_session_proven_and_its_prompt_intact",
    ),
    "ask allowed: it runs": (
        "test_an_ask_is_allowed_by_answer",
        "test_a_pi_childs_ask_is_allowed",
        "test_an_allowed_ask_runs_and_a_denied_one_does_not",
    ),
    "ask denied: it does not, the model is told": (
        "test_an_ask_is_denied_with_a_reason_that_the_model_gets",
        "test_a_pi_child_is_denied_with_a_reason_that_the_model_gets",
        "test_an_allowed_ask_runs_and_a_denied_one_does_not",
    ),
    "nobody to decide: refused": (
        "test_an_ask_that_nobody_serves_is_no_refusal_by_the_user",
        "test_a_pi_child_that_nobody_serves_is_told_the_truth",
        "test_with_nobody_to_decide_it_is_refused_and_that_is_no_users_will",
    ),
    "parent killed while it waits: refused": (
        "test_an_ask_ends_when_the_parent_and_its_keeper_are_killed",
        "test_a_pi_childs_ask_ends_when_the_parent_and_its_keeper_are_killed",
        "test_an_ask_ends_when_the_driven_childs_parent_and_its_keeper_are_killed",
    ),
    "adapter killed or hung: it does not run": (
        "test_nothing_runs_when_the_hook_is_killed",
        "test_nothing_runs_when_the_hook_hangs",
        "test_nothing_runs_when_an_answer_is_garbled_or_who_relays_it_hangs",
        "test_a_hung_and_then_killed_driver_runs_nothing_and_leaves_nothing",
    ),
    "adapter garbled: it does not run": (
        "test_nothing_runs_when_the_hook_prints_garbage",
        "test_nothing_runs_when_an_answer_is_garbled_or_who_relays_it_hangs",
        "test_a_garbled_answer_of_a_driver_runs_nothing",
        "test_an_ask_that_reaches_the_driver_garbled_runs_nothing_and_ends_it",
    ),
    "its own sub-session asks": (
        "test_an_ask_of_a_sub_agent_passes_a_headless_parent_on_its_way_to_the_root",
        "test_a_pi_that_a_pi_starts_by_itself_is_served_too",
        "test_a_sub_session_asks_too",
    ),
    "resume: same session, its history": (
        "test_a_child_whose_parent_is_killed_in_mid_turn_is_resumed_with_its_history",
        "test_a_resume_is_the_same_session_or_nothing",
    ),
    "resume of an unknown session: none made": (
        "test_a_session_is_resumed_once_and_only_where_its_folder_and_file_are",
        "test_a_resume_is_the_same_session_or_nothing",
    ),
    "second writer refused": (
        "test_a_session_is_resumed_once_and_only_where_its_folder_and_file_are",
        "test_a_second_writer_is_refused",
    ),
    "stop amid a tool leaves nothing": ("test_stop_amid_a_tool_leaves_nothing",),
    "agent and keeper killed: all accounted for": (
        "test_a_killed_parents_child_lives_on_below_its_tombstone",
        "test_a_child_whose_parent_is_killed_in_mid_turn_is_resumed_with_its_history",
        "test_what_a_killed_driver_and_keeper_leave_is_found_and_ended",
    ),
    "launched by its tool: child and transcript": (
        "test_the_childs_own_session_file_holds_its_prompt",
        "test_an_agent_that_its_tool_launches_is_its_child_and_saves_its_session",
    ),
    "dash, quotes, newline, 1 MiB arrive intact": (
        "test_a_prompt_arrives_intact_from_the_command_line",
        "test_a_turn_with_its_session_proven_and_its_prompt_intact",
        "test_a_prompt_of_a_mebibyte_arrives_intact",
    ),
    "no secret in a command line": (
        "test_neither_prompt_nor_key_is_in_a_command_line",
        "test_a_turn_with_its_session_proven_and_its_prompt_intact",
    ),
}
"""What holds for every CLI → the tests that show it, each for the CLIs that it runs with."""


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


def promises(reports: Iterable[Report], heads: Mapping[str, str]) -> list[str]:
    """What was shown for each CLI: the sum of its tests' seconds; empty when none of them ran."""
    seen = [(_function(r.nodeid), str(dict(r.user_properties).get("cli", ALONE)), r) for r in reports]
    rows = [
        [promise, *(_shown([r for test, of, r in seen if of == cli and test in tests]) for cli in CLIS)]
        for promise, tests in PROMISES.items()
    ]
    if all(cell == NOT_SHOWN for row in rows for cell in row[1:]):
        return []
    return _aligned([["promise", *(heads[cli] for cli in CLIS)], *rows])


def _function(nodeid: str) -> str:
    return nodeid.rpartition("::")[2].partition("[")[0]


def _shown(reports: Sequence[Report]) -> str:
    if any(r.outcome == "failed" for r in reports):
        return "FAILED"
    seconds = [r.duration for r in reports if r.when == "call" and r.outcome == "passed"]
    return f"ok {sum(seconds):.1f} s" if seconds else NOT_SHOWN


def _place(report: Report) -> tuple[int, str, bool]:
    file = report.nodeid.partition("::")[0].rpartition("/")[2]
    number = FILES.index(file) if file in FILES else len(FILES)
    return number, report.nodeid, report.when != "call"


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
