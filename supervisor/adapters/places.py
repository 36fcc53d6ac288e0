"""Every directory we use, made 0700 and checked. Owns the layout of the state root; holds no records.

`<home>/run` is a link into the user's runtime directory (tmpfs) where there is one, else a folder: heartbeats and bells
are rewritten every second and need not survive a reboot. Everybody goes through the link, so that processes with and
without XDG_RUNTIME_DIR agree.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Mapping
from typing import Literal

from supervisor.adapters.atomic_file import make_private, temp_name
from supervisor.core.errors import BadState
from supervisor.core.ids import is_uuid, uuid4_of

APP = "supervisor-agents"
_FOLDERS = ("process-matrix", "locks", "transcripts", "prompts", "requests", "logs", "hooks", "forwarding")


class Places:
    """Paths under one state root."""

    def __init__(self, home: str, *, runtime_dir: str | None) -> None:
        self.home = home
        self.matrix = os.path.join(home, "process-matrix")
        self.locks = os.path.join(home, "locks")
        self.transcripts = os.path.join(home, "transcripts")
        self.prompts = os.path.join(home, "prompts")
        self.requests = os.path.join(home, "requests")
        self.logs = os.path.join(home, "logs")
        self.run = os.path.join(home, "run")
        self.heartbeats = os.path.join(self.run, "heartbeats")
        self.bells = os.path.join(self.run, "bells")
        self.hooks = os.path.join(home, "hooks")
        self.proofs = os.path.join(home, "proofs")
        self.forwarding = os.path.join(home, "forwarding")
        self.approvals = os.path.join(home, "approvals")
        self.inboxes = os.path.join(self.run, "inboxes")
        self.review_log = os.path.join(self.logs, "asks.jsonl")
        self.binaries = os.path.join(home, "binaries.json")
        self.settings = os.path.join(home, "settings.toml")
        self.trust = os.path.join(home, "trusted-profiles.toml")
        self._host_id = os.path.join(home, "host-id")
        self._runtime_dir = runtime_dir

    def exists(self) -> bool:
        """Whether the state root is there; raises like `prepare` when it is unsafe."""
        return check_root(self.home)

    def prepare(self) -> None:
        """Make what is missing.

        Raises:
            BadState: the root is unsafe, or cannot be made or written.
        """
        exists = check_root(self.home)
        try:
            if exists and not os.access(self.home, os.W_OK):  # a tool sandbox mounts it read-only, for root too
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), self.home)
            make_private(self.home)
            for name in _FOLDERS:
                make_private(os.path.join(self.home, name))
            self.prepare_run()
        except OSError as error:
            raise BadState(
                f"the state root {self.home} cannot be written: {error.strerror}",
                hint="Free it, or set SUPERVISOR_HOME to a folder of your own",
            ) from None
        check_root(self.home)

    def prepare_run(self) -> None:
        """Make heartbeats and bells, again after a reboot or logout has emptied the runtime directory."""
        if not os.path.lexists(self.run):
            self._make_run()
        target = os.path.realpath(self.run)
        if not os.path.isdir(target):
            try:
                os.mkdir(target, 0o700)
            except OSError:  # the runtime directory itself is gone: from now on a folder of our own
                _replace_link_by_folder(self.run)
        seen = os.stat(self.run)
        if seen.st_uid != os.geteuid() or seen.st_mode & 0o022:
            raise BadState(f"{self.run} leads to a folder that is not yours alone", hint=f"Remove {self.run}")
        make_private(self.heartbeats)
        make_private(self.bells)

    def _make_run(self) -> None:
        base = self._runtime_dir
        try:
            if base and _own_folder(base):
                target = os.path.join(base, f"{APP}-{os.urandom(6).hex()}")
                os.mkdir(target, 0o700)
                return os.symlink(target, self.run)
        except FileExistsError:
            return None  # another process was first
        except OSError:
            pass
        return make_private(self.run)

    def host_id(self) -> str:
        """This host's random id, written on first use: a host name can change or be shared."""
        for _ in range(2):
            try:
                with open(self._host_id, errors="replace") as file:
                    found = file.read(64).strip()
            except FileNotFoundError:
                self._write_host_id()
                continue
            if is_uuid(found):
                return found
        raise BadState(f"{self._host_id} holds no id", hint="Remove it; it is written anew")

    def has_host_id(self) -> bool:
        """Whether anything was ever recorded here by a process of this host."""
        return os.path.lexists(self._host_id)

    def _write_host_id(self) -> None:
        temp = temp_name(self.home, "host-id")
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(fd, "w") as file:
                file.write(f"{uuid4()}\n")
            os.link(temp, self._host_id)
        except FileExistsError:
            pass
        finally:
            os.unlink(temp)


def uuid4() -> str:
    """A random UUID."""
    return uuid4_of(os.urandom(16))


def default_home(env: Mapping[str, str]) -> str:
    """`$SUPERVISOR_HOME`, else the platform's state directory.

    Raises:
        BadState: it is not absolute, or there is no home directory to put it in.
    """
    given = env.get("SUPERVISOR_HOME")
    if given:
        if not os.path.isabs(given):
            raise BadState(f"SUPERVISOR_HOME={given!r} is not an absolute path", hint="Give it with a leading /")
        return os.path.normpath(given)
    home = _user_folder("state", env)
    if not home or os.path.expanduser("~") in ("~", "/"):
        raise BadState("there is no home directory for the state root", hint="Set HOME or SUPERVISOR_HOME")
    return home


def config_folder(env: Mapping[str, str]) -> str:
    """The user's configuration: profiles and settings. Empty when there is no home directory."""
    return _user_folder("config", env)


def _user_folder(kind: Literal["state", "config"], env: Mapping[str, str]) -> str:
    """The platform's folder of that kind; empty when there is no home directory.

    On Linux the XDG base directory specification's two lines: platformdirs would cost every keeper 1.5 MB and every
    start 7 ms. `tests/unit/test_places.py` holds that both agree.
    """
    variable, default = {"state": ("XDG_STATE_HOME", ".local/state"), "config": ("XDG_CONFIG_HOME", ".config")}[kind]
    given = env.get(variable, "")
    if os.path.isabs(given):
        return os.path.join(given, APP)
    if sys.platform == "linux":
        folder = os.path.join(os.path.expanduser("~"), default, APP)
    else:
        import platformdirs

        folder = platformdirs.user_state_dir(APP) if kind == "state" else platformdirs.user_config_dir(APP)
    return folder if os.path.isabs(folder) else ""


def check_root(home: str) -> bool:
    """Whether the root exists, and is a folder of ours that nobody else can write.

    Raises:
        BadState: a symlink, no folder, another user's, or group- or world-writable; with the fix.
    """
    try:
        seen = os.lstat(home)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise BadState(f"the state root {home} cannot be read: {error.strerror}", hint="Set SUPERVISOR_HOME") from None
    if stat.S_ISLNK(seen.st_mode):
        raise BadState(f"the state root {home} is a symlink", hint="Set SUPERVISOR_HOME to the real folder")
    if not stat.S_ISDIR(seen.st_mode):
        raise BadState(f"the state root {home} is no folder", hint="Move it away or set SUPERVISOR_HOME")
    if seen.st_uid != os.geteuid():
        raise BadState(
            f"the state root {home} belongs to user {seen.st_uid}, you are {os.geteuid()}",
            hint="Set SUPERVISOR_HOME to a folder of your own",
        )
    if seen.st_mode & 0o022:
        raise BadState(f"the state root {home} can be written by others", hint=f"Run: chmod 700 '{home}'")
    return True


def _own_folder(path: str) -> bool:
    seen = os.stat(path)
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid() and not seen.st_mode & 0o022


def _replace_link_by_folder(path: str) -> None:
    spare = f"{path}.{os.urandom(4).hex()}"
    os.rename(path, spare)
    os.unlink(spare)
    make_private(path)
