"""`supervisor doctor`: each judgement on given facts, and the looking and sweeping on a real state root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from supervisor.adapters.machine import Folder, Kernel, Space
from supervisor.core.entry import KeeperRef
from supervisor.core.identity import ProcessKey, ProcessRef
from supervisor.core.liveness import Beat
from supervisor.runtime.checks import LOW_FREE_BYTES, MIN_FREE_BYTES, judge
from supervisor.runtime.checkup import look
from supervisor.runtime.compose import Context
from supervisor.runtime.findings import Facts, Finding, Problem, ProfileFacts, Swept, worst
from supervisor.runtime.profile_checks import judge_profile, version_in
from supervisor.testing import make_entry

HOME = "/state"
NOBODY = 2**22 - 3  # above the default pid_max of every test machine: no such process


def folder(path: str = HOME, **changes: Any) -> Folder:
    return replace(Folder(path=path, kind="folder", uid=1000, mode=0o700), **changes)


def facts(**changes: Any) -> Facts:
    """A machine without fault."""
    good = Facts(
        uid=1000,
        home=folder(),
        space=Space(free_bytes=10**11, free_inodes=10**6, kind="ext4"),
        folders=(folder(f"{HOME}/process-matrix"), folder(f"{HOME}/locks")),
        run=folder(f"{HOME}/run", kind="link"),
        run_target=folder("/run/user/1000/x"),
        run_space=Space(free_bytes=10**9, free_inodes=10**5, kind="tmpfs"),
        host_id="3f8e1c2a-9f0d-4f7e-8d62-1f0a7a7a1b11\n",
        wall_ms=10_000_000,
        monotonic_ns=5,
        kernel=Kernel(
            release="Linux 6.18",
            pidfd=True,
            pidfs=True,
            exit_status=True,
            subreaper=True,
            inotify_instances=128,
            inotify_watches=65536,
            inotify_exhausted=False,
        ),
        tmux="3.4",
        python="3.12.1",
    )
    return replace(good, **changes)


def found(given: Facts, what: str) -> list[Finding]:
    return [f for f in judge(given) if f.what == what]


def kernel(**changes: Any) -> Facts:
    return facts(kernel=replace(facts().kernel, **changes))


def test_a_machine_without_fault_has_nothing_but_ok() -> None:
    assert {f.level for f in judge(facts())} == {"ok"}
    assert worst(judge(facts())) == "ok"


@pytest.mark.parametrize(
    ("given", "what", "level", "said"),
    [
        (facts(home_problem=Problem("it is a symlink", "Set it")), "state root", "fail", "symlink"),
        (facts(home=folder(kind=None)), "state root", "info", "not there yet"),
        (facts(home_writable=False), "state root", "fail", "cannot be written"),
        (facts(home=folder(kind=None), home_writable=False), "state root", "fail", "cannot be written"),
        (facts(home=folder(mode=0o755)), "state root", "warn", "read by others (mode 755)"),
        (facts(folders=(folder("/f", mode=0o770),)), "folders", "fail", "written by others (mode 770)"),
        (facts(folders=(folder("/f", mode=0o750),)), "folders", "warn", "read by others (mode 750)"),
        (facts(folders=(folder("/f", uid=0),)), "folders", "fail", "belongs to user 0, you are 1000"),
        (facts(folders=(folder("/f", kind="link"),)), "folders", "fail", "is a link, no folder"),
        (facts(folders=(folder("/f", kind="file"),)), "folders", "fail", "is a file, no folder"),
        (facts(space=None), "disk", "warn", "cannot be read"),
        (facts(space=Space(free_bytes=MIN_FREE_BYTES - 1, free_inodes=9999, kind=None)), "disk", "fail", "15 MiB free"),
        (facts(space=Space(free_bytes=MIN_FREE_BYTES, free_inodes=9999, kind=None)), "disk", "warn", "16 MiB free"),
        (facts(space=Space(free_bytes=LOW_FREE_BYTES, free_inodes=9999, kind=None)), "disk", "ok", "512 MiB free"),
        (facts(space=Space(free_bytes=10**11, free_inodes=999, kind=None)), "disk", "warn", "999 inodes left"),
        (facts(space=Space(free_bytes=10**11, free_inodes=None, kind="btrfs")), "disk", "ok", "(btrfs)"),
        (facts(space=Space(free_bytes=10**11, free_inodes=9999, kind="nfs4")), "disk", "warn", "network file system"),
        (facts(run=folder(kind=None), run_target=None), "run directory", "info", "the next command makes it"),
        (facts(run_target=folder(kind=None)), "run directory", "info", "the next command makes it"),
        (facts(run_target=folder("/t", mode=0o777)), "run directory", "fail", "not yours alone"),
        (facts(run_target=folder("/t", uid=0)), "run directory", "fail", "not yours alone"),
        (
            facts(run_space=Space(free_bytes=9, free_inodes=9, kind="ext4")),
            "run directory",
            "info",
            "no runtime directory",
        ),
        (facts(host_id=None), "host id", "info", "not there yet"),
        (facts(host_id="nonsense"), "host id", "fail", "holds no id"),
        (facts(monotonic_ns=0), "clocks", "fail", "monotonic"),
        (facts(newest_start_ms=10_000_000 + 3_600_000), "clocks", "warn", "1h 00m in the future"),
        (facts(newest_start_ms=10_000_000 + 60_000), "clocks", "ok", ""),
        (kernel(pidfd=False), "pidfd", "warn", "ends are polled"),
        (kernel(pidfd=None), "kernel", "info", "kqueue"),
        (kernel(pidfs=False), "pidfs", "info", "pid and start time"),
        (kernel(exit_status=False), "exit status", "info", "unknown if its keeper died"),
        (kernel(subreaper=False), "subreaper", "warn", "double-fork"),
        (kernel(inotify_instances=127), "inotify", "warn", "low: max_user_instances 127"),
        (kernel(inotify_watches=8191), "inotify", "warn", "max_user_watches 8191"),
        (kernel(inotify_exhausted=True), "inotify", "warn", "no instance left"),
        (facts(tmux=None), "tmux", "info", "not installed"),
        (facts(tmux="3.1c"), "tmux", "warn", "too old"),
        (facts(tmux="3.2a"), "tmux", "ok", "3.2a"),
        (facts(tmux="next-3.6"), "tmux", "ok", "next-3.6"),
        (facts(tmux="master"), "tmux", "ok", "master"),
        (facts(python="3.10.9"), "python", "fail", "3.10.9"),
        (facts(supervisord="/s/supervisord.py"), "supervisord", "fail", "/s/supervisord.py"),
        (facts(owners=("supervisor", "supervisor-agents")), "supervisord", "fail", "also belongs to supervisor"),
        (facts(owners=("supervisor_agents",)), "supervisord", "ok", "not in"),
        (facts(corrupt=(("/m/x.json.corrupt", "truncated"),)), "records", "warn", "x.json.corrupt (truncated)"),
        (facts(without_keeper=("lead",)), "records", "warn", "the keeper of lead is gone"),
        (facts(swept=(Swept("bell", "/b/k", True),)), "leftovers", "info", "removed the bell of a dead process: /b/k"),
        (facts(swept=(Swept("bell", "/b/k", False),)), "leftovers", "warn", "/b/k"),
        (facts(settings_problem=Problem("f: bad", "Bounds")), "settings", "fail", "f: bad"),
        (facts(tasks_problem=Problem("tasks.json: bad", "Mend it")), "tasks", "warn", "tasks.json: bad"),
    ],
)
def test_each_fact_is_judged(given: Facts, what: str, level: str, said: str) -> None:
    findings = found(given, what)
    assert level in {f.level for f in findings}
    assert any(said in f.detail for f in findings if f.level == level)
    assert all(f.todo for f in findings if f.level in ("warn", "fail") and f.what not in ("disk", "subreaper"))


def test_a_bad_folder_is_not_called_fine_as_well() -> None:
    assert [f.level for f in found(facts(folders=(folder("/f", mode=0o770), folder("/g"))), "folders")] == ["fail"]


def test_without_a_state_root_nothing_is_said_of_what_is_in_it() -> None:
    nothing = facts(home=folder(kind=None), folders=(), run=folder(kind=None), run_target=None, host_id=None)
    assert {f.what for f in judge(nothing)}.isdisjoint({"folders", "run directory", "host id", "records"})


def profile(**changes: Any) -> ProfileFacts:
    return replace(ProfileFacts(name="x", origin="shipped", path="/p/x.toml", trusted=True), **changes)


@pytest.mark.parametrize(
    ("given", "missing", "level"),
    [
        (profile(problem="bad"), "info", "fail"),
        (profile(programs=(("x", None),)), "info", "info"),
        (profile(programs=(("x", None),)), "fail", "fail"),
        (profile(programs=(("x", None),), trusted=False), "fail", "fail"),
        (profile(trusted=False), "fail", "info"),
        (profile(programs=(("x", "/b/x"),), version="1.0", tested=("1.0",)), "fail", "ok"),
        (profile(programs=(("x", "/b/x"),), version="1.1", tested=("1.0",)), "fail", "warn"),
        (profile(programs=(("x", "/b/x"),), version="1.1"), "fail", "ok"),
        (profile(probe_error="x ended with 1"), "fail", "warn"),
        (profile(), "fail", "ok"),
    ],
)
def test_a_profile_is_judged(given: ProfileFacts, missing: Any, level: str) -> None:
    assert judge_profile(given, missing=missing).level == level


def test_an_agent_that_is_not_installed_never_fails_the_doctor() -> None:
    assert worst(judge(facts(profiles=(profile(programs=(("x", None),)),)))) == "info"


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("2.1.332 (Claude Code)\n", "2.1.332"),
        ("codex-cli 0.171.0\n", "0.171.0"),
        ("v1.18.33", "1.18.33"),
        ("tool 1.2.3-beta.4+x", "1.2.3-beta.4+x"),
        ("warning: node 18\n0.61.0\n", "0.61.0"),
        ("no number", None),
        ("", None),
    ],
)
def test_a_version_is_found_in_what_a_program_says(said: str, version: str | None) -> None:
    assert version_in(said) == version


# Looking. Everything below works on a real state root.


@pytest.fixture
def context(home: Path, tmp_path: Path) -> Context:
    made = Context({**os.environ, "PATH": "/usr/bin:/bin"}, cwd=str(tmp_path))
    made.prepare()
    return made


def gone_keeper(context: Context, keeper_id: str) -> KeeperRef:
    return KeeperRef(keeper_id, ProcessRef(context.processes.machine(), ProcessKey(NOBODY, 1)))


def our_keeper(context: Context, keeper_id: str) -> KeeperRef:
    key = context.processes.identify(os.getpid())
    assert key is not None
    return KeeperRef(keeper_id, ProcessRef(context.processes.machine(), key))


def beat_of(context: Context, keeper: KeeperRef, *, age_s: float) -> Path:
    now = context.clock
    context.parts.beats.beat(
        Beat(
            keeper_id=keeper.keeper_id,
            pid=keeper.process.key.pid,
            start_ticks=keeper.process.key.start_ticks,
            boot_id=keeper.process.machine.boot_id,
            host_id=keeper.process.machine.host_id,
            beat=1,
            updated_at=now.wall_ms() - int(age_s * 1000),
            monotonic_ns=now.monotonic_ns() - int(age_s * 1e9),
        )
    )
    return Path(context.places.heartbeats, f"{keeper.keeper_id}.json")


def bell_of(context: Context, keeper_id: str, *, age_s: float) -> Path:
    path = Path(context.places.bells, keeper_id)
    os.mkfifo(path, 0o600)
    old = time.time() - age_s
    os.utime(path, (old, old))
    return path


def temp_file(folder_path: str, *, pid: int, age_s: float) -> Path:
    path = Path(folder_path, f".worker-x.json.{pid}.0.tmp")
    path.write_text("{")
    old = time.time() - age_s
    os.utime(path, (old, old))
    return path


def swept(context: Context) -> set[str]:
    return {s.path for s in look(context).swept if s.removed}


def test_looking_at_a_fresh_root_finds_no_fault(context: Context) -> None:
    context.places.host_id()
    findings = judge(look(context))
    assert worst([f for f in findings if not f.what.startswith("profile ")]) in ("ok", "info")
    assert [f for f in findings if f.what == "records"][0].level == "ok"


def test_looking_at_a_root_that_is_not_there_makes_none(home: Path, tmp_path: Path) -> None:
    env = {**os.environ, "SUPERVISOR_HOME": str(home / "later")}
    seen = look(Context(env, cwd=str(tmp_path)))
    assert not (home / "later").exists()
    assert seen.home.kind is None
    assert seen.kernel.release != ""


def test_looking_at_an_unsafe_root_touches_nothing_in_it(context: Context, home: Path) -> None:
    leftover = temp_file(context.places.matrix, pid=NOBODY, age_s=3600)
    home.chmod(0o777)
    seen = look(context)
    home.chmod(0o700)
    assert seen.home_problem is not None
    assert leftover.exists()
    assert found_level(seen, "state root") == "fail"


def found_level(seen: Facts, what: str) -> str:
    return worst(f for f in judge(seen) if f.what == what)


def test_every_folder_of_the_root_is_looked_at(context: Context) -> None:
    for path in (context.places.transcripts, context.places.bells):
        os.chmod(path, 0o750)
        assert found_level(look(context), "folders") == "warn"
        os.chmod(path, 0o700)
    assert found_level(look(context), "folders") == "ok"


def test_a_folder_replaced_by_a_link_is_a_fault(context: Context, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    os.rmdir(context.places.transcripts)
    os.symlink(tmp_path / "elsewhere", context.places.transcripts)
    assert found_level(look(context), "folders") == "fail"


def test_a_corrupt_record_is_set_aside_and_named_then_and_later(context: Context) -> None:
    path = Path(context.places.matrix, "worker-x.json")
    path.write_text("{")
    first = look(context)
    assert [p for p, _ in first.corrupt] == [f"{path}.corrupt"]
    assert first.corrupt[0][1] != "set aside earlier"
    again = look(Context(context.env, cwd=context.cwd))
    assert again.corrupt == ((f"{path}.corrupt", "set aside earlier"),)


def test_tasks_that_cannot_be_read_are_told_of(context: Context) -> None:
    path = Path(context.places.home, "tasks.json")
    path.write_text("")
    (told,) = found(look(context), "tasks")
    assert (told.level, str(path) in told.detail, told.todo) == ("warn", True, "Mend or remove the file; then set them")


def test_a_record_of_a_newer_version_is_named_and_left_alone(context: Context) -> None:
    path = Path(context.places.matrix, "worker-x.json")
    path.write_text('{"schema": 99}')
    facts_now = look(context)
    assert [p for p, _ in facts_now.corrupt] == [str(path)]
    assert [f.todo.split(":")[0] for f in found(facts_now, "records")] == ["Leave it"]
    assert path.read_text() == '{"schema": 99}'


def test_an_agent_whose_keeper_is_gone_is_named(context: Context) -> None:
    context.store.create(make_entry("lost", keeper=gone_keeper(context, "k1")))
    context.store.create(make_entry("kept", keeper=our_keeper(context, "k2")))
    context.store.create(make_entry("over", status="closed", keeper=gone_keeper(context, "k3")))
    assert look(context).without_keeper == ("lost",)


def test_a_keeper_on_another_host_is_not_called_gone(context: Context) -> None:
    context.store.create(make_entry("far"))
    assert look(context).without_keeper == ()


def test_a_temp_file_of_a_dead_writer_is_removed(context: Context) -> None:
    dead = temp_file(context.places.matrix, pid=NOBODY, age_s=3600)
    assert swept(context) == {str(dead)}
    assert not dead.exists()


def test_a_temp_file_of_a_live_writer_or_a_young_one_stays(context: Context) -> None:
    live = temp_file(context.places.matrix, pid=os.getpid(), age_s=3600)
    young = temp_file(context.places.locks, pid=NOBODY, age_s=1)
    assert swept(context) == set()
    assert live.exists()
    assert young.exists()


def test_files_that_are_none_of_ours_stay(context: Context, home: Path) -> None:
    strange = home / ".notes.tmp"
    strange.write_text("mine")
    old = time.time() - 9999
    os.utime(strange, (old, old))
    assert swept(context) == set()
    assert strange.exists()


def test_heartbeat_and_bell_of_a_dead_keeper_are_removed(context: Context) -> None:
    beat = beat_of(context, gone_keeper(context, "k1"), age_s=60)
    bell = bell_of(context, "k1", age_s=3600)
    assert swept(context) == {str(beat), str(bell)}


def test_a_heartbeat_that_is_fresh_stays_whatever_its_pid(context: Context) -> None:
    """It may come from another pid namespace."""
    beat = beat_of(context, gone_keeper(context, "k1"), age_s=1)
    bell = bell_of(context, "k1", age_s=3600)
    assert swept(context) == set()
    assert beat.exists()
    assert bell.exists()


def test_a_heartbeat_of_a_live_keeper_stays_however_old(context: Context) -> None:
    beat = beat_of(context, our_keeper(context, "k1"), age_s=3600)
    assert swept(context) == set()
    assert beat.exists()


def test_a_heartbeat_of_another_host_stays(context: Context) -> None:
    beat = beat_of(context, make_entry().keeper, age_s=3600)
    assert swept(context) == set()
    assert beat.exists()


def test_what_a_live_record_names_stays_as_evidence(context: Context) -> None:
    keeper = gone_keeper(context, "k1")
    context.store.create(make_entry("lost", keeper=keeper))
    beat = beat_of(context, keeper, age_s=3600)
    assert swept(context) == set()
    assert beat.exists()


def test_a_bell_that_somebody_listens_to_stays(context: Context) -> None:
    bell = bell_of(context, "k1", age_s=3600)
    listener = os.open(bell, os.O_RDWR | os.O_NONBLOCK)
    try:
        assert swept(context) == set()
    finally:
        os.close(listener)
    assert bell.exists()


def test_broken_settings_do_not_stop_the_doctor(context: Context, home: Path) -> None:
    (home / "settings.toml").write_text("[nope]\nx = 1\n")
    context.store.create(make_entry("lost", keeper=gone_keeper(context, "k1")))
    seen = look(context)
    assert seen.settings_problem is not None
    assert seen.without_keeper == ("lost",)
    assert found_level(seen, "settings") == "fail"


def test_a_clock_that_was_set_back_is_noticed(context: Context) -> None:
    context.store.create(make_entry(keeper=our_keeper(context, "k1"), started_at=context.clock.wall_ms() + 3_600_000))
    assert found_level(look(context), "clocks") == "warn"


def test_other_hosts_clocks_are_none_of_ours(context: Context) -> None:
    context.store.create(make_entry(started_at=context.clock.wall_ms() + 3_600_000))
    assert found_level(look(context), "clocks") == "ok"


# The command


def doctor(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """As a person runs it."""
    argv = [sys.executable, "-P", "-m", "supervisor", "doctor", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd=cwd, check=False)


def test_the_command_prints_one_line_per_check(home: Path, tmp_path: Path) -> None:
    done = doctor(cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert {len(line) for line in lines} == {4}
    assert {line[0] for line in lines} <= {"ok", "info", "warn"}
    assert {"state root", "disk", "tmux", "settings", "profile demo"} <= {line[1] for line in lines}


def test_the_command_fails_with_what_to_do(home: Path, tmp_path: Path) -> None:
    home.chmod(0o770)
    done = doctor(cwd=tmp_path)
    home.chmod(0o700)
    assert done.returncode == 1
    assert f"fail\tstate root\tthe state root {home} can be written by others\t→ Run: chmod 700 '{home}'" in done.stdout


def test_the_command_speaks_json(home: Path, tmp_path: Path) -> None:
    (home / "settings.toml").write_text("[nope]\nx = 1\n")
    done = doctor("--json", cwd=tmp_path)
    assert done.returncode == 1
    shown = {f["what"]: f for f in json.loads(done.stdout)}
    assert shown["settings"]["level"] == "fail"
    assert set(shown["settings"]) == {"level", "what", "detail", "todo"}
