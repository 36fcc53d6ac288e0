"""`supervisor-hook`, and `python -P -m supervisor.hook`: prints one reply, whatever happens.

Owns standard output and how the process exits. Decides nothing.
"""

from __future__ import annotations

import os
import sys

LAST_RESORT = (
    b'{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"deny","message":'
    b'"not decided: the permission hook of supervisor failed; this is not a refusal by the user"}}}\n'
)
"""When not even our own modules can be loaded (a half-finished upgrade): silence would leave it to somebody else."""


def main() -> None:
    """Run the hook and end the process at once: all is written, and an exit handler could only complain."""
    try:
        from supervisor.hook.run import run

        outcome = run(sys.argv[1:])
        out, err, code = outcome.out.encode(), outcome.err.encode("utf-8", "replace"), outcome.code
    except BaseException as error:  # noqa: BLE001  the last line of defence: a denial, never a traceback
        inside = os.environ.get("SUPERVISOR_SESSION_ID")
        out, err, code = (LAST_RESORT if inside else b""), f"supervisor-hook: {error!r}\n".encode("utf-8", "replace"), 0
    _write(2, err)
    _write(1, out)
    os._exit(code)


def _write(fd: int, data: bytes) -> None:
    """All of it, if anybody reads it."""
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        return


if __name__ == "__main__":
    main()
