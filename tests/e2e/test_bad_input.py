"""Bad input and bad surroundings: the documented code, a clear line, nothing half started, nothing lost."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import pytest
import tomli_w

from tests.e2e.processes import alive, environment
from tests.e2e.rig import APP, Supervisor

REFUSED, USAGE, NOT_FOUND = 1, 2, 3
SLEEP = ("shell", "--", "sleep", "1000")


def launch(*options: str, of: Sequence[str] = SLEEP) -> tuple[str, ...]:
    return ("launch", "--detach", *options, *of)


LAUNCHES = {
    "unknown profile": (launch(of=("nope",)), NOT_FOUND, "there is no profile 'nope'. There are: .*claude.*shell"),
    "a path as a profile": (launch(of=("../shell",)), NOT_FOUND, "there is no profile"),
    "binary not on PATH": (
        launch("--name", "a1", of=("shell", "--", "no-such-binary")),
        REFUSED,
        "a1 cannot be launched: no-such-binary was not found on PATH. Install it or correct PATH",
    ),
    "binary that is no file": (launch(of=("shell", "--", "/no/such")), REFUSED, "/no/such was not found"),
    "binary that may not run": (launch(of=("shell", "--", "./plain")), REFUSED, "./plain was not found"),
    "no command": (launch(of=("shell",)), REFUSED, "profile shell needs a command. Give it after --"),
    "missing cwd": (launch("--cwd", "/no/such"), REFUSED, "the working directory /no/such does not exist"),
    "a file as cwd": (launch("--cwd", "plain"), REFUSED, "the working directory .*/plain does not exist"),
    "relative allowed path": (
        launch("--allow-path", "src"),
        REFUSED,
        "allowed path 'src' is not an absolute path without '..'",
    ),
    "allowed path with ..": (launch("--allow-path", "/a/../b"), REFUSED, "allowed path '/a/../b' is not"),
    "env without a name": (launch("--env", "=x"), REFUSED, "--env '' is no variable name"),
    "env with an odd name": (launch("--env", "1X=2"), REFUSED, "--env '1X' is no variable name"),
    "env of ours": (launch("--env", "SUPERVISOR_HOME=/x"), REFUSED, "SUPERVISOR_ variables are set by supervisor"),
    "env that is not set": (launch("--env", "NOT_SET_HERE"), REFUSED, "--env NOT_SET_HERE: it is not set here"),
    "empty name": (launch("--name="), REFUSED, "'' is no agent name"),
    "two prompts": (
        launch("--prompt", "a", "--prompt-file", "b", of=("demo",)),
        USAGE,
        "--prompt and --prompt-file exclude each other",
    ),
    "missing prompt file": (
        launch("--prompt-file", "no-such", of=("demo",)),
        REFUSED,
        "--prompt-file no-such: No such file or directory",
    ),
    "a folder as prompt file": (launch("--prompt-file", ".", of=("demo",)), REFUSED, "--prompt-file .: Is a dir"),
    "a prompt too long": (
        launch("--prompt-file", "/dev/zero", of=("demo",)),
        REFUSED,
        "--prompt-file /dev/zero: longer than 16777216 bytes",
    ),
    "a prompt for a program": (
        launch("--prompt", "hello"),
        REFUSED,
        "profile shell takes no prompt when it is headless",
    ),
    "a long prompt in the foreground": (
        ("launch", "--prompt-file", "long", "demo"),
        REFUSED,
        "the prompt is 200000 bytes, an interactive demo takes 98304. Use --detach",
    ),
    "a model for a program": (launch("--model", "m"), REFUSED, "profile shell has no option for a model"),
    "a task-ref too long": (launch("--task-ref", "x" * 513), REFUSED, "is no task reference. 1 to 512 printable"),
    "a task-ref of two lines": (launch("--task-ref", "G-7\nG-8"), REFUSED, "is no task reference. 1 to 512 printable"),
    "a task-ref of nothing": (launch("--task-ref", " "), REFUSED, "is no task reference. 1 to 512 printable"),
    "unknown option": (launch("--nonsense"), USAGE, "No such option.*--nonsense"),
    "an option with a bad choice": (launch("--restart", "always"), USAGE, "--restart"),
    "no profile": (("launch", "--detach"), USAGE, "Missing argument 'PROFILE'"),
    "unknown command": (("lunch",), USAGE, "there is no command 'lunch'"),
    "no id": (("stop",), USAGE, "Missing argument"),
    "negative grace": (("stop", "--grace", "-1", "a1"), USAGE, "--grace"),
    "unknown id": (("stop", "nobody"), NOT_FOUND, "there is no agent 'nobody'. See: supervisor ps --all"),
    "unknown id to show": (("show", "nobody"), NOT_FOUND, "there is no agent 'nobody'"),
    "empty id": (("show", ""), NOT_FOUND, "there is no agent ''"),
    "unknown id to wait for": (("wait", "nobody"), NOT_FOUND, "there is no agent 'nobody'"),
    "no tree to stop": (("down",), NOT_FOUND, "there is no file 'supervisor.toml' and no running tree of that name"),
}


@pytest.mark.parametrize("case", LAUNCHES)
def test_bad_input_is_refused_with_a_clear_line_and_nothing_is_started(sv: Supervisor, case: str) -> None:
    words, code, message = LAUNCHES[case]
    (sv.work / "plain").write_text("no program")
    (sv.work / "long").write_text("x" * 200_000)

    done = sv.run(*words, code=code)

    assert re.search(message, done.err), done.err
    assert done.err.startswith("supervisor: ")
    assert done.out == ""
    assert "Traceback" not in done.err
    assert sv.traces() == []


A = {"profile": "shell", "args": ["sleep", "1000"]}

TREES: dict[str, tuple[object, int, str]] = {
    "no TOML": ("[agents.a\n", REFUSED, r"team.toml.*line 1"),
    "a bad line": ('[agents.a]\nprofile = "shell"\nprompt = nothing\n', REFUSED, r"team.toml.*line 3"),
    "not UTF-8": (b"\xff\xfe", REFUSED, "team.toml.*is not UTF-8"),
    "empty": ("", REFUSED, "team.toml.*agents"),
    "no agents": ({"agents": {}}, REFUSED, "team.toml.*agents"),
    "unknown key": ({"agents": {"a": {**A, "promt": "x"}}}, REFUSED, "team.toml.*agents.*promt"),
    "unknown key at the top": ({"agents": {"a": A}, "colour": "red"}, REFUSED, "team.toml.*colour"),
    "a wrong type": ({"agents": {"a": {**A, "args": "sleep"}}}, REFUSED, r"team.toml.*agents.*args"),
    "no profile": ({"agents": {"a": {"args": ["x"]}}}, REFUSED, "team.toml.*agents.*profile"),
    "a bad policy": (
        {"agents": {"a": {**A, "restart": "always"}}},
        REFUSED,
        "team.toml: agents.a: .*'always' - at `restart`",
    ),
    "a bad name": ({"agents": {"a b": A}}, REFUSED, "team.toml.*agents.a b.*is no agent name"),
    "unknown parent": (
        {"agents": {"a": A, "b": {**A, "parent": "c"}}},
        REFUSED,
        r"team.toml: agents.b.parent: there is no agent 'c' in this file",
    ),
    "unknown predecessor": (
        {"agents": {"a": A, "b": {**A, "after": ["a", "c"]}}},
        REFUSED,
        "agents.b.after: there is no agent 'c'",
    ),
    "a cycle": (
        {"agents": {"a": {**A, "parent": "b"}, "b": {**A, "after": ["c"]}, "c": {**A, "parent": "a"}}},
        REFUSED,
        "team.toml: agents: cycle of parent and after: a → b → c → a",
    ),
    "its own parent": ({"agents": {"a": {**A, "parent": "a"}}}, REFUSED, "cycle of parent and after: a → a"),
    "two prompts": (
        {"agents": {"a": {"profile": "demo", "prompt": "x", "prompt_file": "y"}}},
        REFUSED,
        "agents.a: has both prompt and prompt_file",
    ),
    "a missing profile": (
        {"agents": {"a": A, "b": {"profile": "nope"}}},
        NOT_FOUND,
        "team.toml: agents.b: there is no profile 'nope'",
    ),
    "a missing binary": (
        {"agents": {"a": A, "b": {"profile": "shell", "args": ["no-such"]}}},
        REFUSED,
        "b cannot be launched: no-such was not found on PATH",
    ),
    "a missing cwd": (
        {"agents": {"a": A, "b": {**A, "cwd": "gone"}}},
        REFUSED,
        "team.toml: agents.b: cwd .*/gone does not exist",
    ),
    "a missing prompt file": (
        {"agents": {"a": A, "b": {"profile": "demo", "prompt_file": "gone"}}},
        NOT_FOUND,
        "agents.b: prompt_file .*/gone does not exist",
    ),
    "a relative allowed path": (
        {"agents": {"a": A, "b": {**A, "allow_paths": ["src"]}}},
        REFUSED,
        "agents.b: allowed path 'src' is not an absolute path",
    ),
    "a bad variable": (
        {"agents": {"a": A, "b": {**A, "env": {"SUPERVISOR_HOME": "/x"}}}},
        REFUSED,
        "agents.b: .*SUPERVISOR_HOME",
    ),
    "a prompt for a program": (
        {"agents": {"a": A, "b": {**A, "prompt": "x"}}},
        REFUSED,
        "profile shell takes no prompt when it is headless",
    ),
}


@pytest.mark.parametrize("case", TREES)
def test_a_bad_tree_file_is_refused_whole_before_the_first_start(sv: Supervisor, case: str) -> None:
    content, code, message = TREES[case]
    data = content if isinstance(content, bytes) else str(content).encode()
    (sv.work / "team.toml").write_bytes(tomli_w.dumps(content).encode() if isinstance(content, dict) else data)

    done = sv.run("up", "team.toml", code=code)

    assert re.search(message, done.err, re.DOTALL), done.err
    assert "team.toml" in done.err
    assert done.out == ""
    assert sv.traces() == []


def test_all_that_is_wrong_with_a_tree_file_is_said_at_once(sv: Supervisor) -> None:
    sv.tree_file({"a b": A, "c": {**A, "parent": "d"}, "e": {**A, "after": ["f"]}})

    err = sv.run("up", "team.toml", code=1).err

    assert "is no agent name" in err and "agents.c.parent" in err and "agents.e.after" in err


def test_a_missing_tree_file_is_not_found(sv: Supervisor) -> None:
    done = sv.run("up", "gone.toml", code=NOT_FOUND)

    assert "gone.toml: there is no such file" in done.err


PROFILES = {
    "no TOML": ("[argv\n", r"mine.toml.*line 4"),
    "unknown key": ('[argv]\nbsae = ["x"]\n', r"mine.toml.*`bsae` - at `argv`"),
    "a wrong type": ('[argv]\nbase = "x"\n', r"mine.toml.*argv\.base"),
    "a bad signal": ('[argv]\nbase = ["true"]\n[stop]\nsignal = "STOP"\n', r"mine.toml.*stop\.signal"),
    "out of bounds": ('[argv]\nbase = ["true"]\n[stop]\ngrace_seconds = 9999\n', r"mine.toml.*stop\.grace_seconds"),
    "an unknown field": ('[argv]\nbase = ["true", "{sesion_id}"]\n', "mine.toml.*sesion_id.*unknown field"),
    "a prompt like an option": (
        '[argv]\nbase = ["true"]\n[prompt]\nheadless = "argv"\nargs = ["{prompt}"]\n',
        r"mine.toml.*prompt\.args: \{prompt\} needs `--`",
    ),
    "nothing to extend": ("extends = 'nope'\n", "mine.toml.*extends: there is no profile 'nope' to extend"),
}


@pytest.mark.parametrize("case", PROFILES)
def test_a_bad_profile_is_refused_with_file_and_key(sv: Supervisor, case: str) -> None:
    text, message = PROFILES[case]
    sv.profile("mine", text)

    done = sv.run("launch", "--detach", "mine", code=REFUSED)

    assert re.search(message, done.err), done.err
    assert sv.traces() == []


def test_a_bad_profile_harms_no_other(sv: Supervisor) -> None:
    sv.profile("mine", "[argv\n")

    told = sv.launch("a1")

    assert alive(told["pid"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[transcripts]\nmax_kib = 1\n", r"settings.toml.*transcripts.max_kib = 1 is out of bounds. It goes from 64"),
        ('[transcripts]\nmax_kib = "big"\n', r"settings.toml.*transcripts.max_kib = 'big' is no whole number"),
        ("[transcripts]\nmaximum = 1\n", r"settings.toml.*there is no setting 'transcripts.maximum'"),
        ("[transcripts\n", r"settings.toml.*line 1"),
    ],
    ids=["bounds", "type", "unknown", "no TOML"],
)
def test_a_bad_setting_is_told_with_file_key_value_and_bounds_and_the_defaults_are_used(
    sv: Supervisor, text: str, message: str
) -> None:
    (sv.config / APP).mkdir()
    (sv.config / APP / "settings.toml").write_text(text)

    done = sv.run(*launch("--name", "a1"))

    assert re.search(message, done.err), done.err
    assert re.fullmatch(r"supervisor: .*the defaults are used\n", done.err), done.err
    assert sv.row("a1")["verdict"] == "alive"


def test_a_name_that_is_taken_is_refused_and_the_other_is_untouched(sv: Supervisor) -> None:
    told = sv.launch("a1")

    done = sv.run(*launch("--name", "a1"), code=REFUSED)

    assert "the name a1 is taken by a running agent. Choose another --name, or see: supervisor show a1" in done.err
    assert sv.pid("a1") == told["pid"]
    assert len(sv.records()) == 1


def test_a_name_of_another_tree_is_refused_before_the_first_start(sv: Supervisor) -> None:
    sv.launch("a2")
    sv.tree_file({"a1": A, "a2": A})

    done = sv.run("up", "team.toml", code=REFUSED)

    assert "the name a2 is taken" in done.err
    assert set(sv.ps()) == {"a2"}


def test_a_name_can_be_used_again_when_its_agent_has_ended(sv: Supervisor) -> None:
    sv.run("launch", "--name", "a1", "shell", "--", "true")

    told = sv.launch("a1")

    assert sv.run("show", "a1").out.count(told["sessionId"]) >= 1


def test_an_ambiguous_id_lists_the_candidates(sv: Supervisor) -> None:
    ids = [sv.launch(name)["entryId"] for name in ("worker-1", "worker-2")]

    done = sv.run("stop", "worker", code=NOT_FOUND)

    assert "'worker' is ambiguous: " in done.err
    for name, entry in zip(("worker-1", "worker-2"), ids, strict=True):
        assert f"{name} ({entry}, running)" in done.err
    assert {r["status"] for r in sv.ps().values()} == {"running"}


@pytest.mark.parametrize("key", ["name", "entryId", "sessionId"])
def test_an_agent_is_found_by_name_entry_or_session_and_by_a_prefix(sv: Supervisor, key: str) -> None:
    told = sv.launch("lonely")

    for wanted in (told[key], told[key][:5]):
        assert sv.json("show", wanted)["entry"]["entryId"] == told["entryId"]


def test_one_unknown_id_among_several_stops_none(sv: Supervisor) -> None:
    told = sv.launch("a1")

    sv.run("stop", "a1", "nobody", code=NOT_FOUND)

    assert alive(told["pid"])


NOT_UTF_8 = os.fsdecode(b"\xff\xfe name")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (launch(of=("shell", "--", "sleep", NOT_UTF_8)), "argument"),
        (launch("--cwd", NOT_UTF_8), "working directory"),
        (launch("--task-summary", NOT_UTF_8), "--task-summary"),
        (launch("--task-ref", NOT_UTF_8), "--task-ref"),
        (launch("--allow-path", f"/{NOT_UTF_8}"), "allowed path"),
        (launch("--agent-id", NOT_UTF_8), "--agent-id"),
        (launch("--model", NOT_UTF_8, of=("demo", "--", "SLEEP: 1000")), "--model"),
    ],
    ids=["argument", "cwd", "task-summary", "task-ref", "allow-path", "agent-id", "model"],
)
def test_text_that_no_record_can_hold_is_refused_by_name(sv: Supervisor, words: tuple[str, ...], what: str) -> None:
    """Records are UTF-8: a clear line says what is not."""
    (sv.work / NOT_UTF_8).mkdir()

    done = sv.run(*words, code=REFUSED)

    assert what in done.err
    assert "UTF-8" in done.err
    assert "codec" not in done.err
    assert sv.traces() == []


def test_a_variable_that_is_not_utf_8_is_passed_on(sv: Supervisor) -> None:
    """It is not stored."""
    told = sv.launch("a1", options=("--env", f"ODD={NOT_UTF_8}"), env={"INHERITED": NOT_UTF_8})

    seen = environment(told["pid"])
    assert (seen["ODD"], seen["INHERITED"]) == (NOT_UTF_8, NOT_UTF_8)
