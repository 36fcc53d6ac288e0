"""Arbitrary records: every field, every state, hostile text."""

from __future__ import annotations

from hypothesis import strategies as st

from supervisor.core.entry import (
    Adopted,
    AgentIdentity,
    Closed,
    Death,
    Entry,
    FailedResume,
    Generation,
    HandOff,
    KeeperRef,
    Output,
    ParentRef,
    Resumable,
    ResumeContext,
    Running,
    Starting,
    State,
    Terminal,
    Unconfirmed,
    WindingDown,
)
from supervisor.core.errors import BadInput
from supervisor.core.identity import Machine, ProcessKey, ProcessRef
from supervisor.core.ids import session_id
from supervisor.core.launch_plan import LaunchPlan, RestartPlan

text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8)
times = st.integers(0, 2**53)
count = st.integers(0, 1000)
maybe_text = st.none() | text
words = st.lists(text, max_size=2).map(tuple)
variables = st.dictionaries(st.sampled_from(["A", "status"]), text, max_size=2)


def accepted(raw: str) -> bool:
    """Whether it can be a session id."""
    try:
        session_id(raw)
    except BadInput:
        return False
    return True


session_ids = st.text(max_size=20).filter(accepted).map(session_id)
machines = st.builds(Machine, text, text, count)
keys = st.builds(ProcessKey, st.integers(1, 2**22), times, st.none() | times)
refs = st.builds(ProcessRef, machines, keys)
deaths = st.builds(Death, at=times, boot_id=text, monotonic_ns=times, code=st.none() | count, signal=st.none() | text)
hand_offs = st.builds(
    HandOff,
    outcome=st.sampled_from(["exited", "signaled", "unknown", "not_started"]),
    cause=st.sampled_from(["ended", "stopped", "lost", "spawn_failed"]),
    observed_at=times,
    code=st.none() | count,
    signal=maybe_text,
    success=st.none() | st.booleans(),
    detail=text,
    survivors=words,
    delivered_at=st.none() | times,
)
contexts = st.builds(
    ResumeContext,
    profile=text,
    cwd=text,
    provider_session_id=maybe_text,
    session_file=maybe_text,
    model=maybe_text,
    pointers=words,
)
identities = st.builds(AgentIdentity, agent_id=text, resume_context=st.none() | contexts)
failures = st.none() | st.builds(FailedResume, at=times, why=text)
parents = st.none() | st.builds(ParentRef, session_id=text, pid=st.none() | count, process=st.none() | refs)
at_rest = st.one_of(
    st.builds(
        Resumable,
        since=times,
        agent=identities,
        task_ref=maybe_text,
        hand_off=st.none() | hand_offs,
        failed_resume=failures,
    ),
    st.builds(Closed, since=times, hand_off=hand_offs, failed_resume=failures),
)
under_way = st.none() | st.builds(Unconfirmed, state=at_rest, parent=parents)
live_states: st.SearchStrategy[State] = st.one_of(
    st.builds(
        Starting,
        since=times,
        attempt=count,
        not_before=st.none() | times,
        waits_for=words,
        unconfirmed=under_way,
    ),
    st.builds(Running, since=times, ready_at=st.none() | times, unconfirmed=under_way),
    st.builds(
        WindingDown,
        since=times,
        reason=st.sampled_from(["parent_lost", "parent_shutdown", "user_cleanup"]),
        detail=text,
    ),
    st.builds(Adopted, since=times, by_session=text),
)
states: st.SearchStrategy[State] = live_states | at_rest
policies = st.builds(
    RestartPlan,
    policy=st.sampled_from(["temporary", "transient", "permanent"]),
    intensity=st.integers(0, 30),
    period_seconds=st.integers(1, 100),
)
plans = st.builds(
    LaunchPlan,
    profile=text,
    argv=words,
    resume_argv=words,
    cwd=text,
    mode=st.sampled_from(["headless", "interactive"]),
    stdin=st.sampled_from(["null", "prompt", "inherit"]),
    prompt_file=maybe_text,
    env_set=variables,
    env_link=variables,
    env_given=words,
    success_codes=st.lists(count, max_size=3).map(tuple),
    restart=policies,
)
entries = st.builds(
    Entry,
    entry_id=text,
    session_id=session_ids,
    name=text,
    role=st.sampled_from(["master", "worker"]),
    agent=identities,
    generation=st.builds(Generation, nonce=text, process=st.none() | refs),
    keeper=st.builds(KeeperRef, text, refs),
    state=states,
    plan=plans,
    hostname=text,
    started_at=times,
    heartbeat_at=times,
    want=st.sampled_from(["up", "down"]),
    stop_grace_ms=st.none() | count,
    parent=parents,
    tree=maybe_text,
    task_ref=maybe_text,
    task_summary=maybe_text,
    terminal=st.builds(Terminal, kind=st.sampled_from(["detached", "foreground", "tmux"]), pane=maybe_text),
    output=st.builds(Output, transcript=maybe_text, degraded=maybe_text),
    deaths=st.lists(deaths, max_size=2).map(tuple),
    revision=st.integers(1, 2**31),
)
