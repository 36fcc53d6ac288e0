"""An agent's environment: nobody's identity but its own, and what it is told about itself."""

import json

import pytest
from msgspec.structs import replace

from supervisor.core.agent_env import base_environment, identity_rules, own_environment, whole_environment
from supervisor.core.entry import Entry, ParentRef
from supervisor.core.profile import Env, LaunchProfile
from supervisor.testing import make_entry, make_plan

CLAUDE = LaunchProfile(
    schema=1,
    name="claude",
    summary="",
    env=Env(identity=("CLAUDECODE", "CLAUDE_PID"), tool_shell=("GIT_EDITOR", "PAGER")),
)
CODEX = LaunchProfile(
    schema=1, name="codex", summary="", env=Env(identity=("CODEX_CI",), tool_shell=("PAGER", "NO_COLOR"))
)
RULES = identity_rules([CLAUDE, CODEX])
USER = {"PATH": "/bin", "PAGER": "less", "NO_COLOR": "1", "GIT_EDITOR": "vi", "KEY": "secret"}


@pytest.mark.parametrize(
    ("inherited", "gone"),
    [
        (USER, set()),
        ({**USER, "CLAUDECODE": "1"}, {"CLAUDECODE", "GIT_EDITOR", "PAGER"}),
        ({**USER, "CLAUDE_PID": "7"}, {"CLAUDE_PID", "GIT_EDITOR", "PAGER"}),
        ({**USER, "CODEX_CI": ""}, {"CODEX_CI", "PAGER", "NO_COLOR"}),
        (
            {**USER, "CODEX_CI": "1", "CLAUDECODE": "1"},
            {"CODEX_CI", "CLAUDECODE", "PAGER", "NO_COLOR", "GIT_EDITOR"},
        ),
    ],
)
def test_an_identity_is_not_inherited_and_takes_its_tool_shell_along(inherited: dict[str, str], gone: set[str]) -> None:
    kept = {n: v for n, v in inherited.items() if n not in gone}
    assert kept == base_environment(inherited, rules=RULES, plan=make_plan())


def test_an_identity_that_two_clis_share_takes_the_tool_shells_of_both() -> None:
    twin = replace(CODEX, env=Env(identity=("CLAUDECODE",), tool_shell=("NO_COLOR",)))
    rules = identity_rules([CLAUDE, twin])
    assert frozenset({"GIT_EDITOR", "PAGER", "NO_COLOR"}) == rules.inside["CLAUDECODE"]


def test_our_own_variables_are_never_inherited() -> None:
    outer = {**USER, "SUPERVISOR_SESSION_ID": "outer", "SUPERVISOR_HOME": "/outer", "SUPERVISOR_NEW": "1"}
    assert base_environment(outer, rules=RULES, plan=make_plan()) == USER


def test_what_the_profile_unsets_is_removed_for_this_agent() -> None:
    plan = make_plan(env_unset=("KEY", "ABSENT"))
    assert "KEY" not in base_environment(USER, rules=RULES, plan=plan)


MASTER = make_entry(agent=replace(make_entry().agent, agent_id="agent-7"))
WORKER = make_entry(
    "tests",
    parent=ParentRef(session_id="session-lead", entry_id="entry-lead", pid=300),
    task_ref="T-1",
    plan=make_plan(allowed_paths=("/a", "/b c")),
)


def test_a_master_is_told_who_it_is() -> None:
    assert own_environment(MASTER, home="/state") == {
        "SUPERVISOR_SESSION_ID": "session-lead",
        "SUPERVISOR_ENTRY_ID": "entry-lead",
        "SUPERVISOR_GENERATION": "nonce-lead",
        "SUPERVISOR_AGENT_ID": "agent-7",
        "SUPERVISOR_ALLOWED_PATHS": "[]",
        "SUPERVISOR_HOME": "/state",
    }


def test_a_worker_is_told_its_parent_and_task_too() -> None:
    own = own_environment(WORKER, home="/state")
    assert (
        own["SUPERVISOR_PARENT_SESSION"],
        own["SUPERVISOR_PARENT_PID"],
        own["SUPERVISOR_TASK_REF"],
        json.loads(own["SUPERVISOR_ALLOWED_PATHS"]),
    ) == ("session-lead", "300", "T-1", ["/a", "/b c"])


def test_a_parent_without_a_pid_is_named_by_its_session_alone() -> None:
    entry = replace(WORKER, parent=ParentRef(session_id="session-lead"))
    own = own_environment(entry, home="/state")
    assert (own["SUPERVISOR_PARENT_SESSION"], "SUPERVISOR_PARENT_PID" in own) == ("session-lead", False)


LINKED = make_plan(
    env_set={"PLAIN": "yes", "WHERE": "{home}"},
    env_link={"PI_PARENT_PID": "{parent_pid}", "PI_TASK": "{task_ref}", "PI_SUBAGENT_CHILD": "1"},
)


@pytest.mark.parametrize(
    ("entry", "linked"),
    [
        (
            replace(WORKER, plan=LINKED),
            {"PLAIN": "yes", "WHERE": "/state", "PI_PARENT_PID": "300", "PI_TASK": "T-1", "PI_SUBAGENT_CHILD": "1"},
        ),
        (replace(MASTER, plan=LINKED), {"PLAIN": "yes", "WHERE": "/state"}),
        (
            replace(WORKER, plan=LINKED, task_ref=None, parent=ParentRef(session_id="s")),
            {"PLAIN": "yes", "WHERE": "/state", "PI_SUBAGENT_CHILD": "1"},
        ),
    ],
)
def test_a_profiles_names_are_filled_in_and_a_master_has_no_link(entry: Entry, linked: dict[str, str]) -> None:
    own = own_environment(entry, home="/state")
    assert linked == {n: v for n, v in own.items() if not n.startswith("SUPERVISOR_")}


def test_no_profile_can_speak_in_our_name() -> None:
    entry = replace(MASTER, plan=make_plan(env_set={"SUPERVISOR_SESSION_ID": "forged"}))
    assert own_environment(entry, home="/state")["SUPERVISOR_SESSION_ID"] == "session-lead"


def test_what_has_a_cli_call_our_hook_is_joined_to_what_the_variable_holds_at_this_start() -> None:
    entry = replace(MASTER, plan=make_plan(env_hook={"CONFIG": '{"plugin": ["ours"]}'}))
    env = whole_environment({"CONFIG": '{"plugin": ["theirs"], "theme": "x"}', "HOME": "/h"}, entry, home="/state")
    assert json.loads(env["CONFIG"]) == {"plugin": ["theirs", "ours"], "theme": "x"}
    assert (env["HOME"], env["SUPERVISOR_SESSION_ID"]) == ("/h", "session-lead")
