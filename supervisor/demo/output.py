"""What the demo agent says: whole lines to its stdout and stderr.

Owns the descriptors 1 and 2 while the agent runs. Never raises for a reader that went away: from then on it
is silent.
"""

import json
import os
import select


class Output:
    """One descriptor to write to; it goes silent, once and for good, when nobody can read it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._open = True
        self._midway = False  # a tool's output may end without a newline

    def line(self, text: str) -> None:
        """Say one line; it starts a new one, so that a reader of lines always finds it."""
        start = b"\n" if self._midway else b""
        self.write(start + text.encode("utf-8", "surrogateescape") + b"\n")

    def json_line(self, **fields: object) -> None:
        self.line(json.dumps(fields, separators=(",", ":")))

    def complaint(self, text: str) -> None:
        """A message to a person, in one line and without anything a terminal would obey."""
        plain = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
        self.write(f"demo: {plain}\n".encode("utf-8", "backslashreplace"))

    def write(self, data: bytes) -> bool:
        """Write all of it; false when nobody can read it any more."""
        if data:
            self._midway = not data.endswith(b"\n")
        while data and self._open:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:  # somebody made the shared pipe non-blocking
                select.select([], [self._fd], [])
            except OSError:
                self._open = False
        return self._open


def hold_standard_descriptors() -> None:
    """Open what is closed of 0, 1 and 2 on /dev/null, lest the session file becomes our stdout."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free one, so it is fd
