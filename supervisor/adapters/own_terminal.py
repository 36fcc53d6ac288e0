"""A few bytes to the terminal of this process while another program draws on it. Owns nothing; never waits."""

from __future__ import annotations

import os


def tell_terminal(data: bytes, *, path: str = "/dev/tty") -> bool:
    """Write at once or not at all; False: there is no terminal, it takes nothing now, or the job is in the background.

    A descriptor of its own: what is set on it does not change the agent's.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if os.tcgetpgrp(fd) != os.getpgrp():  # a write from the background may stop us (stty tostop)
            return False
        return os.write(fd, data) == len(data)
    except OSError:
        return False
    finally:
        os.close(fd)
