"""The demo agent's session files: one conversation, one file of JSON lines, only ever appended to.

A file belongs to the demo agents that started or resumed that conversation. Never runs anything, never
prints, and never makes a file for a conversation that is to be resumed.
"""

import errno
import json
import os
import stat
from collections.abc import Iterable, Mapping
from typing import NamedTuple

LONGEST_ID = 200  # bytes
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!~*'()")


class Refused(NamedTuple):
    why: str


def folder(env: Mapping[str, str]) -> str:
    """Where this user's sessions are."""
    if given := env.get("SUPERVISOR_DEMO_DIR"):
        return given
    if home := env.get("SUPERVISOR_HOME"):
        return os.path.join(home, "demo-sessions")
    return os.path.expanduser("~/.supervisor-demo")


def encode(session_id: str) -> str | Refused:
    """The id as a file name, as encodeURIComponent writes it (urllib's quote is slow to import)."""
    try:
        raw = session_id.encode()
    except UnicodeEncodeError:
        return Refused(f"can't use session ID {session_id!r}: it is not UTF-8")
    if session_id in ("", ".", ".."):
        return Refused(f"can't use session ID {session_id!r}: it is not a name")
    if len(raw) > LONGEST_ID:
        return Refused(f"can't use session ID {session_id[:40]!r}…: it is longer than {LONGEST_ID} bytes")
    if any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in session_id):
        return Refused(f"can't use session ID {session_id!r}: it holds control characters")
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in raw)


def last_turn(lines: Iterable[bytes]) -> int:
    """The number of the last prompt; 0 when there was none."""
    turn = 0
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue  # torn: the agent that wrote it was killed in the middle
        if isinstance(record, dict) and record.get("type") == "prompt" and type(record.get("turn")) is int:
            turn = max(turn, record["turn"])
    return turn


class Session:
    """One open conversation. Changed only by its agent: `prompt` moves the turn on, all of it appends."""

    def __init__(self, session_id: str, *, fd: int, turn: int, torn: bool) -> None:
        self.session_id = session_id
        self.turn = turn
        self._fd = fd
        self._torn = torn

    def prompt(self, text: str) -> None:
        self.turn += 1
        self.append({"type": "prompt", "text": text, "turn": self.turn})

    def tool(self, command: str, *, code: int | None, output: str) -> None:
        self.append({"type": "tool", "command": command, "code": code, "output": output})

    def end(self, code: int) -> None:
        self.append({"type": "end", "code": code})

    def append(self, record: dict[str, object]) -> None:
        # ASCII JSON: a byte of a prompt that is not UTF-8 is kept as the lone surrogate that stands for it
        data = (json.dumps(record, separators=(",", ":")) + "\n").encode("ascii")
        data = b"\n" + data if self._torn else data
        self._torn = True  # until the whole line is in the file
        while data:
            data = data[os.write(self._fd, data) :]
        self._torn = False


def start(where: str, *, session_id: str, cwd: str, pid: int, model: str | None) -> Session | Refused:
    """Make the file of a new conversation; refused when there is one already."""
    name = encode(session_id)
    if isinstance(name, Refused):
        return name
    _make_private(where)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        fd = os.open(_path(where, name), flags, 0o600)
    except FileExistsError:
        return Refused(f"session ID {session_id} is already in use")
    os.fchmod(fd, 0o600)  # a tight umask takes bits away
    session = Session(session_id, fd=fd, turn=0, torn=False)
    header: dict[str, object] = {"type": "session", "session_id": session_id, "cwd": cwd, "pid": pid}
    session.append(header if model is None else header | {"model": model})
    return session


def resume(where: str, *, session_id: str) -> Session | Refused:
    """Open the file of a conversation to go on with, and touch it; refused when there is none."""
    name = encode(session_id)
    if isinstance(name, Refused):
        return name
    path = _path(where, name)
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return Refused(f"no conversation found with session ID: {session_id}")
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", path)
    size = os.fstat(fd).st_size
    torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
    with open(fd, "rb", closefd=False) as lines:
        turn = last_turn(lines)
    os.utime(fd)  # on a terminal nobody reads what it says: its session shows in the file, as with a start
    return Session(session_id, fd=fd, turn=turn, torn=torn)


def _path(where: str, name: str) -> str:
    return os.path.join(where, name + ".jsonl")


def _make_private(where: str) -> None:
    """Make the folder, and any above it that is missing, for this user alone."""
    if os.path.isdir(where):
        return
    above = os.path.dirname(os.path.abspath(where))
    if above != where:
        _make_private(above)
    try:
        os.mkdir(where, 0o700)
    except FileExistsError:
        return
    os.chmod(where, 0o700)  # a tight umask takes bits away
