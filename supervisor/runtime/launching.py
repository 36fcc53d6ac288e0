"""Launching: requests are checked whole, become drafts of entries, and a keeper starts them. Intent before deed.

Owns nothing; the records are the store's, the agents their keeper's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from supervisor.adapters.places import uuid4
from supervisor.adapters.spawn import which
from supervisor.core.agent_env import IdentityRules, base_environment, identity_rules
from supervisor.core.driver_plan import as_driver
from supervisor.core.entry import (
    MAX_SUMMARY,
    AgentIdentity,
    Entry,
    Generation,
    KeeperRef,
    Output,
    ParentRef,
    ResumeContext,
    Starting,
    is_live,
)
from supervisor.core.errors import BadInput, Refused, SupervisorError
from supervisor.core.fences import Fence, refusal
from supervisor.core.ids import agent_name
from supervisor.core.launch_plan import LaunchPlan, LaunchRequest, plan_launch
from supervisor.core.leases import owner_of_words
from supervisor.core.profile import HOOKED, LaunchProfile
from supervisor.core.spawn_limits import check_limits
from supervisor.core.tasks import task_ref
from supervisor.core.text import bounded, is_text
from supervisor.runtime.agent_request import MAX_PROMPT_BYTES, AgentRequest
from supervisor.runtime.compose import Context
from supervisor.runtime.intents import Draft
from supervisor.runtime.scan import alive


class Launcher:
    """Checks requests and writes drafts for one batch."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._found: dict[str, str] = {}
        self._rules: IdentityRules | None = None
        self._tasks: dict[str, str | None] = {}
        self._inherited: dict[tuple[str, ...], dict[str, str]] = {}

    def drafts(self, requests: Sequence[AgentRequest], entries: Sequence[Entry]) -> list[Draft]:
        """Check everything before anything is started; the limits too, so `entries` were read under the lock of names.

        Raises:
            SupervisorError: the first thing that is wrong.
            LimitReached: one agent too many, too deep, or too many below one parent.
        """
        self._tasks = {e.session_id: e.task_ref for e in entries}
        for request in requests:
            self._refuse_held(request, entries)
        taken = {e.name for e in entries if is_live(e)}
        out: dict[str, Draft] = {}
        for request in requests:
            try:
                name = self._name(request, taken)
                taken.add(name)
                if request.mcp:
                    from supervisor.runtime.mcp_setup import with_tools

                    request = with_tools(self._context, request)
                out[name] = self._draft(request, name, out)
            except SupervisorError as error:
                if not request.where:
                    raise
                raise type(error)(f"{request.where}: {error.message}", hint=error.hint) from None
        check_limits(self._context.spawn_limits, [d.entry for d in out.values()], entries)
        return list(out.values())

    def _task_of(self, parent: ParentRef | None, earlier: Mapping[str, Draft]) -> str | None:
        """A child works on the task of its parent, unless another one is named for it."""
        if parent is None:
            return None
        born = next((d.entry for d in earlier.values() if d.entry.session_id == parent.session_id), None)
        return born.task_ref if born else self._tasks.get(parent.session_id)

    def _refuse_held(self, request: AgentRequest, entries: Sequence[Entry]) -> None:
        """A session that is named among the arguments must not be in use: most CLIs let two write into one."""
        owner = owner_of_words(request.words, entries, partial(alive, self._context.parts)) if request.words else None
        if owner is not None:
            what = f"the session that is named for {request.name or request.profile}"
            why = f"{what} is in use by {owner.name} ({owner.entry_id}, {owner.status})"
            raise refusal(Fence("session_held", why, f"See: supervisor why {owner.entry_id}"))

    def _name(self, request: AgentRequest, taken: set[str]) -> str:
        if request.name is not None:
            if agent_name(request.name) in taken:
                raise Refused(
                    f"the name {request.name} is taken by a running agent",
                    hint=f"Choose another --name, or see: supervisor show {request.name}",
                )
            return request.name
        number = 1
        while (name := request.profile if number == 1 else f"{request.profile}-{number}") in taken:
            number += 1
        return name

    def _draft(self, request: AgentRequest, name: str, earlier: Mapping[str, Draft]) -> Draft:
        context = self._context
        profile = context.profiles.load(request.profile)
        _check_request(request)
        entry_id = os.urandom(6).hex()
        session = uuid4()
        agent_id = request.agent_id or uuid4()
        plan = self._plan(request, profile, name=name, session=session, entry_id=entry_id)
        env = {**self._inherit(plan), **request.env}
        plan = self._with_binary(_with_folder(plan, profile, env), profile, name, env)
        parent = request.parent
        if request.parent_name is not None:
            parent = ParentRef(session_id=earlier[request.parent_name].entry.session_id)
        now = context.clock.wall_ms()
        entry = Entry(
            entry_id=entry_id,
            session_id=session,
            name=name,
            role="worker" if parent else "master",
            agent=AgentIdentity(agent_id=agent_id, resume_context=_resume_context(profile, plan, request, session)),
            generation=Generation(nonce=os.urandom(8).hex()),
            keeper=_NO_KEEPER,
            state=Starting(since=now, waits_for=tuple(earlier[a].entry.entry_id for a in request.after)),
            plan=plan,
            hostname=context.hostname,
            started_at=now,
            heartbeat_at=now,
            parent=parent,
            tree=request.tree,
            task_ref=request.task_ref if request.task_ref is not None else self._task_of(parent, earlier),
            task_summary=bounded(request.task_summary, MAX_SUMMARY) if request.task_summary else None,
            terminal=request.terminal,
            output=Output(
                transcript=os.path.join(context.places.transcripts, f"{entry_id}.log")
                if request.mode == "headless"
                else None
            ),
        )
        return Draft(entry, env, request.prompt)

    def _plan(
        self, request: AgentRequest, profile: LaunchProfile, *, name: str, session: str, entry_id: str
    ) -> LaunchPlan:
        context = self._context
        prompt_file = os.path.join(context.places.prompts, entry_id) if request.prompt is not None else None
        return plan_launch(
            profile,
            LaunchRequest(
                name=name,
                session_id=session,
                cwd=request.cwd,
                python=context.python,
                mode=request.mode,
                prompt_file=prompt_file,
                prompt_bytes=len(request.prompt or b""),
                words=request.words,
                model=request.model,
                allowed_paths=request.allowed_paths,
                env_given=tuple(sorted(request.env)),
                restart=request.restart,
                asks_mode=request.asks,
                hook=self._hook(profile, request),
                mcp_server=request.mcp_server,
            ),
        )

    def _hook(self, profile: LaunchProfile, request: AgentRequest) -> Mapping[str, str]:
        driven = profile.driver is not None and request.mode == "headless"
        if driven or not HOOKED & {profile.asks.adapter, profile.asks.interactive}:
            return {}
        from supervisor.runtime.hook_install import hook_fields

        path = request.env.get("PATH", self._context.env.get("PATH", ""))
        program = which(profile.argv.base[0], path=path, cwd=request.cwd) if profile.argv.base else None
        return hook_fields(self._context, profile, request.mode, program)

    def _inherit(self, plan: LaunchPlan) -> dict[str, str]:
        """The inheritable environment, the same for all of a profile."""
        if self._rules is None:
            self._rules = identity_rules(self._context.profiles.known())
        if plan.env_unset not in self._inherited:
            self._inherited[plan.env_unset] = base_environment(self._context.env, rules=self._rules, plan=plan)
        return self._inherited[plan.env_unset]

    def _with_binary(self, plan: LaunchPlan, profile: LaunchProfile, name: str, env: Mapping[str, str]) -> LaunchPlan:
        if not plan.argv:
            raise BadInput(
                f"profile {profile.name} needs a command",
                hint=f"Give it after --: launch {profile.name} -- make",
            )
        command = profile.driver.command[:1] if profile.driver and plan.driven else ()
        for binary in (*profile.needs, *command):
            self._which(binary, env.get("PATH", ""), plan.cwd, name)
        first = self._which(plan.argv[0], env.get("PATH", ""), plan.cwd, name)
        return replace(
            plan,
            argv=(first, *plan.argv[1:]),
            resume_argv=(first, *plan.resume_argv[1:]) if plan.resume_argv else (),
            resume_lines={m: replace(line, argv=(first, *line.argv[1:])) for m, line in plan.resume_lines.items()},
        )

    def _which(self, binary: str, path: str, cwd: str, name: str) -> str:
        key = f"{binary}\0{path}\0{cwd if '/' in binary else ''}"
        if key not in self._found:
            found = which(binary, path=path, cwd=cwd)
            if found is None:
                raise Refused(
                    f"{name} cannot be launched: {binary} was not found" + ("" if "/" in binary else " on PATH"),
                    hint="Install it or correct PATH; `supervisor doctor` shows what is there",
                )
            self._found[key] = found
        return self._found[key]


def _with_folder(plan: LaunchPlan, profile: LaunchProfile, env: Mapping[str, str]) -> LaunchPlan:
    """Where the CLI itself writes its asks, as the agent's own environment says."""
    if profile.asks.adapter != "files":
        return plan
    from supervisor.core.pi import forwarding_folder

    return replace(plan, asks_folder=forwarding_folder(env))


def _check_request(request: AgentRequest) -> None:
    if not request.cwd or not os.path.isdir(request.cwd):
        raise BadInput(f"the working directory {request.cwd or '(none)'} does not exist", hint="Give one with --cwd")
    if request.prompt is not None and len(request.prompt) > MAX_PROMPT_BYTES:
        raise BadInput(f"the prompt is {len(request.prompt)} bytes, at most {MAX_PROMPT_BYTES} are taken")
    if any("\0" in w for w in request.words):
        raise BadInput("an argument holds a NUL byte")
    texts = [("the working directory", request.cwd), ("--task-ref", request.task_ref), ("--model", request.model)]
    texts += [("--task-summary", request.task_summary), ("--agent-id", request.agent_id)]
    texts += [("an argument", w) for w in request.words] + [("an allowed path", p) for p in request.allowed_paths]
    for what, text in texts:
        if text is not None and not is_text(text):
            raise BadInput(f"{what} is not valid UTF-8: no record can hold it")
    if request.task_ref is not None:
        task_ref(request.task_ref)  # what could not be set to blocked could not be kept from coming back


def _resume_context(
    profile: LaunchProfile, plan: LaunchPlan, request: AgentRequest, session: str
) -> ResumeContext | None:
    rule = (as_driver(profile) if plan.driven else profile).session.id
    if rule == "none" or not plan.resume_argv:
        return None
    return ResumeContext(
        profile=profile.name,
        cwd=plan.cwd,
        provider_session_id=session if rule == "preset" else None,
        model=request.model,
    )


def _no_keeper() -> KeeperRef:
    from supervisor.core.identity import Machine, ProcessKey, ProcessRef

    return KeeperRef("", ProcessRef(Machine("", "", 0), ProcessKey(0, 0)))


_NO_KEEPER = _no_keeper()
