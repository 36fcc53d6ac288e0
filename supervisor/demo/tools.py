"""The commands the demo agent runs as its tools: one at a time in the foreground, any number behind.

Owns the child it waits for and the process group of it. Never reads a prompt, never judges a result, and
leaves the commands it started in the background alone, as real agents do.
"""

import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from supervisor.demo.signals import Signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

CAPTURED = 65536  # bytes kept of each stream; what comes after is echoed, not kept
TOOL_GRACE = 1.0  # seconds from TERM to KILL for a running tool: an ask takes its request back in it
LOOK_AGAIN = 1.0  # seconds; SIGCHLD wakes us at once, this only makes a lost wake-up cost a second
LEFT_BEHIND = 64  # reads at most of what is in the pipe once the tool ended, though a helper keeps writing
NOT_STARTED = 127


class Finished(NamedTuple):
    code: int  # 128 + signal when a signal ended it, as a shell says it
    out: bytes = b""
    err: bytes = b""
    not_started: bool = False


class Tools:
    """Runs commands. Changed only by its own calls: the child being waited for, and those behind."""

    def __init__(self, *, env: dict[bytes, bytes], signals: Signals) -> None:
        self._env = env
        self._signals = signals
        self._running: subprocess.Popen[bytes] | None = None
        self._streams: dict[int, bytearray] = {}  # those of the running tool that are not at their end
        self._behind: list[subprocess.Popen[bytes]] = []
        self._wake, wake_up = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake_up, False)
        signal.set_wakeup_fd(wake_up, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _signum, _frame: None)  # only handled signals wake us

    def run(
        self, argv: Sequence[bytes], *, stdin: bytes = b"", echo: Callable[[bytes], bool] | None = None
    ) -> Finished:
        """Run it to its end. With an echo, its stdout and stderr are one stream, else they are kept apart."""
        import subprocess  # here, not above: a prompt without tools needs none of it

        apart = echo is None
        source = subprocess.PIPE if stdin else subprocess.DEVNULL
        with self._signals:
            child = self._spawn(
                argv,
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if apart else subprocess.STDOUT,
            )
            if isinstance(child, Finished):
                return child
            out, err = bytearray(), bytearray()
            self._streams = {pipe.fileno(): kept for pipe, kept in ((child.stdout, out), (child.stderr, err)) if pipe}
            self._running = child
        self._exchange(child, stdin=stdin, echo=echo)
        code = child.returncode
        return Finished(code if code >= 0 else 128 - code, bytes(out), bytes(err))

    def start(self, argv: Sequence[bytes]) -> Finished | None:
        """Start it, with our own stdout and stderr, and go on; None when that worked."""
        import subprocess

        with self._signals:
            child = self._spawn(argv, stdin=subprocess.DEVNULL, stdout=None, stderr=None)
            if isinstance(child, Finished):
                return child
            self._behind.append(child)
        return None

    def _spawn(
        self, argv: Sequence[bytes], *, stdin: int, stdout: int | None, stderr: int | None
    ) -> "subprocess.Popen[bytes] | Finished":
        import subprocess

        self._behind = [child for child in self._behind if child.poll() is None]  # reap what has ended
        try:
            return subprocess.Popen(
                argv,
                bufsize=0,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=self._env,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return Finished(NOT_STARTED, err=str(error).encode("utf-8", "replace"), not_started=True)

    def end_running(self) -> None:
        """End the running tool's process group: asked first, killed after a moment."""
        child = self._running
        if child is None or child.returncode is not None:
            return
        _signal_group(child.pid, signal.SIGTERM)
        deadline = time.monotonic() + TOOL_GRACE
        while not _has_ended(child.pid) and (left := deadline - time.monotonic()) > 0:
            for fd in self._ready(timeout=min(left, 0.01)):
                self._read(fd, echo=None)  # a full pipe would keep it from ending
        _signal_group(child.pid, signal.SIGKILL)  # not reaped yet, so the number is still its own

    def _exchange(
        self, child: "subprocess.Popen[bytes]", *, stdin: bytes, echo: Callable[[bytes], bool] | None
    ) -> None:
        """Pass the data both ways until the child has ended; a helper it left may hold the pipe open."""
        unread = LEFT_BEHIND
        while True:
            with self._signals:  # reaped and known to be: no signal to a number that is free again
                ended = child.poll() is not None
            stdin = self._feed(child, stdin=stdin)
            feeding = [child.stdin.fileno()] if child.stdin is not None and not child.stdin.closed else []
            ready = self._ready(timeout=0 if ended else LOOK_AGAIN, feeding=feeding)
            if ended and (not ready or not unread):
                break
            unread -= ended
            for fd in ready:
                if not self._read(fd, echo=echo) and child.stdout is not None:
                    child.stdout.close()  # it learns from SIGPIPE, as in any pipeline
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
        self._streams = {}
        self._running = None

    def _ready(self, *, timeout: float, feeding: Sequence[int] = ()) -> list[int]:
        """The streams that can be read now; returns early when a child ended or takes more input."""
        ready, _, _ = select.select([self._wake, *self._streams], feeding, [], timeout)
        if self._wake in ready:
            ready.remove(self._wake)
            os.read(self._wake, 4096)
        return ready

    def _read(self, fd: int, *, echo: Callable[[bytes], bool] | None) -> bool:
        """Take what there is; false when nobody hears the rest and no more of it is kept."""
        data = os.read(fd, CAPTURED)
        if not data:
            del self._streams[fd]
            return True
        kept = self._streams[fd]
        kept += data[: CAPTURED - len(kept)]
        if echo is None or echo(data) or len(kept) < CAPTURED:
            return True
        del self._streams[fd]
        return False

    def _feed(self, child: "subprocess.Popen[bytes]", *, stdin: bytes) -> bytes:
        """Write what the child takes without blocking; gives what is left, and closes stdin after it."""
        pipe = child.stdin
        if pipe is None or pipe.closed:
            return b""
        while stdin and select.select([], [pipe], [], 0)[1]:
            try:
                stdin = stdin[os.write(pipe.fileno(), stdin[: select.PIPE_BUF]) :]
            except BrokenPipeError:
                stdin = b""  # it reads no more; its own business
        if not stdin:
            pipe.close()
        return stdin


def _signal_group(group: int, signum: int) -> None:
    try:
        os.killpg(group, signum)
    except (ProcessLookupError, PermissionError):  # macOS says EPERM when only a zombie is left
        return


def _has_ended(pid: int) -> bool:
    """Whether the child has ended, without reaping it; where the system can't say so, no."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return False
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
