"""Asks as files: the first answer stands, nothing is lost to a peer that tidies, nobody else reads along."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from supervisor.adapters.approval_files import ApprovalFiles
from supervisor.adapters.ask_files import AskFiles
from supervisor.adapters.atomic_file import make_private
from supervisor.adapters.inbox_files import InboxFiles
from supervisor.adapters.review_log import ReviewLog
from supervisor.core.ask_wire import MAX_BYTES, Malformed, parse_request
from supervisor.core.rules import Approval
from supervisor.core.serving import ServingBeat, encode_beat, parse_beat

BEAT = ServingBeat("p", os.getpid(), 1, 2, "boot", "host", 3, 4, "keeper")


@pytest.fixture
def files(tmp_path: Path) -> AskFiles:
    return AskFiles(str(tmp_path / "forwarding"))


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def together(*works: Callable[[], Any]) -> list[Any]:
    """All at once, each in a thread of its own; what each returned or raised."""
    barrier = threading.Barrier(len(works))
    results: list[Any] = [None] * len(works)

    def run(n: int) -> None:
        barrier.wait()
        try:
            results[n] = works[n]()
        except BaseException as error:  # noqa: BLE001
            results[n] = error

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return results


# -- there and back


def test_the_layout_is_pis(files: AskFiles) -> None:
    files.write_request("a/b", "perm-1", b"{}")
    files.publish_response("a/b", "perm-1", b"{}")
    files.beat("a/b", encode_beat(BEAT))
    root = Path(files.root)
    found = {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}
    assert found == {
        "sessions/a%2Fb/requests/perm-1.json",
        "sessions/a%2Fb/responses/perm-1.json",
        "serving/a%2Fb.json",
    }


def test_a_request_comes_and_goes(files: AskFiles) -> None:
    assert (
        files.requests("p"),
        files.read_request("p", "a"),
        files.has_request("p", "a"),
        files.inbox_stamp("p"),
    ) == ((), None, False, 0)
    files.write_request("p", "a", b"1")
    assert (list(files.requests("p")), files.read_request("p", "a"), files.has_request("p", "a")) == (["a"], b"1", True)
    assert files.inbox_stamp("p")
    files.remove_request("p", "a")
    files.remove_request("p", "a")
    assert (list(files.requests("p")), files.read_request("p", "a"), files.has_request("p", "a")) == ([], None, False)


def test_a_claim_comes_is_renewed_and_goes(files: AskFiles) -> None:
    assert files.read_claim("p", "a") is None
    files.claim("p", "a", b"1")
    files.claim("p", "a", b"2")
    assert files.read_claim("p", "a") == b"2"
    files.remove_claim("p", "a")
    assert files.read_claim("p", "a") is None


def test_requests_in_order_of_arrival(files: AskFiles) -> None:
    arrived = ["zz", "a", "m", "b"]
    for n, ask_id in enumerate(arrived):
        files.write_request("p", ask_id, b"{}")
        os.utime(Path(files.root, "sessions/p/requests", f"{ask_id}.json"), ns=(5, 10**18 + n))
    assert arrived == list(files.requests("p"))


def test_what_is_no_request_is_not_listed(files: AskFiles) -> None:
    files.write_request("p", "a", b"{}")
    folder = Path(files.root, "sessions/p/requests")
    for name in (".a.json.1.2.tmp", ".hidden.json", "a.txt", "json", "b.json.tmp"):
        (folder / name).write_bytes(b"{}")
    assert list(files.requests("p")) == ["a"]


@pytest.mark.parametrize("kind", ["large", "link", "folder", "fifo"])
def test_a_file_that_is_no_request_reads_as_a_malformed_one(files: AskFiles, kind: str, tmp_path: Path) -> None:
    files.write_request("p", "a", b"{}")
    path = Path(files.root, "sessions/p/requests/x.json")
    if kind == "large":
        path.write_bytes(b" " * (MAX_BYTES + 2))
    elif kind == "link":
        (tmp_path / "secret").write_bytes(b"{}")
        path.symlink_to(tmp_path / "secret")
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    data = files.read_request("p", "x")
    assert data is not None and isinstance(parse_request(data, stem="x"), Malformed)


def test_a_name_with_a_newline_is_listed_and_no_id(files: AskFiles) -> None:
    files.write_request("p", "a", b"{}")
    Path(files.root, "sessions/p/requests/b\nc.json").write_bytes(b'{"id":"b\\nc"}')
    (other,) = set(files.requests("p")) - {"a"}
    assert Malformed("its file name is no ask id") == parse_request(files.read_request("p", other) or b"", stem=other)


# -- the first answer stands


def test_the_second_answer_is_told_and_changes_nothing(files: AskFiles) -> None:
    assert files.publish_response("p", "a", b"first")
    assert not files.publish_response("p", "a", b"second")
    assert (
        files.read_response("p", "a"),
        files.has_response("p", "a"),
        list(files.responses("p")),
    ) == (b"first", True, ["a"])
    files.remove_response("p", "a")
    assert (files.read_response("p", "a"), files.has_response("p", "a")) == (None, False)


def test_of_two_publishers_exactly_one_wins(files: AskFiles) -> None:
    other = AskFiles(files.root)
    for n in range(60):
        ask_id = f"perm-{n}"
        answers = [b"A" * 5000, b"B" * 5000]
        won = together(
            partial(files.publish_response, "p", ask_id, answers[0]),
            partial(other.publish_response, "p", ask_id, answers[1]),
        )
        assert sorted(won) == [False, True]
        assert answers[won.index(True)] == files.read_response("p", ask_id)
    assert not list(Path(files.root).rglob("*.tmp"))


# -- a peer that tidies


class Tidier:
    """A peer that removes every empty folder it can, without pause."""

    def __init__(self, root: str) -> None:
        self._folders = [Path(root, "sessions/p", kind) for kind in ("requests", "responses", "claims", "")]
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.removed = 0

    def __enter__(self) -> Tidier:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.is_set():
            for folder in self._folders:
                try:
                    folder.rmdir()
                    self.removed += 1
                except OSError:
                    pass


def test_nothing_is_lost_to_a_peer_that_removes_folders(files: AskFiles) -> None:
    with Tidier(files.root) as tidier:
        for n in range(300):
            ask_id = f"perm-{n}"
            files.write_request("p", ask_id, b"{}")
            assert files.publish_response("p", ask_id, b"{}")
            files.claim("p", ask_id, b"{}")
            assert files.has_request("p", ask_id) and files.has_response("p", ask_id)
            files.remove_claim("p", ask_id)
            files.remove_response("p", ask_id)
            files.remove_request("p", ask_id)
    assert tidier.removed > 0


@pytest.mark.parametrize("times", [1, 5, 19])
@pytest.mark.parametrize("what", ["request", "response", "claim"])
def test_a_folder_that_vanishes_before_the_write_is_made_again(
    files: AskFiles, what: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [times]

    def vanishing(path: str) -> None:
        make_private(path)
        if path.endswith(f"/{what}s") and left[0]:
            left[0] -= 1
            os.rmdir(path)

    monkeypatch.setattr("supervisor.adapters.ask_files.make_private", vanishing)
    write: dict[str, Callable[[str, str, bytes], object]] = {
        "request": files.write_request,
        "response": files.publish_response,
        "claim": files.claim,
    }
    write[what]("p", "a", b"{}")
    assert left == [0] and Path(files.root, f"sessions/p/{what}s/a.json").read_bytes() == b"{}"


def test_a_folder_that_is_never_there_is_an_error_in_the_end(files: AskFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisor.adapters.ask_files.make_private", lambda _: None)
    with pytest.raises(FileNotFoundError):
        files.write_request("p", "a", b"{}")


def test_a_folder_that_vanishes_just_after_it_was_found_is_made_again(
    files: AskFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mkdir says EEXIST, and the peer removes it before anybody looks what is there."""
    Path(files.root, "sessions/p/requests").mkdir(parents=True)
    mkdir, left = os.mkdir, [1]

    def racing(path: Any, *args: Any, **more: Any) -> None:
        try:
            mkdir(path, *args, **more)
        except FileExistsError:
            if str(path).endswith("/requests") and left[0]:
                left[0] -= 1
                os.rmdir(path)
            raise

    monkeypatch.setattr(os, "mkdir", racing)
    files.write_request("p", "a", b"{}")
    assert left == [0] and files.has_request("p", "a")


def test_something_else_in_the_folders_place_is_an_error(files: AskFiles) -> None:
    Path(files.root, "sessions/p").mkdir(parents=True)
    Path(files.root, "sessions/p/requests").write_bytes(b"")
    with pytest.raises(OSError):
        files.write_request("p", "a", b"{}")


def test_many_children_at_once_lose_nothing(files: AskFiles) -> None:
    def child(n: int) -> int:
        own = AskFiles(files.root)
        for i in range(25):
            own.write_request("p", f"c{n}-{i}", b"{}")
            assert own.publish_response("p", f"c{n}-{i}", b"{}")
            own.remove_request("p", f"c{n}-{i}")
            own.remove_response("p", f"c{n}-{i}")
        return 25

    with Tidier(files.root):
        done = together(*[partial(child, n) for n in range(8)])
    assert done == [25] * 8


# -- who may read


def test_modes_under_an_open_umask(tmp_path: Path, open_umask: None) -> None:
    files = AskFiles(str(tmp_path / "deep" / "forwarding"))
    files.write_request("p", "a", b"{}")
    files.publish_response("p", "a", b"{}")
    files.claim("p", "a", b"{}")
    files.beat("p", encode_beat(BEAT))
    InboxFiles(str(tmp_path / "deep" / "run" / "inboxes")).attend("i", BEAT)
    locks = tmp_path / "deep" / "locks"
    locks.mkdir(mode=0o700)
    approval = Approval(granted_by="p", tool="bash", value="ls")
    ApprovalFiles(str(tmp_path / "deep" / "approvals"), str(locks)).add(approval)
    ReviewLog(str(tmp_path / "deep" / "asks.jsonl")).append("x", {}, at=1)
    found = {p: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "deep").rglob("*")}
    assert {p: 0o700 if p.is_dir() else 0o600 for p in found} == found
    assert len([p for p in found if p.is_file()]) >= 7
    assert stat.S_IMODE((tmp_path / "deep").stat().st_mode) == 0o700


# -- serving


def test_a_beat_is_read_as_written_and_a_clean_end_leaves_none(files: AskFiles) -> None:
    assert (files.read_beat("p"), list(files.serving_files())) == (None, [])
    files.beat("p", encode_beat(BEAT))
    files.beat("p", encode_beat(BEAT._replace(updated_at=99)))
    assert BEAT._replace(updated_at=99) == parse_beat(files.read_beat("p") or b"")
    assert [files.serving_path("p")] == list(files.serving_files())
    files.stop_serving("p")
    assert (files.read_beat("p"), list(files.serving_files())) == (None, [])
    assert Path(files.root, "serving").is_dir(), "the folder itself is never removed"
    files.stop_serving("p")
    files.stop_serving("never-served")


def test_only_who_serves_ends_it(files: AskFiles) -> None:
    files.beat("p", encode_beat(BEAT))
    AskFiles(files.root).stop_serving("p")
    assert files.read_beat("p") is not None
    files.stop_serving("p")


@pytest.mark.parametrize("how", ["removed", "replaced", "folder"])
def test_a_beat_that_was_taken_away_is_made_anew(files: AskFiles, how: str) -> None:
    files.beat("p", encode_beat(BEAT))
    path = Path(files.serving_path("p"))
    if how == "replaced":
        path.with_suffix(".new").write_bytes(b'{"sessionId":"p","pid":1,"updatedAt":1}' + b" " * 4000)
        os.rename(path.with_suffix(".new"), path)
    else:
        path.unlink()
    if how == "folder":
        path.parent.rmdir()
    files.beat("p", encode_beat(BEAT._replace(updated_at=7)))
    assert BEAT._replace(updated_at=7) == parse_beat(files.read_beat("p") or b"")
    files.stop_serving("p")


def test_no_reader_sees_a_torn_beat(files: AskFiles) -> None:
    files.beat("p", encode_beat(BEAT))
    end = threading.Event()

    def write() -> None:
        for n in range(3000):
            files.beat("p", encode_beat(BEAT._replace(updated_at=n * 7919, monotonic_ns=n * 10**12)))
        end.set()

    def read() -> int:
        torn = 0
        while not end.is_set():
            seen = parse_beat(files.read_beat("p") or b"")
            torn += seen is None or (seen.session_id, seen.pid) != ("p", BEAT.pid)
        return torn

    assert together(write, read) == [None, 0]
    files.stop_serving("p")


def test_a_link_in_place_of_a_beat_is_not_written_through(files: AskFiles, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    Path(files.root, "serving").mkdir(parents=True)
    Path(files.serving_path("p")).symlink_to(victim)
    with pytest.raises(OSError):
        files.beat("p", encode_beat(BEAT))
    assert victim.read_bytes() == b"precious"


# -- tidying, names


def test_temp_files_of_dead_writers_are_swept(files: AskFiles) -> None:
    files.write_request("p", "a", b"{}")
    files.publish_response("p", "a", b"{}")
    files.claim("p", "a", b"{}")
    base = Path(files.root, "sessions/p")
    dead = [base / kind / ".b.json.4194305.7.tmp" for kind in ("requests", "responses", "claims")]
    live = [base / "requests" / f".b.json.{os.getpid()}.7.tmp", base / "requests" / ".b.json.x.7.tmp"]
    for path in (*dead, *live):
        path.write_bytes(b"")
    assert files.sweep_temps("p", lambda pid: pid == os.getpid()) == 3
    assert not any(p.exists() for p in dead) and all(p.exists() for p in live)
    assert (
        files.has_request("p", "a"),
        files.has_response("p", "a"),
        files.read_claim("p", "a"),
    ) == (True, True, b"{}")
    assert files.sweep_temps("nobody", lambda _: False) == 0


def test_sessions_are_named_as_they_are(files: AskFiles) -> None:
    assert list(files.sessions()) == []
    names = ["plain", "a/b", "café", "100%", "a b", "~x'()*!"]
    for name in names:
        files.write_request(name, "a", b"{}")
    assert sorted(names) == sorted(files.sessions())


@pytest.mark.parametrize("name", ["a%2fb", "a b", "%zz", "%", "%ff", "%41", "é", "a+b"])
def test_a_folder_name_that_does_not_round_trip_is_ignored(files: AskFiles, name: str) -> None:
    files.write_request("good", "a", b"{}")
    Path(files.root, "sessions", name, "requests").mkdir(parents=True)
    assert list(files.sessions()) == ["good"]


def test_a_folder_name_that_is_no_text_is_ignored(files: AskFiles) -> None:
    files.write_request("good", "a", b"{}")
    os.mkdir(os.path.join(os.fsencode(files.root), b"sessions", b"\xff\xfe"))
    assert list(files.sessions()) == ["good"]
