"""Run a command with no network but loopback, where this machine allows: `python -m tests.e2e_real.offline COMMAND…`.

A network namespace of its own needs root here; where it cannot be had the command runs all the same, and says so.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Sequence

CLONE_NEWNET = 0x40000000  # unshare(2)
SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8913, 0x8914  # netdevice(7)
IFF_UP = 0x1


def leave_the_network() -> str | None:
    """This process and its children see nothing but a loopback of their own; why not, where that fails."""
    if not sys.platform.startswith("linux"):
        return "network namespaces are Linux's"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        return os.strerror(ctypes.get_errno())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        (flags,) = struct.unpack_from("h", fcntl.ioctl(control, SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))
    return None


def main(command: Sequence[str]) -> None:
    why_not = leave_the_network()
    print(f"network: {'loopback only' if why_not is None else f'as it is ({why_not})'}", flush=True)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
