"""`Spawner`: children are started as asked, or not at all, and each end is learned once."""

import os
import stat
from pathlib import Path

import pytest

from supervisor.core.identity import ProcessKey, same_process
from supervisor.core.ports import Exit, SpawnFailed
from supervisor.testing import FakeProcessTable, FakeSpawner
from tests.contract.worlds import RealWorld, World, request, started, until


def ends(world: World, key: ProcessKey) -> list[Exit]:
    return [end for pid, end in world.spawner.reap() if pid == key.pid]


@pytest.mark.parametrize("code", [0, 3, 143, 255])
def test_a_child_that_ends_is_reaped_with_its_code(world: World, code: int) -> None:
    key = started(world.spawner.spawn(world.program(code)))
    world.finish(key, code)
    assert [Exit(code=code)] == ends(world, key)


def test_an_end_is_told_once(world: World) -> None:
    key = started(world.spawner.spawn(world.program(0)))
    world.finish(key, 0)
    ends(world, key)
    assert ends(world, key) == []


def test_a_child_killed_by_a_signal_is_reaped_with_its_signal(world: World) -> None:
    key = started(world.spawner.spawn(request("sleep", "60")))
    world.signals.send(key, 9)
    world.finish(key, -9)
    assert [Exit(signal=9)] == ends(world, key)


def test_a_running_child_is_not_reaped(world: World) -> None:
    key = started(world.spawner.spawn(request("sleep", "60")))
    assert ends(world, key) == []
    world.signals.send(key, 9)
    until(lambda: ends(world, key), "the child is reaped")


def test_without_children_there_is_nothing_to_reap(world: World) -> None:
    assert list(world.spawner.reap()) == []


@pytest.mark.parametrize("new_session", [True, False])
def test_a_child_has_the_environment_and_session_it_was_given(world: World, new_session: bool) -> None:
    env = {"PATH": os.environ["PATH"], "ONLY": "this", "SUPERVISOR_TEST_MARK": os.environ["SUPERVISOR_TEST_MARK"]}
    key = started(world.spawner.spawn(request("sleep", "60", env=env, new_session=new_session)))
    until(lambda: world.processes.command(key.pid), "its exec is complete")
    row = world.processes.snapshot()[key.pid]
    found = (dict(world.processes.environment(key.pid)), row.session == key.pid, list(world.processes.command(key.pid)))
    world.signals.send(key, 9)
    until(lambda: ends(world, key), "the child is reaped")
    assert (env, new_session, ["sleep", "60"]) == found


def test_a_child_is_known_by_its_identity(world: World) -> None:
    key = started(world.spawner.spawn(request("sleep", "60")))
    seen = world.processes.identify(key.pid)
    world.signals.send(key, 9)
    until(lambda: ends(world, key), "the child is reaped")
    assert seen is not None
    assert same_process(key, seen)


# -- the fake alone


def test_a_scripted_failure_starts_nothing_until_it_is_lifted() -> None:
    table = FakeProcessTable()
    spawner = FakeSpawner(table, parent=table.add().pid)
    spawner.fail("broken", "broken was not found")
    failed = spawner.spawn(request("broken"))
    spawner.allow("broken")
    assert (SpawnFailed("broken was not found"), 1) == (failed, len([started(spawner.spawn(request("broken")))]))


def test_the_fake_keeps_a_log_of_requests() -> None:
    table = FakeProcessTable()
    spawner = FakeSpawner(table, parent=table.add().pid)
    spawner.spawn(request("one"))
    assert [r.argv for r in spawner.requests] == [("one",)]


# -- the kernel alone


def failure(**changes: object) -> str:
    argv = changes.pop("argv", ("sleep", "60"))
    assert isinstance(argv, tuple)
    outcome = RealWorld().spawner.spawn(request(*argv, **changes))
    assert isinstance(outcome, SpawnFailed)
    return outcome.why


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    assert f"{missing} was not found" == failure(argv=(missing,))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    assert f"its folder {missing} does not exist" == failure(cwd=missing)


def test_a_file_that_may_not_be_executed_is_named(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\n")
    plain.chmod(0o600)
    assert failure(argv=(str(plain),)).startswith(f"{plain} may not be executed")


def test_a_file_that_is_no_program_is_named(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no program")
    text.chmod(0o700)
    assert f"{text}: Exec format error" == failure(argv=(str(text),))


def test_a_prompt_that_is_not_there_is_not_taken_for_the_program(tmp_path: Path) -> None:
    missing = str(tmp_path / "prompt")
    why = failure(stdin=missing)
    assert (missing in why, "sleep was not found" in why) == (True, False)


def test_a_transcript_that_cannot_be_made_is_not_taken_for_the_program(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "missing" / "t.log")
    why = failure(output=nowhere)
    assert (nowhere in why, "sleep was not found" in why) == (True, False)


def test_an_argument_with_a_nul_is_a_failure_not_a_crash() -> None:
    assert "null" in failure(argv=("sleep", "a\0b"))


def run_to_its_end(world: RealWorld, *argv: str, **changes: object) -> None:
    key = started(world.spawner.spawn(request(*argv, **changes)))
    os.waitid(os.P_PID, key.pid, os.WEXITED | os.WNOWAIT)
    world.spawner.reap()


def test_both_outputs_are_appended_to_the_transcript(tmp_path: Path) -> None:
    transcript = tmp_path / "t.log"
    transcript.write_text("before\n")
    run_to_its_end(RealWorld(), "sh", "-c", "echo out; echo err >&2", output=str(transcript))
    assert transcript.read_text() == "before\nout\nerr\n"


def test_a_transcript_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    transcript = tmp_path / "t.log"
    run_to_its_end(RealWorld(), "true", output=str(transcript))
    assert stat.S_IMODE(transcript.stat().st_mode) == 0o600


def test_a_transcript_that_is_a_symlink_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    failure(output=str(tmp_path / "link"))
    assert not (tmp_path / "target").exists()


def test_the_prompt_arrives_on_stdin_byte_for_byte(tmp_path: Path) -> None:
    prompt = tmp_path / "prompt"
    prompt.write_bytes(b"-rf \"$(boom)\" 'x'\n\x00\xff" * 5000)
    run_to_its_end(RealWorld(), "cat", stdin=str(prompt), output=str(tmp_path / "out"))
    assert prompt.read_bytes() == (tmp_path / "out").read_bytes()


def test_no_descriptor_of_ours_reaches_a_child(tmp_path: Path) -> None:
    held = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(held, True)
    try:
        run_to_its_end(RealWorld(), "ls", "/proc/self/fd", output=str(tmp_path / "fds"))
    finally:
        os.close(held)
    assert {0, 1, 2, 3} == {int(fd) for fd in (tmp_path / "fds").read_text().split()}


def test_a_failed_spawn_leaves_no_descriptor_and_no_child(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    failure(argv=(str(tmp_path / "missing"),), output=str(tmp_path / "t.log"))
    assert (before, []) == (set(os.listdir("/proc/self/fd")), list(RealWorld().spawner.reap()))
