"""The doctor's checks: facts in, findings out. A list of pure functions; `checkup` does the looking. Reads nothing.

Those of the state root and its records are here, the others in `machine_checks` and `profile_checks`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator

from supervisor.adapters.machine import Folder
from supervisor.runtime import machine_checks as machine
from supervisor.runtime.findings import Facts, Finding
from supervisor.runtime.profile_checks import judge_profile

MIB = 1024 * 1024
MIN_FREE_BYTES, LOW_FREE_BYTES = 16 * MIB, 512 * MIB  # below: records cannot be written; below: one transcript fills it
LOW_INODES = 1000  # a tree of agents makes a few files each
NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "gluster", "fuse.sshfs", "davfs")


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


def _chmod(path: str) -> str:
    return f"chmod 700 '{path}'"


def _profiles(facts: Facts) -> Iterator[Finding]:
    for profile in facts.profiles:
        yield judge_profile(profile, missing="info")


CHECKS: tuple[Callable[[Facts], Iterable[Finding]], ...] = (
    machine.python,
    machine.supervisord,
    _state_root,
    _folders,
    _space,
    _run,
    _host_id,
    machine.clocks,
    machine.kernel,
    machine.inotify,
    machine.tmux,
    _settings,
    _records,
    _leftovers,
    _profiles,
)
"""The doctor, as data: adding a check is adding a function."""
