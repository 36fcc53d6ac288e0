"""What an agent gets and what it must not: identities, prompts, control bytes, a safe state root, trusted profiles."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import alive, cmdline, environment, kill, wait_for
from tests.e2e.rig import Supervisor

IDENTITIES = {
    "CLAUDECODE": "1",
    "CLAUDE_CODE_CHILD_SESSION": "1",
    "CLAUDE_CODE_SESSION_ID": "s1",
    "CODEX_THREAD_ID": "t1",
    "GEMINI_CLI": "1",
    "OPENCODE": "1",
    "PI_CODING_AGENT": "true",
    "PI_SESSION_ID": "s2",
    "PI_PARENT_PID": "123",
    "DEMO_SESSION_ID": "s3",
    "AI_AGENT": "claude",
}
LEFT_BY_A_TOOL_SHELL = {"GIT_EDITOR": "true", "PAGER": "cat"}


def test_no_agent_inherits_the_identity_of_another(sv: Supervisor) -> None:
    """L1: nor what that one's tool shell had set."""
    told = sv.launch("a1", env={**IDENTITIES, **LEFT_BY_A_TOOL_SHELL, "EDITOR": "vi"})

    seen = environment(told["pid"])
    assert {n for n in seen if n in IDENTITIES or n in LEFT_BY_A_TOOL_SHELL} == set()
    assert seen["EDITOR"] == "vi"


def test_a_users_own_settings_stay_where_no_agent_has_set_them(sv: Supervisor) -> None:
    told = sv.launch("a1", env=LEFT_BY_A_TOOL_SHELL)

    seen = environment(told["pid"])
    assert {n: seen.get(n) for n in LEFT_BY_A_TOOL_SHELL} == LEFT_BY_A_TOOL_SHELL


def test_a_child_of_an_agent_gets_its_own_identity_only(sv: Supervisor) -> None:
    """L1: and its session is really saved."""
    sv.demo("lead", 'SPAWN: kid demo "SLEEP: 1000"\nSLEEP: 1000', "--task-ref", "T-1")
    rows = sv.wait_ready("lead", "kid")

    lead, kid = rows["lead"], rows["kid"]
    seen = environment(kid["pid"])
    assert "DEMO_AGENT" not in seen and "DEMO_SESSION_ID" not in seen
    ours = {n: v for n, v in seen.items() if n.startswith("SUPERVISOR_") and n != "SUPERVISOR_GENERATION"}
    assert ours == {
        "SUPERVISOR_SESSION_ID": kid["sessionId"],
        "SUPERVISOR_ENTRY_ID": kid["entryId"],
        "SUPERVISOR_AGENT_ID": sv.record("kid")["agent"]["agentId"],
        "SUPERVISOR_PARENT_SESSION": lead["sessionId"],
        "SUPERVISOR_PARENT_PID": str(lead["pid"]),
        "SUPERVISOR_ALLOWED_PATHS": "[]",
        "SUPERVISOR_HOME": str(sv.home),
        "SUPERVISOR_TASK_REF": "T-1",  # it works on its parent's task, unless another is named
    }
    assert sv.prompts("kid") == ["SLEEP: 1000"]


SECRET = "Xyzzy-4711"
NASTY = f"-rf --help\n'single' \"double\" $(touch pwned) `touch pwned` {SECRET} \\ %s {{prompt}} ünïcödé\n"


def assert_told(sv: Supervisor, name: str, prompt: str) -> None:
    """It got exactly that; nobody's command line, environment or record holds it; the shell saw nothing of it."""
    assert sv.prompts(name) == [prompt]
    row = sv.row(name)
    for pid in (row["pid"], row["keeperPid"]):
        assert alive(pid)
        assert SECRET not in " ".join(cmdline(pid)), f"{SECRET} on the command line of pid {pid}"
        assert SECRET not in str(environment(pid))
    assert SECRET not in sv.record_path(name).read_text()
    assert not (sv.work / "pwned").exists()


@pytest.mark.parametrize("by", ["--prompt", "words", "--prompt-file", "stdin"])
def test_a_nasty_prompt_arrives_exactly_and_stands_on_no_command_line(sv: Supervisor, by: str) -> None:
    """L2."""
    prompt = f"{NASTY}SLEEP: 1000"
    (sv.work / "prompt").write_text(prompt)
    words: dict[str, tuple[str, ...]] = {
        "--prompt": ("demo", f"--prompt={prompt}"),
        "words": ("demo", "--", prompt),
        "--prompt-file": ("demo", "--prompt-file", "prompt"),
        "stdin": ("demo", "--prompt-file", "-"),
    }

    sv.run("launch", "--detach", "--name", "a1", *words[by], input=prompt.encode() if by == "stdin" else b"")

    assert_told(sv, "a1", prompt)


@pytest.mark.parametrize("by", ["prompt", "prompt_file"])
def test_a_nasty_prompt_in_a_tree_file_arrives_exactly(sv: Supervisor, by: str) -> None:
    prompt = f"{NASTY}SLEEP: 1000"
    (sv.work / "p.txt").write_text(prompt)
    sv.tree_file({"a1": {"profile": "demo", by: prompt if by == "prompt" else "p.txt"}})

    sv.run("up", "team.toml")

    assert_told(sv, "a1", prompt)


@pytest.mark.parametrize("by", ["--prompt-file", "tree"])
def test_a_prompt_of_1_mib_arrives_exactly(sv: Supervisor, by: str) -> None:
    line = f"- {SECRET} $(touch pwned) 'quoted' "
    prompt = f"{(line * 40000)[: 1024 * 1024]}\nSLEEP: 1000"
    (sv.work / "p.txt").write_text(prompt)
    if by == "tree":
        sv.tree_file({"a1": {"profile": "demo", "prompt_file": "p.txt"}})
        sv.run("up", "team.toml")
    else:
        sv.run("launch", "--detach", "--name", "a1", "--prompt-file", "p.txt", "demo")

    assert_told(sv, "a1", prompt)


def test_a_prompt_that_is_not_utf_8_arrives_byte_for_byte(sv: Supervisor) -> None:
    prompt = b"\xff\xfe odd \x80\nSLEEP: 1000"

    sv.run("launch", "--detach", "--name", "a1", "--prompt-file", "-", "demo", input=prompt)

    assert [p.encode("utf-8", "surrogateescape") for p in sv.prompts("a1")] == [prompt]


def test_a_foreground_prompt_of_the_demo_agent_arrives_exactly(sv: Supervisor) -> None:
    """By its command line there, after `--`."""
    prompt = f"{NASTY}EXIT: 3"

    sv.run("launch", "--name", "a1", "demo", "--", prompt, code=3)

    assert sv.prompts("a1") == [prompt]
    assert not (sv.work / "pwned").exists()


def test_the_value_of_a_variable_given_with_env_stands_on_no_command_line_of_ours(sv: Supervisor) -> None:
    told = sv.launch("a1", options=("--env", f"TOKEN={SECRET}"))

    assert environment(told["pid"])["TOKEN"] == SECRET
    assert SECRET not in " ".join(cmdline(sv.keeper("a1")))
    assert SECRET not in sv.record_path("a1").read_text()


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202evil\x00\x7f"
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printed(done: Any) -> str:
    return str(done.out + done.err)


@pytest.mark.parametrize("name", ["a\x1b[2J", "a\nb", "-x", "a b", "ä", "../a", "a/b", "a" * 65])
def test_a_name_that_could_do_harm_is_refused_and_said_harmlessly(sv: Supervisor, name: str) -> None:
    """L3."""
    done = sv.run("launch", "--detach", f"--name={name}", "shell", "--", "sleep", "1000", code=1)

    assert "is no agent name" in done.err
    assert not HARMFUL.search(printed(done))
    assert sv.traces() == []


def test_the_last_lines_of_a_failed_agent_are_printed_harmlessly(sv: Supervisor) -> None:
    """L3."""
    (sv.work / "hostile").write_bytes(HOSTILE.encode(errors="surrogateescape") + b"\xff\x80 end\n")
    script = sv.script("young", "cat hostile; exit 7")
    sv.profile(
        "young",
        f'[argv]\nbase = ["{script}"]\nstart = [["{{session_id}}"]]\n'
        '[session]\nid = "preset"\nfiles = ["$HOME/{session_id}"]\n[ready]\nwhen = "session_file"\n',
    )

    done = sv.run("launch", "--detach", "young", code=1)

    assert "\\x1b]0;owned" in done.err
    assert "end" in done.err
    assert not HARMFUL.search(printed(done))


def test_texts_with_control_bytes_are_printed_harmlessly_by_every_view(sv: Supervisor) -> None:
    """L3."""
    hostile = HOSTILE.replace("\x00", "")
    folder = sv.work / hostile.replace("/", "")
    folder.mkdir()
    options = ("--task-summary", hostile, "--cwd", str(folder))
    sv.sh("a1", f"printf '%s\\n' '{hostile}'; exec sleep 1000", *options)
    wait_for(lambda: "owned" in sv.transcript("a1"), "its output")

    for words in (("ps",), ("tree",), ("show", "a1"), ("why", "a1"), ("ps", "--json")):
        done = sv.run(*words)
        assert done.out
        assert not HARMFUL.search(printed(done)), words


def test_an_id_with_control_bytes_is_not_found_harmlessly(sv: Supervisor) -> None:
    done = sv.run("show", HOSTILE.replace("\x00", ""), code=3)

    assert not HARMFUL.search(printed(done))


def test_a_transcript_stays_within_its_cap_and_its_agent_goes_on(sv: Supervisor) -> None:
    """L4."""
    sv.setting("transcripts.max_kib", 64)
    told = sv.sh("a1", "yes 0123456789 | head -c 200000000; echo the last line; while :; do sleep 0.05; echo on; done")
    transcript = Path(told["transcript"])
    wait_for(lambda: "the last line" in sv.transcript("a1"), "200 MB written")

    wait_for(lambda: "dropped at its cap" in transcript.read_text(), "the cap")

    assert transcript.stat().st_size <= 64 * 1024
    assert "the last line" in transcript.read_text()
    wait_for(lambda: transcript.read_text().count("on\n") > 3, "more output")
    assert alive(told["pid"])
    assert sv.row("a1")["outputDegraded"] is None


def test_a_transcript_that_is_written_without_end_is_capped_again_and_again(sv: Supervisor) -> None:
    sv.setting("transcripts.max_kib", 64)
    told = sv.sh("a1", "while :; do yes 0123456789 | head -c 50000; sleep 0.01; done")
    transcript = Path(told["transcript"])

    def shrunk(size: list[int]) -> bool:
        size.append(transcript.stat().st_size)
        return size[-1] < size[-2]

    for _ in range(3):
        sizes = [0]
        wait_for(lambda s=sizes: shrunk(s), "the cap")  # type: ignore[misc]
    assert alive(told["pid"])
    assert alive(sv.keeper("a1"))


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("symlink", "is a symlink. Set SUPERVISOR_HOME to the real folder"),
        ("group-writable", "can be written by others. Run: chmod 700"),
        ("world-writable", "can be written by others. Run: chmod 700"),
        ("a file", "is no folder"),
        ("another user's", "belongs to user 65534, you are 0"),
    ],
)
def test_an_unsafe_state_root_is_refused_with_the_way_out(sv: Supervisor, what: str, message: str) -> None:
    """L5."""
    real = sv.root / "real"
    real.mkdir(mode=0o700)
    match what:
        case "symlink":
            sv.home.symlink_to(real)
        case "a file":
            sv.home.touch()
        case "another user's":
            if os.geteuid() != 0:
                pytest.skip("only root can give a folder away")
            sv.home.mkdir(mode=0o700)
            os.chown(sv.home, 65534, 65534)
        case _:
            sv.home.mkdir()
            sv.home.chmod(0o770 if what == "group-writable" else 0o707)

    for words in (("launch", "--detach", "shell", "--", "sleep", "1000"), ("ps",), ("stop", "a1"), ("reconcile",)):
        done = sv.run(*words, code=1)
        assert str(sv.home) in done.err
        assert message in done.err

    assert not sv.alive()
    assert list(real.iterdir()) == []
    if sv.home.is_dir():
        assert list(sv.home.iterdir()) == []


def test_a_relative_state_root_is_refused(sv: Supervisor) -> None:
    done = sv.run("launch", "--detach", "shell", "--", "sleep", "1000", env={"SUPERVISOR_HOME": "state"}, code=1)

    assert "SUPERVISOR_HOME='state' is not an absolute path" in done.err
    assert not sv.alive()


PROJECT_PROFILE = """
schema = 1
name = "{name}"
summary = "of the project"
[argv]
base = ["/bin/sh", "-c", "touch ran"]
"""


@pytest.mark.parametrize("name", ["claude", "shell", "helper"])
def test_a_profile_of_a_cloned_repository_is_not_used_until_it_is_trusted(sv: Supervisor, name: str) -> None:
    """L6: nor is the shipped one of that name taken in its place."""
    folder = sv.work / ".supervisor" / "launch_profiles"
    folder.mkdir(parents=True)
    (folder / f"{name}.toml").write_text(PROJECT_PROFILE.format(name=name))

    done = sv.run("launch", "--detach", name, code=1)

    assert f"profile {name} comes from the project ({folder}/{name}.toml) and is not trusted" in done.err
    assert f"supervisor profiles trust {name}" in done.err
    assert not (sv.work / "ran").exists()
    assert sv.traces() == []


def test_a_trusted_project_profile_is_used_until_it_is_changed(sv: Supervisor) -> None:
    folder = sv.work / ".supervisor" / "launch_profiles"
    folder.mkdir(parents=True)
    file = folder / "helper.toml"
    file.write_text(PROJECT_PROFILE.format(name="helper"))

    sv.run("profiles", "trust", "helper")
    sv.run("launch", "helper")
    assert (sv.work / "ran").exists()

    file.write_text(file.read_text() + "# changed\n")
    assert "is not trusted" in sv.run("launch", "helper", code=1).err


def modes(root: Path) -> dict[str, str]:
    """What of the tree is not 0700 (folders) or 0600 (files and bells)."""
    odd = {}
    for path in (root, *root.rglob("*")):
        seen = path.lstat()
        if stat.S_ISLNK(seen.st_mode):
            continue
        want = 0o700 if stat.S_ISDIR(seen.st_mode) else 0o600
        if stat.S_IMODE(seen.st_mode) != want:
            odd[str(path)] = oct(seen.st_mode)
    return odd


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o022])
def test_files_are_0600_in_0700_folders_under_any_umask(sv: Supervisor, umask: int) -> None:
    """P24."""
    sv.demo("a1", "SLEEP: 1000", umask=umask)
    sv.tree_file({"b1": {"profile": "demo", "prompt": "SLEEP: 1000", "restart": "permanent"}})
    sv.run("up", "team.toml", umask=umask)
    assert modes(sv.home) == {}

    kill(sv.keeper("a1"))
    sv.run("reconcile", umask=umask)
    kill(before := sv.pid("b1"))
    wait_for(lambda: sv.pid("b1") != before and sv.row("b1")["ready"], "the next generation of b1")
    assert modes(sv.home) == {}

    sv.run("stop", "a1", "b1", umask=umask)
    assert modes(sv.home) == {}
