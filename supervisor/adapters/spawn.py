"""The one place where children are started and reaped. argv lists, explicit env, explicit descriptors; no shell.

Owns the Popen objects of this process's children; decides nothing about them.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from supervisor.core.identity import ProcessKey
from supervisor.core.ports import Exit, ProcessTable, Spawned, SpawnFailed, SpawnRequest


class Piped(NamedTuple):
    """A child, and our ends of its standard streams."""

    key: ProcessKey
    stdin: int
    stdout: int
    stderr: int


class SystemSpawner:
    """`Spawner` over Popen (vfork: a spawn takes half a millisecond)."""

    def __init__(self, processes: ProcessTable) -> None:
        self._processes = processes
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def spawn(self, request: SpawnRequest) -> Spawned | SpawnFailed:
        """Start a child; `Spawned` only after its exec has succeeded."""
        stdin = output = None
        try:
            if request.stdin is not None:
                stdin = os.open(request.stdin, os.O_RDONLY | os.O_CLOEXEC)
            if request.output is not None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                output = os.open(request.output, flags if _device(request.output) else flags | os.O_NOFOLLOW, 0o600)
            child = subprocess.Popen(
                request.argv,
                env=request.env,
                cwd=request.cwd,
                stdin=stdin,
                stdout=output,
                stderr=output,
                start_new_session=request.new_session,
            )
        except (OSError, ValueError) as error:
            return SpawnFailed(_why(error, request.argv[0], request.cwd))
        finally:
            for fd in (stdin, output):
                if fd is not None:
                    os.close(fd)
        self._children[child.pid] = child
        key = self._processes.identify(child.pid)
        return Spawned(key or ProcessKey(child.pid, 0))  # no key: a zombie that the platform does not describe

    def spawn_piped(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: str) -> Piped | SpawnFailed:
        """Start a child in a session of its own that we speak to: its three standard streams are pipes of ours."""
        pipe = subprocess.PIPE
        try:
            child = subprocess.Popen(
                argv, env=env, cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, bufsize=0
            )
        except (OSError, ValueError) as error:
            return SpawnFailed(_why(error, argv[0], cwd))
        self._children[child.pid] = child
        assert child.stdin and child.stdout and child.stderr
        fds = [os.dup(stream.fileno()) for stream in (child.stdin, child.stdout, child.stderr)]
        for stream in (child.stdin, child.stdout, child.stderr):
            stream.close()
        return Piped(self._processes.identify(child.pid) or ProcessKey(child.pid, 0), *fds)

    def reap(self) -> Sequence[tuple[int, Exit]]:
        """Every child that has ended, also adopted orphans (we are a subreaper). Never blocks."""
        ended = []
        while True:
            try:
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if info is None:
                    break
                pid, status = os.waitpid(info.si_pid, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            end = _exit(status)
            child = self._children.pop(pid, None)
            if child is not None:  # or Popen's own clean-up would wait for a pid that is not ours any more
                child.returncode = end.code if end.code is not None else -(end.signal or 0)
            ended.append((pid, end))
        return ended


def _exit(status: int) -> Exit:
    code = os.waitstatus_to_exitcode(status)
    return Exit(code=code) if code >= 0 else Exit(signal=-code)


def exit_of_status(status: int) -> Exit:
    """A wait status as the kernel reports it (also through a pidfd)."""
    return _exit(status)


def _device(path: str) -> bool:
    return path.startswith("/dev/")


def _why(error: OSError | ValueError, program: str, cwd: str) -> str:
    if not isinstance(error, OSError):
        return f"{program}: {error}"
    if isinstance(error, FileNotFoundError) and not os.path.isdir(cwd):
        return f"its folder {cwd} does not exist"
    about = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else program
    if about == program and isinstance(error, FileNotFoundError):
        return f"{about} was not found"
    if about == program and isinstance(error, PermissionError):
        return f"{about} may not be executed (or {cwd} not entered)"
    return f"{about}: {error.strerror}"


def run(argv: Sequence[str], *, env: Mapping[str, str], timeout: float, stdin: bytes = b"") -> tuple[int, str, str]:
    """Run a short helper command to its end: (code, stdout, stderr), each bounded to 64 KiB.

    Raises:
        OSError: it cannot be started (or did not end in time: TimeoutError).
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, env=env, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True) as child:
        try:
            output = child.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            # our own child, not reaped: the group is certainly still its. Its output is not waited for: what has left
            # the group may hold it open for ever
            os.killpg(child.pid, signal.SIGKILL)
            raise TimeoutError(f"{argv[0]} did not end within {timeout:g} s") from None
    out, err = (b[:65536].decode(errors="replace") for b in output)
    return child.returncode, out, err


def which(binary: str, *, path: str, cwd: str) -> str | None:
    """The absolute path of an executable file, looked up as the agent's environment would."""
    if "/" in binary:
        candidates = [os.path.join(cwd, binary)]
    else:
        candidates = [os.path.join(folder, binary) for folder in path.split(os.pathsep) if os.path.isabs(folder)]
    return next((c for c in candidates if os.path.isfile(c) and os.access(c, os.X_OK)), None)


def converse(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str, say: bytes, heard: Callable[[bytes], bool], timeout: float
) -> bytes:
    """Run a helper that is spoken to, and end it once `heard` is content with its output (at most 1 MiB of it).

    Raises:
        OSError: it cannot be started (or did not say it in time: TimeoutError).
    """
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    child = subprocess.Popen(argv, env=env, cwd=cwd, stdin=pipe, stdout=pipe, stderr=null, start_new_session=True)
    assert child.stdin and child.stdout
    end, output = time.monotonic() + timeout, b""
    try:
        child.stdin.write(say)
        child.stdin.flush()
        while not heard(output) and len(output) < 1 << 20:
            if not select.select([child.stdout], [], [], max(end - time.monotonic(), 0))[0]:
                raise TimeoutError(f"{argv[0]} did not answer within {timeout:g} s")
            part = os.read(child.stdout.fileno(), 65536)
            if not part:
                break
            output += part
    finally:
        os.killpg(child.pid, signal.SIGKILL)  # our own child, not reaped: the group is certainly still its
        child.stdout.close()
        with contextlib.suppress(OSError):
            child.stdin.close()
        child.wait()
    return output
