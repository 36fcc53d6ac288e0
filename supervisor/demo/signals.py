"""How TERM, INT and HUP end the demo agent, at any point of its work.

Owns the handlers of the three. Never decides what is to be recorded or ended first: whoever sets
`before_exit` does.
"""

import os
import signal
from collections.abc import Callable
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Signals:
    """Ends the process with 128 + signal; `with signals:` holds that back for a step that must be whole."""

    def __init__(self) -> None:
        self.before_exit: Callable[[int], None] | None = None
        self._held = 0
        self._waiting: int | None = None

    def install(self) -> None:
        for signum in ENDING:
            signal.signal(signum, self._arrived)

    def ignore(self, signum: int) -> None:
        # a handler that does nothing, not SIG_IGN: that one our tools would inherit
        signal.signal(signum, lambda _signum, _frame: None)

    def retire(self) -> None:
        """From here on the process ends by itself; nothing interrupts that."""
        self._held += 1

    def __enter__(self) -> None:
        self._held += 1

    def __exit__(self, *_: object) -> None:
        self._held -= 1
        if self._waiting is not None and not self._held:
            self._end(self._waiting)

    def _arrived(self, signum: int, _frame: FrameType | None) -> None:
        if self._held:
            self._waiting = signum
        else:
            self._end(signum)

    def _end(self, signum: int) -> None:
        self._held += 1  # a second signal does not end it a second time
        code = 128 + signum
        try:
            if self.before_exit is not None:
                self.before_exit(code)
        finally:
            os._exit(code)  # not SystemExit: nothing on the way out may hold it up
