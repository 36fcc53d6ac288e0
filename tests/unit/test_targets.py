"""Where an ask goes: the record before the environment, never to oneself by mistake, never round in a circle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.ask_reasons import NO_TARGET, Reason
from supervisor.core.ids import encode
from supervisor.core.serving import Target
from supervisor.runtime.targets import parent_of, read_session, resolve_target


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "process-matrix").mkdir()
    return tmp_path


def put(root: Path, session: str, parent: Any = None, *, role: str = "worker") -> None:
    body = {"sessionId": session, "parent": {"sessionId": parent} if parent is not None else None}
    write(root, session, json.dumps(body).encode(), role=role)


def write(root: Path, session: str, data: bytes, *, role: str = "worker") -> None:
    (root / "process-matrix" / f"{role}-{encode(session)}.json").write_bytes(data)


def env(own: str | None = None, parent: str | None = None) -> dict[str, str]:
    given = {"SUPERVISOR_SESSION_ID": own, "SUPERVISOR_PARENT_SESSION": parent}
    return {k: v for k, v in given.items() if v is not None}


def code(found: Target | Reason) -> str:
    assert isinstance(found, Reason)
    return found.code


# -- record and environment


def test_the_record_comes_before_the_environment(root: Path) -> None:
    put(root, "me", "adopter")
    assert Target("adopter", "entry") == resolve_target(env("me", "old-parent"), str(root))


def test_the_environment_without_a_record(root: Path) -> None:
    assert Target("p", "env") == resolve_target(env("me", "p"), str(root))
    assert Target("p", "env") == resolve_target(env(None, " p\n"), str(root))


def test_without_any_there_is_none(root: Path) -> None:
    assert resolve_target({}, str(root)) == NO_TARGET
    assert resolve_target(env("me"), str(root)) == NO_TARGET


@pytest.mark.parametrize(
    "bad", ["", "  ", "unknown", "UNKNOWN", ".", "..", "a\0b", "a\nb", "a\x1b[2J", "\ud800", "x" * 201]
)
def test_a_malformed_parent_in_the_environment_is_none(root: Path, bad: str) -> None:
    assert resolve_target(env("me", bad), str(root)) == NO_TARGET
    assert resolve_target({}, str(root), explicit=bad) == NO_TARGET


@pytest.mark.parametrize("bad", ["", "unknown", "..", "a\nb", "\ud800", "x" * 201])
def test_a_malformed_own_id_reads_no_record(root: Path, bad: str) -> None:
    assert Target("p", "env") == resolve_target(env(bad, "p"), str(root))


def test_a_home_without_records(tmp_path: Path) -> None:
    assert Target("p", "env") == resolve_target(env("me", "p"), str(tmp_path / "none"))


def test_a_master_asks_its_own_keeper(root: Path) -> None:
    put(root, "me", role="master")
    assert Target("me", "entry") == resolve_target(env("me"), str(root))


def test_a_root_whose_environment_names_itself_is_a_root(root: Path) -> None:
    put(root, "me", role="master")
    assert Target("me", "entry") == resolve_target(env("me", "me"), str(root))
    put(root, "me", "me", role="master")
    assert Target("me", "entry") == resolve_target(env("me", "me"), str(root))


def test_the_worker_record_comes_before_the_master_record(root: Path) -> None:
    put(root, "me", role="master")
    put(root, "me", "p", role="worker")
    assert Target("p", "entry") == resolve_target(env("me"), str(root))


def test_ids_are_encoded_in_file_names(root: Path) -> None:
    put(root, "a/../b é", "p/q")
    assert Target("p/q", "entry") == resolve_target(env("a/../b é"), str(root))


# -- oneself, circles


def test_oneself_as_parent_without_a_record_is_refused(root: Path) -> None:
    assert code(resolve_target(env("me", " me "), str(root))) == "self"


def test_an_explicit_target_beats_all_but_is_never_oneself(root: Path) -> None:
    put(root, "me", "p")
    assert Target("other", "env") == resolve_target(env("me", "p"), str(root), explicit=" other ")
    assert code(resolve_target(env("me", "p"), str(root), explicit="me")) == "self"


@pytest.mark.parametrize("length", [2, 3, 10])
def test_a_circle_is_told(root: Path, length: int) -> None:
    for n in range(length):
        put(root, f"s{n}", f"s{(n + 1) % length}")
    for n in range(length):
        assert code(resolve_target(env(f"s{n}"), str(root))) == "cycle"


def test_a_circle_further_up_is_told(root: Path) -> None:
    put(root, "me", "a")
    put(root, "a", "b")
    put(root, "b", "a")
    assert code(resolve_target(env("me"), str(root))) == "cycle"


def test_a_root_that_names_itself_further_up_is_no_circle(root: Path) -> None:
    put(root, "me", "p")
    put(root, "p", "root")
    put(root, "root", "root", role="master")
    assert Target("p", "entry") == resolve_target(env("me"), str(root))


@pytest.mark.parametrize("depth", [1, 63, 64, 65, 200])
def test_a_long_line_of_parents_is_no_circle(root: Path, depth: int) -> None:
    for n in range(depth):
        put(root, f"s{n}", f"s{n + 1}")
    assert Target("s1", "entry") == resolve_target(env("s0"), str(root))


# -- malformed records


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b"1", b"\xff\xfe\x00", b"[" * 100_000, b" " * (2 * 1024 * 1024)],
    ids=lambda d: ascii(d[:9]),
)
def test_an_unreadable_record_is_as_none(root: Path, data: bytes) -> None:
    write(root, "me", data)
    assert read_session(str(root), "me") is None
    assert Target("p", "env") == resolve_target(env("me", "p"), str(root))


def test_an_unreadable_worker_record_leaves_the_master_record(root: Path) -> None:
    write(root, "me", b"{")
    put(root, "me", role="master")
    assert Target("me", "entry") == resolve_target(env("me", "p"), str(root))


def test_a_link_as_record_is_not_followed(root: Path) -> None:
    write(root, "other", json.dumps({"parent": {"sessionId": "evil"}}).encode())
    (root / "process-matrix" / "worker-me.json").symlink_to(root / "process-matrix" / "worker-other.json")
    assert Target("p", "env") == resolve_target(env("me", "p"), str(root))


def test_a_malformed_record_further_up_ends_the_walk(root: Path) -> None:
    put(root, "me", "p")
    write(root, "p", b"{")
    assert Target("p", "entry") == resolve_target(env("me"), str(root))


@pytest.mark.parametrize(
    "parent",
    [None, "p", 1, [], {}, {"sessionId": None}, {"sessionId": 1}, {"sessionId": []}, {"sessionId": ".."},
     {"sessionId": "a\nb"}, {"sessionId": "unknown"}, {"sessionId": "\ud800"}],
    ids=ascii,
)  # fmt: skip
def test_a_malformed_parent_is_none(parent: object) -> None:
    assert parent_of({"parent": parent}) is None
