"""A keeper-to-be, forked before the command line is loaded, so that it never weighs what only a launcher needs.

Owns the socket to it. Until it is sown it holds nothing of the terminal, and it ends when its launcher does.
"""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Sequence
from typing import NoReturn

import msgspec

from supervisor.core.entry import Entry
from supervisor.runtime.compose import Context, from_environment, inside_agent
from supervisor.runtime.forking import Fill, be_keeper, fork_keeper
from supervisor.runtime.intents import Draft, start_all

_LENGTH = 8
_MAX_FDS = 4
_Packed = tuple[Entry, dict[bytes, bytes], bytes | None, Entry | None]

_planted: list[socket.socket] = []
"""At most one: the socket to the keeper-to-be of this process."""


def plant_for(words: Sequence[str]) -> None:
    """Plant, if a launch with this command line is going to be detached."""
    if "--detach" in words or inside_agent():
        plant()


def plant() -> None:
    """Fork the keeper-to-be of this launcher. Without one (a full process table) `sow` forks later."""
    ours, theirs = socket.socketpair()
    gc.freeze()
    try:
        middle = os.fork()
    except OSError:
        gc.unfreeze()
        ours.close()
        theirs.close()
        return
    if middle == 0:
        # forked twice: an agent's CLI ends all its descendants with a tool call, and a keeper must not be one
        if os.fork() == 0:
            ours.close()
            _wait(theirs)
        os._exit(0)
    gc.unfreeze()
    theirs.close()
    os.waitpid(middle, 0)
    _planted.append(ours)


def sow(context: Context, drafts: Sequence[Draft], *, keep: tuple[int, ...]) -> int:
    """Start a detached keeper with these agents; the result is the descriptor of its news.

    `keep` are descriptors (locks) that the keeper shares and closes once its intents are on disk.
    """
    seed = _planted.pop() if _planted else None
    if seed is not None:
        with seed:
            news = _hand_over(seed, drafts, keep)
        if news is not None:
            return news
    return fork_keeper(context, _fill(context, drafts), keep=keep)


def _hand_over(seed: socket.socket, drafts: Sequence[Draft], keep: tuple[int, ...]) -> int | None:
    """None: the keeper-to-be is dead, and has written nothing."""
    reader, writer = os.pipe()
    data = msgspec.msgpack.encode([_packed(d) for d in drafts])
    try:
        socket.send_fds(seed, [len(data).to_bytes(_LENGTH, "big")], [writer, *keep])
        seed.sendall(data)
        return reader
    except OSError:  # it acts only on a whole message
        os.close(reader)
        return None
    finally:
        os.close(writer)


def _fill(context: Context, drafts: Sequence[Draft]) -> Fill:
    return lambda keeper, report: start_all(context, drafts, keeper, report)


def _wait(launcher: socket.socket) -> NoReturn:
    """In the keeper-to-be: be the keeper of what is handed over, or end with the launcher."""
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.close(null)
        found = _receive(launcher)
        if found is not None:
            drafts, (writer, *keep) = found
            context = from_environment()
            be_keeper(context, _fill(context, drafts), writer, tuple(keep))
    finally:
        os._exit(1)


def _receive(launcher: socket.socket) -> tuple[list[Draft], list[int]] | None:
    header, fds, _, _ = socket.recv_fds(launcher, _LENGTH, _MAX_FDS)
    if len(header) < _LENGTH or not fds:
        return None
    size, data = int.from_bytes(header, "big"), bytearray()
    while len(data) < size:
        part = launcher.recv(min(size - len(data), 1 << 20))
        if not part:
            return None
        data += part
    return [_unpacked(p) for p in msgspec.msgpack.decode(data, type=list[_Packed])], fds


def _packed(draft: Draft) -> _Packed:
    """Variables may hold bytes that are no UTF-8."""
    env = {os.fsencode(name): os.fsencode(value) for name, value in draft.env.items()}
    return draft.entry, env, draft.prompt, draft.before


def _unpacked(packed: _Packed) -> Draft:
    entry, env, prompt, before = packed
    return Draft(entry, {os.fsdecode(name): os.fsdecode(value) for name, value in env.items()}, prompt, before)
