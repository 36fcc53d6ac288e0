"""The command line of one start: the plan, the session that is gone on with, the prompt. Reads the prompt's file."""

from __future__ import annotations

from supervisor.core.entry import Entry
from supervisor.core.launch_plan import command_line
from supervisor.core.resuming import session_argument


def start_line(entry: Entry) -> tuple[str, ...]:
    """A session that this generation is to go on with is resumed, by a restart and a resume alike; not made again.

    Raises:
        OSError: the prompt cannot be read.
    """
    plan, session = entry.plan, entry.generation.resumes
    prompt = _text(plan.prompt_file) if plan.prompt_at is not None and plan.prompt_file else ""
    named = session and session_argument(plan, entry.agent.resume_context, session)
    return command_line(plan, session=named, prompt=prompt)


def _text(path: str) -> str:
    with open(path, "rb") as file:
        return file.read().decode(errors="surrogateescape")
