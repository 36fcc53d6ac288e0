"""tmux: open a window, look whether a pane is there, go to it. argv and format strings only; no shell, no control mode.

Owns nothing: the server does. `env` is always the tmux client's (PATH, TMUX, TMUX_TMPDIR): a pane inherits the server's
environment, and values given by `-e` would stand in the process table, so what an agent needs goes another way.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import NoReturn

from msgspec import Struct

from supervisor.adapters.atomic_file import make_private
from supervisor.adapters.spawn import run
from supervisor.core.errors import BadInput, Refused

SESSION = "supervisor"
"""The session that windows are opened in when we are not inside tmux."""

OLDEST = (3, 2)
"""The first version whose `-e`, `-F` and argv handling are the ones relied on here."""

_TIMEOUT_S = 10.0  # a server under load answers in milliseconds; one that is stopped never does
_HASHES = re.compile(r"(#+)(?!\[|#)")


class Pane(Struct, frozen=True):
    """A pane, by the id that its server never uses twice, and the server's socket."""

    pane_id: str
    session: str
    socket: str


def available(env: Mapping[str, str]) -> str | None:
    """The version of the tmux on PATH (`3.3a`), None when there is none."""
    try:
        code, out, _ = run(["tmux", "-V"], env=env, timeout=_TIMEOUT_S)
    except OSError:
        return None
    return out.strip().rpartition(" ")[2] if code == 0 and out.strip() else None


def recent_enough(version: str) -> bool:
    """Whether a version (`3.2a`, `next-3.4`, `master`) is one we work with; an unreadable one is taken to be new."""
    match = re.search(r"(\d+)\.(\d+)", version)
    return match is None or (int(match[1]), int(match[2])) >= OLDEST


def new_window(argv: Sequence[str], *, name: str, cwd: str, env: Mapping[str, str], socket: str | None = None) -> Pane:
    """Run `argv` in a new window: of the session we are in, else of the session `supervisor` (made when missing).

    The window is not made the current one. `socket`: that server instead of the one we are in or the default one. A
    server that is started by this inherits `env` without our own variables: who launched one agent is no news to the
    next.

    Raises:
        Refused: tmux is not there or says no.
    """
    here = _server_of(env)
    if socket is None and here and server_alive(here, env=env):
        done = _query(here, ["new-window", *_window(argv, name, cwd)], env)
    else:
        env = {k: v for k, v in env.items() if k not in ("TMUX", "TMUX_PANE") and not k.startswith("SUPERVISOR_")}
        window = ["new-window", "-t", f"={SESSION}:", *_window(argv, name, cwd)]
        session = ["new-session", "-s", SESSION, *_window(argv, name, cwd)]
        for words in (window, session, window):  # a session that somebody makes meanwhile is used as well
            done = _query(socket, words, env)
            if done[0] == 0:
                break
    return _opened("window", done)


def split(argv: Sequence[str], *, beside: Pane, cwd: str, env: Mapping[str, str]) -> Pane:
    """Run `argv` in a new pane of the same window; all of its panes get the same room.

    Raises:
        Refused: there is no room, or tmux says no.
    """
    done = _query(beside.socket, ["split-window", "-t", beside.pane_id, *_pane(argv, cwd)], env)
    pane = _opened("pane", done)
    _query(beside.socket, ["select-layout", "-t", pane.pane_id, "tiled"], env)
    return pane


def title(pane: Pane, name: str, *, env: Mapping[str, str]) -> None:
    """Show a name in the pane's border, whatever title its program sets. tmux expands nothing of it."""
    text, at = _whole(_literal(name)), ["-t", pane.pane_id]
    words = ["set-option", "-p", *at, "@supervisor_agent", _whole(name), ";"]
    words += ["set-option", "-w", *at, "pane-border-status", "top", ";"]
    words += ["set-option", "-w", *at, "pane-border-format", " #{q/h:@supervisor_agent} ", ";"]
    _query(pane.socket, [*words, "select-pane", *at, "-T", text], env)


def _opened(what: str, done: tuple[int, str, str]) -> Pane:
    code, out, error = done
    parts = out.strip("\n").split(":", 2)
    if code != 0 or len(parts) != 3:
        raise Refused(f"tmux opened no {what}: {error.strip() or 'no answer'}", hint="Run: supervisor doctor")
    return Pane(*parts)


def pane_pid(pane: str, socket: str | None, *, env: Mapping[str, str]) -> int | None:
    """The process that a pane was opened for; None when it has ended, or pane, server or tmux are gone.

    A restarted server begins at %0 again: whether the pane is still the same one shows in this pid.
    """
    try:
        code, out, _ = _query(socket, ["list-panes", "-a", "-F", "#{pane_id}:#{pane_dead}:#{pane_pid}"], env)
    except Refused:
        return None
    rows = [line.split(":") for line in out.splitlines()] if code == 0 else []
    return next((int(pid) for pane_id, dead, pid in rows if (pane_id, dead) == (pane, "0")), None)


def server_alive(socket: str | None, *, env: Mapping[str, str]) -> bool:
    """Whether a server answers at the socket."""
    try:
        return _query(socket, ["list-sessions", "-F", "#{session_id}"], env)[0] == 0
    except Refused:
        return False


def is_inside(socket: str | None, env: Mapping[str, str]) -> bool | None:
    """True: we are in a pane of that server; False: in none at all; None: in another server's."""
    here = _server_of(env)
    if here is None:
        return False
    return socket is None or os.path.realpath(here) == os.path.realpath(socket) or None


def attach(pane: str, socket: str | None, inside: bool, *, env: Mapping[str, str]) -> None:
    """Go to the pane. Inside its server the client is switched; outside this process becomes `tmux attach`.

    Raises:
        Refused: tmux says no, or is not there.
    """
    go = ["select-window", "-t", pane, ";", "select-pane", "-t", pane, ";"]
    if inside:
        code, _, error = _query(socket, [*go, "switch-client", "-t", pane], env)
        if code != 0:
            raise Refused(f"tmux does not go to pane {pane}: {error.strip()}")
        return
    _become(_client(socket, [*go, "attach-session", "-t", pane]), env)


def message_argv(pane: str, text: str, *, env: Mapping[str, str]) -> tuple[str, ...]:
    """The command that shows a line in the status bar of whoever looks at the pane's server. tmux expands nothing."""
    harmless = _literal(text.replace("#[", "# [")).replace("%", "%%")
    return tuple(_client(_server_of(env), ["-u", "display-message", "-d", "5000", "-t", pane, "--", _whole(harmless)]))


def popup_argv(pane: str, argv: Sequence[str], *, env: Mapping[str, str]) -> tuple[str, ...]:
    """The command that runs `argv` above the panes of whoever looks at the pane's server; it ends with the popup."""
    words = ["-u", "display-popup", "-E", "-t", pane, "-w", "90%", "-h", "80%", "--", *map(_whole, argv)]
    return tuple(_client(_server_of(env), words))


def _become(argv: list[str], env: Mapping[str, str]) -> NoReturn:
    try:
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        raise Refused(f"tmux cannot be started: {error.strerror}", hint="Install tmux, or set PATH") from None


def _window(argv: Sequence[str], name: str, cwd: str) -> list[str]:
    """The common part of `new-window` and `new-session`."""
    return ["-n", _whole(_literal(name)), *_pane(argv, cwd)]


def _pane(argv: Sequence[str], cwd: str) -> list[str]:
    """What every new pane has; one word alone would be given to a shell."""
    if not argv:
        raise ValueError("nothing to run")
    words = argv if len(argv) > 1 else ("nice", "-n", "0", "--", *argv)
    report = ["-d", "-P", "-F", "#{pane_id}:#{session_name}:#{socket_path}"]  # tmux allows no colon in session names
    return [*map(_whole, [*report, "-c", _literal(cwd), "--"]), *map(_whole, words)]


def _literal(text: str) -> str:
    """Text that tmux would expand as a format, so that it does not. `#[` is left alone by tmux itself."""
    return _HASHES.sub(r"\1\1", text)


def _whole(word: str) -> str:
    """A word at whose end tmux would see the `;` between two commands."""
    return f"{word[:-1]}\\;" if word.endswith(";") else word


def socket_path(raw: str, env: Mapping[str, str]) -> str:
    """A socket as the user names it: a path (`tmux -S`), or a name in tmux's own folder (`tmux -L`), made when missing.

    Raises:
        BadInput: it names none. OSError: the folder cannot be made.
    """
    if not raw or raw in (".", ".."):
        raise BadInput("--tmux-socket names no socket", hint="Give a path as for tmux -S, or a name as for tmux -L")
    if "/" in raw:
        return os.path.abspath(raw)
    folder = os.path.join(os.path.realpath(env.get("TMUX_TMPDIR") or "/tmp"), f"tmux-{os.geteuid()}")
    make_private(folder)
    return os.path.join(folder, raw)


def _server_of(env: Mapping[str, str]) -> str | None:
    """The socket of the server that we are in: `$TMUX` is `socket,pid,session`."""
    return env.get("TMUX", "").rsplit(",", 2)[0] or None


def _client(socket: str | None, words: Sequence[str]) -> list[str]:
    return ["tmux", *(["-S", socket] if socket else []), *words]


def _query(socket: str | None, words: Sequence[str], env: Mapping[str, str]) -> tuple[int, str, str]:
    try:
        return run(_client(socket, ["-u", *words]), env=env, timeout=_TIMEOUT_S)
    except TimeoutError:
        raise Refused("tmux does not answer", hint="See whether its server is stopped") from None
    except OSError as error:
        raise Refused(f"tmux cannot be started: {error.strerror}", hint="Install tmux, or set PATH") from None
