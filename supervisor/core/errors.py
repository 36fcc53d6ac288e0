"""Errors with a code, an exit status and fields. Raised only where nobody up the stack can act but by telling.

Expected outcomes are values (`Refused`, `Conflict`, ...), not these.
"""

from __future__ import annotations

import errno

EXIT_DONE = 0
EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_NOT_FOUND = 3
EXIT_NOBODY_SERVING = 4
EXIT_FENCED = 5
EXIT_LIMIT = 6
EXIT_MATRIX_OFF = 7
EXIT_INTERNAL = 70


class SupervisorError(Exception):
    """Base: `code` is the stable machine name, `exit_code` what a command ends with, `hint` what to do next."""

    code = "failed"
    exit_code = EXIT_REFUSED

    def __init__(self, message: str, *, hint: str = "", **fields: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.fields = fields

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message


class Refused(SupervisorError):
    """A command is refused for a reason that its user can do something about."""

    code = "refused"


class UsageError(SupervisorError):
    """The command line does not make sense."""

    code = "usage"
    exit_code = EXIT_USAGE


class NotFound(SupervisorError):
    """Nothing, or more than one thing, has this name."""

    code = "not_found"
    exit_code = EXIT_NOT_FOUND


class Fenced(SupervisorError):
    """A fence of recovery stopped it (`core.fences`), and nothing was changed; `fields["fence"]` is its code."""

    code = "fenced"
    exit_code = EXIT_FENCED


class LimitReached(SupervisorError):
    """A launch would pass a limit against runaway spawning; nothing was started."""

    code = "limit"
    exit_code = EXIT_LIMIT


class MatrixOff(SupervisorError):
    """The process matrix is switched off, and this cannot be done without a record."""

    code = "matrix_off"
    exit_code = EXIT_MATRIX_OFF

    def __init__(self) -> None:
        super().__init__(
            "the process matrix is off (processMatrix.enabled = false): nothing is recorded, and nothing was done",
            hint="Switch it on: supervisor settings set processMatrix.enabled true",
        )


class BadState(Refused):
    """The state root cannot be used: owner, mode, symlink, or no place for it."""

    code = "bad_state_root"


class BadInput(Refused):
    """A file or value given by the user is malformed: names the file, the place and the reason."""

    code = "bad_input"


class IllegalMove(SupervisorError):
    """A transition that the table does not allow: a bug in the caller, never an input."""

    code = "illegal_move"
    exit_code = EXIT_INTERNAL


def os_trouble(error: OSError) -> str:
    """For people: what the system refused, with which file, and what to do where that is known."""
    where = f" ({error.filename})" if error.filename else ""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = ". Free some space; `supervisor doctor` shows how much there is" if full else ""
    return f"{error.strerror or error}{where}{hint}"
