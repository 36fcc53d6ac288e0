"""Fences: what stops a resume, an adoption or a release, each with its code. Pure; docs/reference/recovery.md."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

from supervisor.core.errors import Fenced, SupervisorError

FenceCode = Literal[
    "alive",
    "claimed",
    "cwd_gone",
    "cycle",
    "ending",
    "has_parent",
    "mode",
    "no_parent",
    "no_proof",
    "no_resume_context",
    "no_session",
    "not_alive",
    "parent_not_alive",
    "session_ended",
    "session_file_gone",
    "session_held",
    "settling",
    "task_blocked",
    "task_done",
    "task_mismatch",
    "tasks_unreadable",
    "unknown",
    "worktree_gone",
]

CODES: tuple[FenceCode, ...] = get_args(FenceCode)


class Fence(Struct, frozen=True):
    """A boundary that was met: its code, the reason in words, and what to do."""

    code: FenceCode
    why: str
    hint: str = ""


def met(error: SupervisorError) -> Fence | None:
    """The fence behind an error, the inverse of `refusal`; None of an error that is no fence."""
    code, why = error.fields.get("fence"), error.fields.get("why", error.message)
    return Fence(code, str(why), error.hint) if code in CODES else None


def refusal(fence: Fence, what: str = "") -> Fenced:
    """A fence as the error that a command ends with; `what` could not be done."""
    said = f"{what}: {fence.why}" if what else fence.why
    return Fenced(f"{said} [{fence.code}]", hint=fence.hint, fence=fence.code, why=fence.why)
