"""Whose child a launched agent is: what the environment says is checked, what the caller says counts."""

from __future__ import annotations

import subprocess

import pytest

from tests.e2e.processes import alive, environment, wait_for
from tests.e2e.rig import Supervisor


def test_a_launch_from_inside_an_agent_makes_a_child_of_it(sv: Supervisor) -> None:
    """And it is detached by default: the agent's shell tool returns."""
    lead = sv.sh("lead", f"{sv.command} launch --name kid shell -- sleep 1000 > told 2>&1; echo $? > code; sleep 1000")
    wait_for(lambda: (sv.work / "code").exists() and (sv.work / "code").read_text(), "the launch from inside")

    assert (sv.work / "code").read_text() == "0\n"
    assert "name       kid\n" in (sv.work / "told").read_text()
    (node,) = sv.json("tree")
    assert node["name"] == "lead"
    (kid,) = node["children"]
    assert (kid["name"], kid["role"], kid["parent"], kid["parentSessionId"]) == (
        "kid",
        "worker",
        "lead",
        lead["sessionId"],
    )
    seen = environment(kid["pid"])
    assert seen["SUPERVISOR_PARENT_PID"] == str(lead["pid"])
    assert seen["SUPERVISOR_PARENT_SESSION"] == lead["sessionId"]


def test_a_launch_from_a_subshell_session_inside_an_agent_makes_a_child_of_it_too(sv: Supervisor) -> None:
    """Ancestry is what counts, not the session or group."""
    sv.sh("lead", f"setsid sh -c '{sv.command} launch --name kid shell -- sleep 1000; sleep 1000'; sleep 1000")

    assert sv.wait_ready("kid")["kid"]["parent"] == "lead"


def test_variables_that_a_shell_merely_inherited_make_a_master_with_one_warning(sv: Supervisor) -> None:
    """As a tmux server does that an agent once started."""
    lead = sv.launch("lead")

    words = ("launch", "--detach", "--name", "other", "shell", "--", "sleep", "1000")
    done = sv.run(*words, env={"SUPERVISOR_SESSION_ID": lead["sessionId"]})

    (line,) = done.err.splitlines()
    assert "SUPERVISOR_SESSION_ID names lead, but this command does not run inside it: ignored" in line
    assert "launched as a master (--parent names one)" in line
    assert (sv.row("other")["role"], sv.row("other")["parent"]) == ("master", None)
    assert "SUPERVISOR_PARENT_SESSION" not in environment(sv.pid("other"))


def test_an_inherited_session_that_is_not_on_record_makes_a_master_with_one_warning(sv: Supervisor) -> None:
    words = ("launch", "--detach", "--name", "other", "shell", "--", "sleep", "1000")

    done = sv.run(*words, env={"SUPERVISOR_SESSION_ID": "long-gone"})

    (line,) = done.err.splitlines()
    assert "names long-gone, which is no running agent on record: ignored" in line
    assert sv.row("other")["role"] == "master"


@pytest.mark.parametrize(
    "given",
    [
        {"SUPERVISOR_SESSION_ID": "unknown"},
        {"SUPERVISOR_SESSION_ID": "a\x1b[2Jb"},
        {"SUPERVISOR_SESSION_ID": "x" * 500},
        {"SUPERVISOR_SESSION_ID": ".."},
        {"SUPERVISOR_PARENT_SESSION": "s1", "SUPERVISOR_PARENT_PID": "-5"},
        {"SUPERVISOR_PARENT_SESSION": "s1", "SUPERVISOR_PARENT_PID": "0"},
        {"SUPERVISOR_PARENT_SESSION": "s1", "SUPERVISOR_PARENT_PID": "12x"},
        {"SUPERVISOR_PARENT_SESSION": "s1", "SUPERVISOR_PARENT_PID": "99999999999"},
    ],
    ids=str,
)
def test_malformed_parent_variables_are_ignored_with_one_warning(sv: Supervisor, given: dict[str, str]) -> None:
    words = ("launch", "--detach", "--name", "other", "shell", "--", "sleep", "1000")

    done = sv.run(*words, env=given)

    (line,) = done.err.splitlines()
    assert "ignored; launched as a master" in line
    assert "\x1b" not in line
    assert (sv.row("other")["role"], sv.row("other")["parent"]) == ("master", None)


def test_a_parent_is_named_by_the_caller(sv: Supervisor) -> None:
    lead = sv.launch("lead")

    sv.launch("kid", options=("--parent", "lead"))

    kid = sv.row("kid")
    assert (kid["role"], kid["parent"], kid["parentSessionId"]) == ("worker", "lead", lead["sessionId"])
    assert sv.record("kid")["parent"]["process"]["key"]["pid"] == lead["pid"]
    assert environment(kid["pid"])["SUPERVISOR_PARENT_PID"] == str(lead["pid"])


def test_a_named_parent_beats_the_one_that_we_run_inside_of(sv: Supervisor) -> None:
    sv.launch("other")
    sv.sh("lead", f"{sv.command} launch --name kid --parent other shell -- sleep 1000; sleep 1000")

    assert sv.wait_ready("kid")["kid"]["parent"] == "other"


def test_a_parent_that_is_not_on_record_can_be_given_by_session_and_pid(sv: Supervisor) -> None:
    stranger = sv.canary()

    told = sv.launch("kid", options=("--parent-session", "elsewhere-1", "--parent-pid", str(stranger.pid)))

    assert (told["role"], told["parentSessionId"]) == ("worker", "elsewhere-1")
    seen = environment(told["pid"])
    assert (seen["SUPERVISOR_PARENT_SESSION"], seen["SUPERVISOR_PARENT_PID"]) == ("elsewhere-1", str(stranger.pid))
    key = sv.record("kid")["parent"]["process"]["key"]
    assert (key["pid"], key["startTicks"]) == (stranger.pid, stranger.start_ticks), "a pid alone would prove nothing"


def test_a_parent_pid_that_is_no_process_is_refused_with_the_way_out(sv: Supervisor) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    named = ("--parent-session", "elsewhere-1", "--parent-pid", str(ended.pid))

    done = sv.run("launch", "--detach", *named, "shell", "--", "sleep", "1000", code=1)

    assert f"--parent-pid {ended.pid}: there is no such process" in done.err
    assert "--parent-session alone" in done.err
    assert sv.traces() == []


def test_an_unknown_parent_is_not_found_and_nothing_is_started(sv: Supervisor) -> None:
    done = sv.run("launch", "--detach", "--parent", "nobody", "shell", "--", "sleep", "1000", code=3)

    assert "there is no agent 'nobody'" in done.err
    assert sv.traces() == []


def test_a_grandchild_hangs_below_its_parent(sv: Supervisor) -> None:
    inner = f"{sv.command} launch --name g shell -- sleep 1000; sleep 1000"
    sv.sh("p", f"{sv.command} launch --name c shell -- /bin/sh -c '{inner}'; sleep 1000")
    sv.wait_ready("p", "c", "g")

    (p,) = sv.json("tree")
    assert [(n["name"], [g["name"] for g in n["children"]]) for n in p["children"]] == [("c", ["g"])]
    (c,) = sv.json("tree", "c")
    assert [n["name"] for n in c["children"]] == ["g"]


def unshare_works() -> bool:
    return subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True).returncode == 0


def inside_lead(sv: Supervisor, command: str) -> tuple[int, str]:
    """Have the agent `lead` run a command as its tool: code and output."""
    sv.sh("lead", f"( {command} ) > told 2>&1; echo $? > code; exec sleep 1000")
    wait_for(lambda: (sv.work / "code").exists() and (sv.work / "code").read_text(), "the tool's end")
    return int((sv.work / "code").read_text()), (sv.work / "told").read_text()


SANDBOXES = [
    pytest.param("unshare --pid --fork --mount-proc", id="own /proc"),
    pytest.param("unshare --pid --fork", id="the host's /proc"),
]


@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize(
    "options", ["", "--parent lead ", "--parent-session s1 "], ids=["", "--parent", "--parent-session"]
)
def test_a_launch_from_inside_a_tool_sandbox_is_refused_with_the_way_out(
    sv: Supervisor, sandbox: str, options: str
) -> None:
    """It would die with the tool call, whoever is named as its parent."""
    if not unshare_works():
        pytest.skip("no pid namespace can be made here")

    code, told = inside_lead(sv, f"{sandbox} {sv.command} launch --name kid {options}shell -- sleep 1000")

    assert code == 1, told
    assert "tool sandbox (its own pid namespace)" in told
    assert "Launch it outside the sandbox: from a terminal with --parent lead" in told
    assert "kid" not in sv.ps()


def test_up_from_inside_a_tool_sandbox_is_refused_too(sv: Supervisor) -> None:
    if not unshare_works():
        pytest.skip("no pid namespace can be made here")
    sv.tree_file({"kid": {"profile": "shell", "args": ["sleep", "1000"]}})

    code, told = inside_lead(sv, f"unshare --pid --fork --mount-proc {sv.command} up team.toml")

    assert code == 1, told
    assert "tool sandbox" in told
    assert "kid" not in sv.ps()


def test_a_launch_from_inside_an_agent_whose_state_root_is_read_only_is_refused_with_the_way_out(
    sv: Supervisor,
) -> None:
    if not unshare_works():
        pytest.skip("no mount namespace can be made here")
    read_only = f"mount --bind {sv.home} {sv.home} && mount -o remount,ro,bind {sv.home}"

    code, told = inside_lead(
        sv, f"unshare --mount sh -c '{read_only} && {sv.command} launch --name kid shell -- sleep 1000'"
    )

    assert code == 1, told
    assert f"the state root {sv.home} cannot be written" in told
    assert "tool sandbox" in told
    assert "from a terminal, with --parent" in told
    assert "kid" not in sv.ps()
    assert alive(sv.pid("lead"))


def test_ps_works_where_the_state_root_is_read_only(sv: Supervisor) -> None:
    """Looking needs no writing."""
    if not unshare_works():
        pytest.skip("no mount namespace can be made here")
    read_only = f"mount --bind {sv.home} {sv.home} && mount -o remount,ro,bind {sv.home}"

    code, told = inside_lead(sv, f"unshare --mount sh -c '{read_only} && {sv.command} ps && {sv.command} tree'")

    assert code == 0, told
    assert told.count("lead") == 2
