"""The use case of a resume: what is asked for, checked against the records and the machine, becomes a draft.

Owns nothing. The draft replaces the record that was checked, and only that one; the keeper claims it before it spawns.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial

from supervisor.core import transitions
from supervisor.core.agent_env import base_environment, identity_rules
from supervisor.core.entry import Entry, Output, ParentRef, as_parent, is_live
from supervisor.core.errors import NotFound
from supervisor.core.fences import Fence, refusal
from supervisor.core.handoffs import addressed_to
from supervisor.core.leases import owner_of
from supervisor.core.liveness import Judgement, Verdict
from supervisor.core.resuming import Facts, fence, lines_of, provable, resumed_plan, wake_prompt
from supervisor.core.spawn_limits import check_limits
from supervisor.core.tree import ancestors
from supervisor.runtime.activation import Activated
from supervisor.runtime.agent_request import ResumeRequest
from supervisor.runtime.compose import Context
from supervisor.runtime.intents import Draft
from supervisor.runtime.scan import alive


class Resumer:
    """Checks resumes against one scan, under the lock of names."""

    def __init__(self, context: Context, activated: Activated) -> None:
        self._context = context
        self._entries = list(activated.seen.entries)
        self._judgements = activated.seen.judgements
        self._alive = partial(alive, context.parts)
        self._env: dict[tuple[str, ...], dict[str, str]] = {}

    def draft(self, request: ResumeRequest) -> Draft:
        """The draft of one resume; later ones of the same batch see it as running.

        Raises:
            NotFound: it is not on record any more.
            Fenced: a fence stops it; nothing was written.
            LimitReached: one agent too many.
        """
        entry = next((e for e in self._entries if e.entry_id == request.entry_id), None)
        if entry is None:
            raise NotFound(f"{request.name} is not on record any more")
        stopped = fence(entry, self.facts(entry)) or self._mode_fence(entry, request)
        if stopped is not None:
            raise refusal(stopped)
        parent = self._parent(entry, request)
        after = self._claimed(entry, request, parent)
        check_limits(self._context.spawn_limits, [after], [e for e in self._entries if e is not entry])
        self._entries[self._entries.index(entry)] = after
        return Draft(after, self._inherited(after), self._prompt(entry, request), before=entry)

    def facts(self, entry: Entry) -> Facts:
        """What the machine says about a resume of it."""
        context = entry.agent.resume_context
        session = context.provider_session_id if context else None
        return Facts(
            alive=self._alive(entry),
            owner=owner_of(session, self._entries, self._alive) if session else None,
            folder_there=os.path.isdir(context.cwd) if context else True,
            worktree_there=os.path.isdir(context.worktree) if context and context.worktree else True,
            file_there=os.path.isfile(context.session_file) if context and context.session_file else True,
        )

    def _mode_fence(self, entry: Entry, request: ResumeRequest) -> Fence | None:
        line = lines_of(entry.plan).get(request.mode)
        on_terminal = request.mode == "interactive"
        if line is None or not provable(entry.plan, request.mode):
            how = "--detach" if on_terminal else "a terminal"
            return Fence("mode", f"{entry.name} can be resumed only as it was launched", f"Use {how}")
        if on_terminal and request.text is not None and line.takes == "none":
            why = f"{entry.name} takes no prompt when it is resumed on a terminal"
            return Fence("mode", why, "Leave --prompt away, and type it there")
        return None

    def _parent(self, entry: Entry, request: ResumeRequest) -> ParentRef | None:
        """The one that was named, else its own if that one lives, else the agent that resumes it, else none."""
        if request.parent is not None:
            if self._is_below(request.parent, entry):
                raise refusal(Fence("cycle", f"{entry.name} cannot be resumed below itself", "Name another --parent"))
            return request.parent
        own = next((e for e in self._entries if entry.parent and e.session_id == entry.parent.session_id), None)
        if own is not None and lives(own, self._judgements):
            return as_parent(own)
        inside = request.inside
        return inside if inside is not None and not self._is_below(inside, entry) else None

    def _is_below(self, parent: ParentRef, entry: Entry) -> bool:
        above = next((e for e in self._entries if e.session_id == parent.session_id), None)
        line = [above, *ancestors(above, self._entries)] if above else []
        return parent.session_id == entry.session_id or any(e.session_id == entry.session_id for e in line)

    def _claimed(self, entry: Entry, request: ResumeRequest, parent: ParentRef | None) -> Entry:
        context = entry.agent.resume_context
        assert context is not None and context.provider_session_id is not None  # the fence has looked
        path = os.path.join(self._context.places.prompts, entry.entry_id)
        wakes = request.mode == "headless" or request.text is not None
        transcript = self._context.parts.transcripts.path(entry.entry_id) if request.mode == "headless" else None
        return transitions.resuming(
            entry,
            nonce=os.urandom(8).hex(),
            session=context.provider_session_id,
            now=self._context.clock.wall_ms(),
            plan=resumed_plan(entry.plan, request.mode, path if wakes else None),
            name=self._free_name(entry),
            parent=parent,
            terminal=request.terminal,
            output=Output(transcript=transcript, degraded=entry.output.degraded if transcript else None),
        )

    def _free_name(self, entry: Entry) -> str:
        """Its own, unless a running agent has taken that meanwhile."""
        taken = {e.name for e in self._entries if is_live(e)}
        name, number = entry.name, 2
        while name in taken:
            name, number = f"{entry.name[:60]}-{number}", number + 1
        return name

    def _prompt(self, entry: Entry, request: ResumeRequest) -> bytes:
        ended = addressed_to(entry.session_id, self._entries)
        return wake_prompt(entry, ended=ended, text=request.text).encode(errors="surrogateescape")

    def _inherited(self, entry: Entry) -> Mapping[str, str]:
        """What a launch from here would inherit: the values that were given by --env at launch are stored nowhere."""
        key = entry.plan.env_unset
        if key not in self._env:
            rules = identity_rules(self._context.profiles.known())
            self._env[key] = base_environment(self._context.env, rules=rules, plan=entry.plan)
        return self._env[key]


def lives(entry: Entry, judgements: Mapping[str, Judgement]) -> bool:
    """Whether an agent is there to be a parent: its process is certainly the recorded one."""
    return is_live(entry) and judgements[entry.entry_id].verdict in (Verdict.ALIVE, Verdict.STALE)


def missing_variables(context: Context, entry: Entry) -> Sequence[str]:
    """Names of variables that were given at launch and are not set here: their values are stored nowhere."""
    return [name for name in entry.plan.env_given if name not in context.env]
