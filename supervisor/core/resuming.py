"""A resume, before anything is done: may it be, with which command line, and what is the agent told. Pure.

A resume goes on with the stored session in the stored folder, by the plan that was frozen at launch. It never begins a
session anew: what is missing stops it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from supervisor.core.ending import describe
from supervisor.core.entry import Entry, ResumeContext, is_live
from supervisor.core.fences import Fence
from supervisor.core.launch_plan import LaunchPlan, Mode, ResumeLine
from supervisor.core.profile import prompt_place
from supervisor.core.text import bounded, one_line

MAX_TOLD_ENDS = 20
"""Ends of children that a wake prompt tells; the rest is counted."""


class Facts(Struct, frozen=True, kw_only=True):
    """What the caller has looked at: whether its process lives (None: cannot be judged), who holds its session, and
    whether its folders and its session file are there."""

    alive: bool | None
    owner: Entry | None = None
    folder_there: bool = True
    worktree_there: bool = True
    file_there: bool = True


def fence(entry: Entry, facts: Facts) -> Fence | None:
    """What stops a resume of this agent, the first of all that does."""
    return _life_fence(entry, facts) or _context_fence(entry) or _place_fence(entry, facts)


def _life_fence(entry: Entry, facts: Facts) -> Fence | None:
    if is_live(entry) or facts.alive:
        return Fence("alive", f"{entry.name} runs", "Only who has ended is resumed; a live orphan is adopted")
    owner = facts.owner
    if owner is not None and owner.entry_id != entry.entry_id:
        return Fence(
            "session_held",
            f"the session of {entry.name} is in use by {owner.name} ({owner.entry_id}, {owner.status})",
            f"See: supervisor why {owner.entry_id}",
        )
    if owner is not None:
        return Fence(
            "unknown",
            f"whether {entry.name} still runs cannot be judged from here",
            "Resume it on its own host",
        )
    return None


def _context_fence(entry: Entry) -> Fence | None:
    context = entry.agent.resume_context
    if context is None and entry.enrolled and lines_of(entry.plan):
        return Fence("no_session", f"{entry.name} was enrolled without its session id", "Launch it again")
    if context is None or not lines_of(entry.plan):
        return Fence(
            "no_resume_context",
            f"{entry.name} cannot be resumed: profile {entry.plan.profile} has no way to",
            "Launch it again",
        )
    if context.provider_session_id is None:
        return Fence("no_session", f"{entry.name} never said which session it was in", "Launch it again")
    if not provable(entry.plan):
        return Fence(
            "no_proof",
            f"profile {entry.plan.profile} does not say how an agent proves which session it is in",
            "Give session.capture_key or session.files in the profile, and launch it again",
        )
    return None


def _place_fence(entry: Entry, facts: Facts) -> Fence | None:
    context = entry.agent.resume_context
    assert context is not None
    if not facts.folder_there:
        return Fence("cwd_gone", f"the folder of {entry.name}, {context.cwd}, is gone", "Bring it back and try again")
    if not facts.worktree_there:
        return Fence("worktree_gone", f"the worktree of {entry.name}, {context.worktree}, is gone", "Bring it back")
    if not facts.file_there:
        return Fence(
            "session_file_gone",
            f"the session of {entry.name} is gone: there is no {context.session_file}",
            "Bring it back and try again",
        )
    return None


def provable(plan: LaunchPlan, mode: Mode | None = None) -> bool:
    """Whether an agent of this plan can confirm a session (in this mode): by its output, file, driver, or plugin."""
    told = any(line.ready == "session" for m, line in lines_of(plan).items() if mode in (None, m))
    return bool(plan.capture_key or plan.session_files or plan.env_hook) or told


def lines_of(plan: LaunchPlan) -> dict[Mode, ResumeLine]:
    """How the plan is gone on with, by mode; of a plan of an earlier version in its own mode only."""
    if plan.resume_lines or not plan.resume_argv or plan.session_at is None:
        return plan.resume_lines
    cut = len(plan.resume_argv) if plan.prompt_at is None else plan.prompt_at - 1  # `-- PROMPT` stood at the end
    prompt = plan.resume_argv[cut:]
    return {
        plan.mode: ResumeLine(
            argv=plan.resume_argv[:cut],
            session_at=plan.session_at,
            takes="argv" if prompt else "stdin" if plan.stdin == "prompt" else "none",
            prompt=prompt,
            ready=plan.ready,
        )
    }


def resumed_plan(plan: LaunchPlan, mode: Mode, prompt_file: str | None) -> LaunchPlan:
    """The frozen plan, turned to this mode and to this prompt (None: without one).

    `mode` is one of `lines_of`. An interactive CLI that takes no prompt gets none.
    """
    line = lines_of(plan)[mode]
    takes = line.takes if prompt_file is not None else "none"
    prompt = line.prompt if takes == "argv" else ()
    return replace(
        plan,
        mode=mode,
        resume_argv=(*line.argv, *prompt),
        session_at=line.session_at,
        prompt_at=at - len(prompt) if (at := prompt_place(prompt)) is not None else None,
        prompt_file=prompt_file if takes != "none" else None,
        stdin="inherit" if mode == "interactive" else "prompt" if takes == "stdin" else "null",
        ready=line.ready,
        resume_lines=lines_of(plan),
    )


def session_argument(plan: LaunchPlan, context: ResumeContext | None, session: str) -> str:
    """What stands for the session on the command line: its exact file where the CLI takes one, else its id."""
    by_file = plan.resume_by == "file" and context is not None and context.provider_session_id == session
    return (context.session_file if by_file and context else None) or session


def wake_prompt(entry: Entry, *, ended: Sequence[Entry] = (), text: str | None = None) -> str:
    """What a resumed agent is told: that it was interrupted, its task, its checkpoint, who has ended meanwhile.

    Pointers instead of a transcript: the conversation is in its session. `text` stands for the closing request. An
    agent whose work was done was not interrupted: it is told that alone, and who has ended.
    """
    end = entry.hand_off
    over = text is not None and end is not None and end.cause == "ended" and end.success is True
    lines = [*([] if over else _interrupted(entry)), *_ended_meanwhile(ended)]
    lines.append(text if text is not None else "Look at where you stopped, and go on with your task.")
    return "\n".join(lines) + ("" if over else "\n")


def _interrupted(entry: Entry) -> list[str]:
    context = entry.agent.resume_context
    lines = ["You were interrupted and have been resumed in the same session."]
    if entry.task_ref or entry.task_summary:
        summary = f": {one_line(entry.task_summary, 2000)}" if entry.task_summary else ""
        lines.append(f"Your task: {entry.task_ref or ''}{summary}" if entry.task_ref else f"Your task{summary}")
    if context and context.checkpoint:
        lines.append(f"Your last checkpoint: {context.checkpoint}")
    if context and context.summary:
        lines += ["Your summary:", context.summary]
    if context and context.pointers:
        lines += ["Read again what you need of:", *(f"- {p}" for p in context.pointers)]
    return lines


def _ended_meanwhile(ended: Sequence[Entry]) -> list[str]:
    if not ended:
        return []
    lines = ["Of the agents you had launched, these have ended meanwhile:"]
    lines += [f"- {e.name}: {describe(e.hand_off)}" for e in ended[:MAX_TOLD_ENDS] if e.hand_off]
    if len(ended) > MAX_TOLD_ENDS:
        lines.append(f"- and {len(ended) - MAX_TOLD_ENDS} more (supervisor handoffs)")
    return lines


def outcome(entry: Entry, *, waited_ms: float) -> str | bool | None:
    """Of an unconfirmed resume: True once it is confirmed, the reason once it has failed, None while it is open.

    A person sits at an interactive one, which may say nothing before its first turn: it is not ended for that.
    """
    generation = entry.generation
    if generation.session is not None:
        if generation.session == generation.resumes:
            return True
        return f"it came up in another session, {bounded(generation.session, 80)}"
    if entry.plan.mode == "headless" and waited_ms > entry.plan.ready_timeout_ms:
        return f"it did not confirm its session within {entry.plan.ready_timeout_ms // 1000} s"
    return None
