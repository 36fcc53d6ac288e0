"""The state root: where it is, who may use it, and what is made in it."""

from __future__ import annotations

import os
import stat
import uuid
from pathlib import Path

import pytest

from supervisor.adapters.places import Places, check_root, config_folder, default_home
from supervisor.core.errors import BadState

NEEDED = {"process-matrix", "locks", "transcripts", "prompts", "requests", "logs", "run"}


def mode_of(path: str | Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def places_at(root: Path, *, runtime_dir: Path | None = None) -> Places:
    return Places(str(root), runtime_dir=str(runtime_dir) if runtime_dir else None)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o277])
def test_everything_is_made_for_its_owner_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    root = tmp_path / "root"
    before = os.umask(umask & 0o077)  # an owner without write permission can make nothing, with or without us
    try:
        places = places_at(root)
        places.prepare()
        places.host_id()
    finally:
        os.umask(before)
    assert mode_of(root) == 0o700
    made = {str(path.relative_to(root)): mode_of(path) for path in root.rglob("*") if path.is_dir()}
    assert set(made) >= NEEDED
    assert made == dict.fromkeys(made, 0o700)
    assert mode_of(root / "host-id") == 0o600


def test_the_root_is_made_with_the_folders_above_it(tmp_path: Path) -> None:
    places_at(tmp_path / "state" / "agents").prepare()
    assert (tmp_path / "state" / "agents" / "process-matrix").is_dir()


def test_preparing_twice_changes_nothing(tmp_path: Path) -> None:
    places = places_at(tmp_path / "root")
    places.prepare()
    marker = Path(places.heartbeats, "k.json")
    marker.write_text("{}")
    places.prepare()
    assert marker.read_text() == "{}"


def test_a_missing_root_is_told_from_one_that_is_there(tmp_path: Path) -> None:
    assert check_root(str(tmp_path / "none")) is False
    (tmp_path / "some").mkdir(mode=0o700)
    assert check_root(str(tmp_path / "some")) is True


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o722])
def test_a_root_that_others_can_write_is_refused_with_the_fix(tmp_path: Path, mode: int) -> None:
    root = tmp_path / "root"
    root.mkdir()
    root.chmod(mode)
    with pytest.raises(BadState, match="can be written by others") as refused:
        places_at(root).prepare()
    assert refused.value.hint == f"Run: chmod 700 '{root}'"
    assert list(root.iterdir()) == []


def test_a_symlinked_root_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(BadState, match="is a symlink"):
        places_at(tmp_path / "link").prepare()
    assert list((tmp_path / "real").iterdir()) == []


def test_a_dangling_symlink_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(BadState, match="is a symlink"):
        places_at(tmp_path / "link").prepare()
    assert not (tmp_path / "nowhere").exists()


def test_a_file_as_root_is_refused(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("")
    with pytest.raises(BadState, match="is no folder"):
        places_at(tmp_path / "root").prepare()


def test_another_users_root_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "root").mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(BadState, match=f"belongs to user {os.getuid()}, you are {os.getuid() + 1}"):
        places_at(tmp_path / "root").exists()


def test_a_root_below_a_file_is_refused_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadState, match="cannot be"):
        places_at(tmp_path / "file" / "root").prepare()


def test_run_is_a_link_into_the_runtime_directory(tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    places = places_at(tmp_path / "root", runtime_dir=runtime)
    places.prepare()
    target = Path(os.readlink(places.run))
    assert target.parent == runtime
    assert mode_of(target) == 0o700
    assert Path(places.bells).is_dir()


def test_processes_without_the_runtime_variable_go_through_the_same_link(tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    with_it = places_at(tmp_path / "root", runtime_dir=runtime)
    with_it.prepare()
    without = places_at(tmp_path / "root")
    without.prepare()
    assert os.path.realpath(with_it.bells) == os.path.realpath(without.bells)


@pytest.mark.parametrize("mode", [0o777, 0o720])
def test_a_runtime_directory_that_others_can_write_is_not_used(tmp_path: Path, mode: int) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    runtime.chmod(mode)
    places = places_at(tmp_path / "root", runtime_dir=runtime)
    places.prepare()
    assert not os.path.islink(places.run)
    assert list(runtime.iterdir()) == []


def test_a_runtime_directory_emptied_by_a_reboot_is_filled_again(tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    places = places_at(tmp_path / "root", runtime_dir=runtime)
    places.prepare()
    target = Path(os.readlink(places.run))
    for folder in ("bells", "heartbeats"):
        (target / folder).rmdir()
    target.rmdir()
    places.prepare()
    assert Path(os.readlink(places.run)) == target
    assert Path(places.heartbeats).is_dir()


def test_a_runtime_directory_that_is_gone_is_replaced_by_a_folder(tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    places = places_at(tmp_path / "root", runtime_dir=runtime)
    places.prepare()
    target = Path(os.readlink(places.run))
    for folder in (target / "bells", target / "heartbeats", target, runtime):
        folder.rmdir()
    places.prepare()
    assert not os.path.islink(places.run)
    assert Path(places.bells).is_dir()


def test_a_run_link_that_leads_to_a_shared_folder_is_refused(tmp_path: Path) -> None:
    places = places_at(tmp_path / "root")
    (tmp_path / "root").mkdir(mode=0o700)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    os.symlink(tmp_path / "shared", places.run)
    with pytest.raises(BadState, match="not yours alone"):
        places.prepare()


def test_the_host_id_is_a_uuid_and_stays(tmp_path: Path) -> None:
    places = places_at(tmp_path / "root")
    places.prepare()
    first = places.host_id()
    assert str(uuid.UUID(first)) == first
    assert places_at(tmp_path / "root").host_id() == first


@pytest.mark.parametrize("held", [b"not an id\n", b"\xff\xfe\x00"])
def test_a_host_id_that_is_none_is_named_with_its_file(tmp_path: Path, held: bytes) -> None:
    places = places_at(tmp_path / "root")
    places.prepare()
    (tmp_path / "root" / "host-id").write_bytes(held)
    with pytest.raises(BadState, match="holds no id") as refused:
        places.host_id()
    assert "Remove it" in str(refused.value)


def test_many_first_users_agree_on_one_host_id(tmp_path: Path) -> None:
    """Processes, at once: the first link wins, everybody reads the winner's, and no temp file is left."""
    places_at(tmp_path / "root").prepare()
    reading, writing = os.pipe()
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            try:
                os.write(writing, places_at(tmp_path / "root").host_id().encode() + b"\n")
            finally:
                os._exit(0)
        children.append(child)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        seen = pipe.read().split()
    for child in children:
        os.waitpid(child, 0)
    assert len(seen) == 8
    assert len(set(seen)) == 1
    assert [f.name for f in (tmp_path / "root").iterdir() if f.name.startswith("host-id")] == ["host-id"]


def test_the_environment_names_the_root() -> None:
    assert default_home({"SUPERVISOR_HOME": "/srv//agents/./state"}) == "/srv/agents/state"


def test_a_relative_root_is_refused() -> None:
    with pytest.raises(BadState, match="is not an absolute path"):
        default_home({"SUPERVISOR_HOME": "state"})


def test_without_a_variable_the_platform_says_where(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found = default_home({})
    assert found.startswith(str(tmp_path))
    assert "supervisor-agents" in found


def test_configuration_follows_the_xdg_variable(tmp_path: Path) -> None:
    assert config_folder({"XDG_CONFIG_HOME": str(tmp_path)}) == str(tmp_path / "supervisor-agents")


def test_a_relative_xdg_variable_is_not_followed() -> None:
    assert not config_folder({"XDG_CONFIG_HOME": "here"}).startswith("here")
