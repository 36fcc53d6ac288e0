"""The doctor's checks: facts in, findings out. A list of pure functions; `checkup` does the looking. Reads nothing.

`fail`: something does not work or is unsafe. `warn`: it works worse than it should, or a person should look. `info`:
worth knowing, nothing to do.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from supervisor.adapters.machine import Folder, Kernel, Space
from supervisor.adapters.tmux import OLDEST, recent_enough
from supervisor.core.text import span

Level = Literal["ok", "info", "warn", "fail"]
LEVELS: tuple[Level, ...] = ("ok", "info", "warn", "fail")

MIB = 1024 * 1024
MIN_FREE_BYTES, LOW_FREE_BYTES = 16 * MIB, 512 * MIB  # below: records cannot be written; below: one transcript fills it
LOW_INODES = 1000  # a tree of agents makes a few files each
CLOCK_SLACK_MS = 60_000  # a corrected clock; more is a wrong one
LOW_INSTANCES, LOW_WATCHES = 128, 8192  # the kernel's own defaults: less was taken away by somebody
NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "gluster", "fuse.sshfs", "davfs")
OLDEST_PYTHON = (3, 11)

_VERSION = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+)+(?:[-+][0-9A-Za-z.+-]+)?)")
_PROBE_VARIABLES = re.compile(r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|TMPDIR|TERM|XDG_\w+")


class Finding(Struct, frozen=True):
    """One line of the doctor's report."""

    level: Level
    what: str
    detail: str
    todo: str = ""


class ProfileFacts(Struct, frozen=True, kw_only=True):
    """One profile as looked at: is it valid, where are its programs, what does its probe say.

    `programs` are (name, path or None); `version` is None when it was not probed or said nothing.
    """

    name: str
    origin: str
    path: str
    trusted: bool
    problem: str = ""
    programs: tuple[tuple[str, str | None], ...] = ()
    version: str | None = None
    probe_error: str = ""
    tested: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """The programs that are not on PATH."""
        return tuple(name for name, where in self.programs if where is None)


class Swept(Struct, frozen=True):
    """Something that a dead process left behind, and whether it could be removed."""

    kind: str
    path: str
    removed: bool


class Problem(Struct, frozen=True):
    """An error of ours as a fact."""

    message: str
    hint: str = ""


class Facts(Struct, frozen=True, kw_only=True):
    """Everything that is judged. What could not be looked at has its empty value."""

    uid: int
    home: Folder
    home_problem: Problem | None = None
    home_writable: bool = True
    space: Space | None = None
    folders: tuple[Folder, ...] = ()
    run: Folder | None = None
    run_target: Folder | None = None
    run_space: Space | None = None
    host_id: str | None = None
    wall_ms: int = 0
    monotonic_ns: int = 1
    newest_start_ms: int | None = None
    kernel: Kernel
    tmux: str | None = None
    python: str = "3.11.0"
    executable: str = "python3"
    supervisord: str | None = None
    owners: tuple[str, ...] = ()
    corrupt: tuple[tuple[str, str], ...] = ()
    swept: tuple[Swept, ...] = ()
    without_keeper: tuple[str, ...] = ()
    settings_problem: Problem | None = None
    tasks_problem: Problem | None = None
    profiles: tuple[ProfileFacts, ...] = ()


def judge(facts: Facts) -> tuple[Finding, ...]:
    """Every finding, in the order of the checks."""
    return tuple(finding for check in CHECKS for finding in check(facts))


def _state_root(facts: Facts) -> Iterator[Finding]:
    home, what = facts.home, "state root"
    if facts.home_problem:
        todo = facts.home_problem.hint or "Set SUPERVISOR_HOME to a folder of your own"
        yield Finding("fail", what, facts.home_problem.message, todo)
    elif home.kind is None and facts.home_writable:
        yield Finding("info", what, f"{home.path} is not there yet; the first launch makes it")
    elif not facts.home_writable:
        yield Finding("fail", what, f"{home.path} cannot be written", "Free it, or set SUPERVISOR_HOME")
    elif home.mode & 0o055:
        yield Finding("warn", what, f"{home.path} can be read by others (mode {home.mode:o})", _chmod(home.path))
    else:
        yield Finding("ok", what, home.path)


def _folders(facts: Facts) -> Iterator[Finding]:
    bad = False
    for at in facts.folders:
        if at.kind is None:
            continue
        problem = _folder_problem(at, facts.uid)
        if problem:
            bad = True
            yield problem
    if not bad and any(f.kind for f in facts.folders):
        yield Finding("ok", "folders", "all yours alone")


def _folder_problem(at: Folder, uid: int) -> Finding | None:
    if at.kind != "folder":
        return Finding("fail", "folders", f"{at.path} is a {at.kind}, no folder", f"Move it away: mv '{at.path}' …")
    if at.uid != uid:
        return Finding(
            "fail", "folders", f"{at.path} belongs to user {at.uid}, you are {uid}", "Give it back or move it"
        )
    if at.mode & 0o022:
        return Finding("fail", "folders", f"{at.path} can be written by others (mode {at.mode:o})", _chmod(at.path))
    if at.mode & 0o055:
        return Finding("warn", "folders", f"{at.path} can be read by others (mode {at.mode:o})", _chmod(at.path))
    return None


def _space(facts: Facts) -> Iterator[Finding]:
    at, what = facts.space, "disk"
    if at is None:
        yield Finding("warn", what, "its free space cannot be read")
        return
    free = f"{at.free_bytes // MIB} MiB free"
    if at.free_bytes < MIN_FREE_BYTES:
        yield Finding("fail", what, free, "Free some space: records can hardly be written")
    elif at.free_bytes < LOW_FREE_BYTES:
        yield Finding("warn", what, free, "Free some space, or lower transcripts.max_kib")
    elif at.free_inodes is not None and at.free_inodes < LOW_INODES:
        yield Finding("warn", what, f"{at.free_inodes} inodes left", "Remove files")
    else:
        yield Finding("ok", what, f"{free} ({at.kind})" if at.kind else free)
    if at.kind and at.kind.startswith(NETWORK_FILE_SYSTEMS):
        yield Finding(
            "warn",
            what,
            f"{facts.home.path} is on a network file system ({at.kind}): another host that shares it would be taken "
            "for an earlier boot of this one",
            "Set SUPERVISOR_HOME to a local folder",
        )


def _run(facts: Facts) -> Iterator[Finding]:
    run, target, what = facts.run, facts.run_target, "run directory"
    if run is None or facts.home.kind is None:
        return
    if run.kind is None or target is None or target.kind is None:
        yield Finding("info", what, "heartbeats and bells have no folder at the moment; the next command makes it")
    elif target.kind != "folder" or target.uid != facts.uid or target.mode & 0o022:
        yield Finding("fail", what, f"{run.path} leads to {target.path}, which is not yours alone", f"rm '{run.path}'")
    else:
        kind = facts.run_space.kind if facts.run_space else None
        where = f"{target.path} ({kind})" if kind else target.path
        if kind in ("tmpfs", "ramfs", None):
            yield Finding("ok", what, where)
        else:
            yield Finding("info", what, f"{where}: on disk, there was no runtime directory when it was made")


def _host_id(facts: Facts) -> Iterator[Finding]:
    if facts.home.kind is None:
        return
    if facts.host_id is None:
        yield Finding("info", "host id", "not there yet; the first launch writes it")
        return
    try:
        yield Finding("ok", "host id", str(uuid.UUID(facts.host_id.strip())))
    except ValueError:
        yield Finding("fail", "host id", "the file holds no id", f"Remove {facts.home.path}/host-id")


def _clocks(facts: Facts) -> Iterator[Finding]:
    newest = facts.newest_start_ms
    if facts.monotonic_ns <= 0:
        yield Finding("fail", "clocks", "the monotonic clock cannot be read", "Report it, with the system's name")
    elif newest is not None and newest > facts.wall_ms + CLOCK_SLACK_MS:
        ahead = span(newest - facts.wall_ms)
        yield Finding("warn", "clocks", f"the newest record is {ahead} in the future", "Set the clock (timedatectl)")
    else:
        yield Finding("ok", "clocks", "the wall clock is past every record, the monotonic one runs")


def _kernel(facts: Facts) -> Iterator[Finding]:
    kernel = facts.kernel
    if kernel.pidfd is None:
        yield Finding("info", "kernel", f"{kernel.release}: ends are watched by kqueue, a lost exit status is unknown")
        return
    if not kernel.pidfd:
        yield Finding("warn", "pidfd", f"{kernel.release} has none: ends are polled", "Use Linux 5.3 or newer")
        return
    yield Finding("ok", "pidfd", kernel.release)
    if not kernel.pidfs:
        yield Finding("info", "pidfs", "none (Linux 6.9 has it): a process is known by pid and start time alone")
    if kernel.exit_status is False:
        yield Finding(
            "info",
            "exit status",
            "not kept by the kernel (Linux 6.15 does): how an agent ended is unknown if its keeper died",
        )
    elif kernel.exit_status:
        yield Finding("ok", "exit status", "kept by the kernel also when a keeper dies")
    if not kernel.subreaper:
        yield Finding("warn", "subreaper", "not to be had: helpers that double-fork are found by their marker only")


def _inotify(facts: Facts) -> Iterator[Finding]:
    kernel, what = facts.kernel, "inotify"
    if kernel.inotify_instances is None or kernel.inotify_watches is None:
        return
    limits = f"max_user_instances {kernel.inotify_instances}, max_user_watches {kernel.inotify_watches}"
    if kernel.inotify_exhausted:
        yield Finding(
            "warn", what, f"no instance left ({limits}): views poll", "sudo sysctl fs.inotify.max_user_instances=1024"
        )
    elif kernel.inotify_instances < LOW_INSTANCES:
        yield Finding("warn", what, f"low: {limits}", "sudo sysctl fs.inotify.max_user_instances=1024")
    elif kernel.inotify_watches < LOW_WATCHES:
        yield Finding("warn", what, f"low: {limits}", "sudo sysctl fs.inotify.max_user_watches=65536")
    else:
        yield Finding("ok", what, limits)


def _tmux(facts: Facts) -> Iterator[Finding]:
    oldest = ".".join(map(str, OLDEST))
    if facts.tmux is None:
        yield Finding("info", "tmux", f"not installed: `launch --tmux` needs {oldest} or newer")
    elif not recent_enough(facts.tmux):
        yield Finding("warn", "tmux", f"{facts.tmux} is too old for `launch --tmux`", f"Install {oldest} or newer")
    else:
        yield Finding("ok", "tmux", facts.tmux)


def _python(facts: Facts) -> Iterator[Finding]:
    found = tuple(int(n) for n in re.findall(r"\d+", facts.python)[:2])
    if found < OLDEST_PYTHON:
        yield Finding("fail", "python", f"{facts.python} ({facts.executable})", "Install with Python 3.11 or newer")
    else:
        yield Finding("ok", "python", f"{facts.python} ({facts.executable})")


def _supervisord(facts: Facts) -> Iterator[Finding]:
    others = [o for o in facts.owners if o.replace("_", "-").lower() != "supervisor-agents"]
    if facts.supervisord or others:
        where = facts.supervisord or f"the package `supervisor` also belongs to {', '.join(others)}"
        yield Finding(
            "fail",
            "supervisord",
            f"installed in the same environment ({where}): removing one breaks the other",
            "pip uninstall supervisor-agents here, then: uv tool install supervisor-agents (or pipx)",
        )
    else:
        yield Finding("ok", "supervisord", "not in this environment")


def _records(facts: Facts) -> Iterator[Finding]:
    for path, reason in facts.corrupt:
        fix = f"Look whether it matters, then: rm '{path}'"
        if not path.endswith(".corrupt"):
            fix = "Leave it: use the version of supervisor that wrote it, or see its permissions"
        yield Finding("warn", "records", f"{path} ({reason})", fix)
    for name in facts.without_keeper:
        yield Finding("warn", "records", f"the keeper of {name} is gone", "supervisor reconcile")
    if facts.tasks_problem:
        yield Finding("warn", "tasks", facts.tasks_problem.message, facts.tasks_problem.hint or "Mend the file")
    if not facts.corrupt and not facts.without_keeper and facts.home.kind:
        yield Finding("ok", "records", "all readable, every live agent has its keeper")


def _leftovers(facts: Facts) -> Iterator[Finding]:
    for item in facts.swept:
        if item.removed:
            yield Finding("info", "leftovers", f"removed the {item.kind} of a dead process: {item.path}")
        else:
            yield Finding("warn", "leftovers", f"the {item.kind} of a dead process: {item.path}", f"rm '{item.path}'")


def _settings(facts: Facts) -> Iterator[Finding]:
    if facts.settings_problem:
        todo = facts.settings_problem.hint or "Correct the file"
        yield Finding("fail", "settings", facts.settings_problem.message, todo)
    else:
        yield Finding("ok", "settings", "valid")


def _profiles(facts: Facts) -> Iterator[Finding]:
    for profile in facts.profiles:
        yield judge_profile(profile, missing="info")


def judge_profile(facts: ProfileFacts, *, missing: Level) -> Finding:
    """One profile's finding. `missing` is what a program that is not on PATH counts as."""
    what = f"profile {facts.name}"
    if facts.problem:
        return Finding("fail", what, facts.problem, "Correct the file, or remove it")
    if facts.missing and (facts.trusted or missing == "fail"):
        return Finding(missing, what, f"not installed: {', '.join(facts.missing)} is not on PATH", _install(missing))
    if not facts.trusted:
        todo = f"Read it, then: supervisor profiles trust {facts.name}"
        return Finding("info", what, f"{facts.path} comes from the project and is not trusted, so not used", todo)
    if facts.probe_error:
        return Finding("warn", what, facts.probe_error, "Try it by hand")
    where = facts.programs[0][1] if facts.programs else "valid"
    if facts.version is None:
        return Finding("ok", what, where or "valid")
    if facts.tested and facts.version not in facts.tested:
        tested = ", ".join(facts.tested)
        return Finding("warn", what, f"version {facts.version}, verified with {tested}", "Mostly works; watch its asks")
    return Finding("ok", what, f"version {facts.version} ({where})")


def version_in(output: str) -> str | None:
    """The first thing in a program's answer that looks like a version."""
    match = _VERSION.search(output)
    return match.group(1) if match else None


def probe_environment(env: Mapping[str, str]) -> dict[str, str]:
    """What a version probe gets: enough to run, no key and no identity."""
    return {name: value for name, value in env.items() if _PROBE_VARIABLES.fullmatch(name)}


def worst(findings: Iterable[Finding]) -> Level:
    """The most serious level; `ok` when there is nothing."""
    return max((f.level for f in findings), key=LEVELS.index, default="ok")


def _chmod(path: str) -> str:
    return f"chmod 700 '{path}'"


def _install(missing: Level) -> str:
    return "" if missing == "info" else "Install it, or put its folder on PATH"


CHECKS: tuple[Callable[[Facts], Iterable[Finding]], ...] = (
    _python,
    _supervisord,
    _state_root,
    _folders,
    _space,
    _run,
    _host_id,
    _clocks,
    _kernel,
    _inotify,
    _tmux,
    _settings,
    _records,
    _leftovers,
    _profiles,
)
"""The doctor, as data: adding a check is adding a function."""
