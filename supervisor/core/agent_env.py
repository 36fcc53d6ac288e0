"""The environment of an agent: what it may inherit, and what it is told about itself. Pure; values come in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from supervisor.core.entry import Entry
from supervisor.core.launch_plan import LaunchPlan
from supervisor.core.opencode_config import joined
from supervisor.core.profile import LaunchProfile, field_of


class IdentityRules(Struct, frozen=True):
    """What known CLIs leave in an environment: removed so that a child is not taken for its parent."""

    always: frozenset[str]
    inside: Mapping[str, frozenset[str]]
    """identity variable → tool-shell variables that go with it."""


def identity_rules(profiles: Iterable[LaunchProfile]) -> IdentityRules:
    """The rules of all known profiles together."""
    always: set[str] = set()
    inside: dict[str, frozenset[str]] = {}
    for profile in profiles:
        always.update(profile.env.identity)
        for name in profile.env.identity:
            inside[name] = inside.get(name, frozenset()) | frozenset(profile.env.tool_shell)
    return IdentityRules(frozenset(always), inside)


def base_environment(inherited: Mapping[str, str], *, rules: IdentityRules, plan: LaunchPlan) -> dict[str, str]:
    """What an agent may inherit: everything but identities, what goes with them, unset names, and our own variables."""
    shell: set[str] = set()
    for name, exported in rules.inside.items():
        if name in inherited:
            shell |= exported
    gone = rules.always | shell | set(plan.env_unset)
    return {n: v for n, v in inherited.items() if n not in gone and not n.startswith("SUPERVISOR_")}


def whole_environment(given: Mapping[str, str], entry: Entry, *, home: str) -> dict[str, str]:
    """What one generation is started with: `given`, what has it call our hook, what it is told about itself."""
    hook = {name: joined(given.get(name), text) for name, text in entry.plan.env_hook.items()}
    return {**given, **hook, **own_environment(entry, home=home)}


def own_environment(entry: Entry, *, home: str) -> dict[str, str]:
    """What one generation of an agent is told about itself: the profile's names and our SUPERVISOR_* contract."""
    parent = entry.parent
    fields: dict[str, str | None] = {
        "session_id": entry.session_id,
        "agent_id": entry.agent.agent_id,
        "task_ref": entry.task_ref,
        "parent_session": parent.session_id if parent else None,
        "parent_pid": str(parent.pid) if parent and parent.pid else None,
        "allowed_paths": msgspec.json.encode(entry.plan.allowed_paths).decode(),
        "home": home,
        "asked": parent.session_id if parent else entry.agent.agent_id,
    }
    own: dict[str, str | None] = {
        "SUPERVISOR_SESSION_ID": entry.session_id,
        "SUPERVISOR_ENTRY_ID": entry.entry_id,
        "SUPERVISOR_GENERATION": entry.generation.nonce,
        "SUPERVISOR_AGENT_ID": entry.agent.agent_id,
        "SUPERVISOR_PARENT_SESSION": fields["parent_session"],
        "SUPERVISOR_PARENT_PID": fields["parent_pid"],
        "SUPERVISOR_TASK_REF": entry.task_ref,
        "SUPERVISOR_ALLOWED_PATHS": fields["allowed_paths"],
        "SUPERVISOR_HOME": home,
    }
    wanted = {**entry.plan.env_set, **(entry.plan.env_link if parent else {})}
    linked = {n: fields[f] if (f := field_of(v)) else v for n, v in wanted.items()}
    return {n: v for n, v in {**linked, **own}.items() if v is not None}
