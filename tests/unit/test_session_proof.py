"""The proof of the session that a CLI is in."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.adapters.bells import BellFiles, drain
from supervisor.adapters.proc_stat import start_ticks
from supervisor.core.ids import encode
from supervisor.core.session_proof import Above, believed, parse_proof
from supervisor.hook.event import SessionStarted
from supervisor.runtime.session_proof import above, write_proof
from supervisor.testing.clock import FakeClock

ENTRY = "b03a054629d3"
STARTED = SessionStarted("s-2", "clear", "/c/s-2.jsonl")


class Root:
    """A state root with one entry on record, whose keeper listens."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.env = {
            "SUPERVISOR_HOME": str(home),
            "SUPERVISOR_ENTRY_ID": ENTRY,
            "SUPERVISOR_SESSION_ID": "s-1",
            "SUPERVISOR_GENERATION": "n-1",
        }
        (home / "process-matrix").mkdir()
        (home / "run" / "bells").mkdir(parents=True)
        self.bell = BellFiles(str(home / "run" / "bells")).listen("k-1")

    def record(self, session: str, **changes: Any) -> None:
        body = {"entryId": ENTRY, "sessionId": session, "keeper": {"keeperId": "k-1"}, **changes}
        (self.home / "process-matrix" / f"worker-{encode(session)}.json").write_text(json.dumps(body))

    def prove(self, started: SessionStarted = STARTED, **env: str) -> str | None:
        return write_proof(
            started.session,
            source=started.source,
            transcript=started.transcript,
            env={**self.env, **env},
            pid=os.getppid(),
            clock=FakeClock(wall_ms=1234),
        )

    def proof(self) -> Any:
        return json.loads((self.home / "proofs" / f"{ENTRY}.json").read_text())

    def rung(self) -> bool:
        try:
            return bool(os.read(self.bell, 1))
        except BlockingIOError:
            return False
        finally:
            drain(self.bell)


@pytest.fixture
def root(home: Path) -> Iterator[Root]:
    made = Root(home)
    yield made
    os.close(made.bell)


def test_a_proof_names_session_transcript_generation_and_the_cli(root: Root) -> None:
    assert root.prove() is None
    proof = parse_proof((root.home / "proofs" / f"{ENTRY}.json").read_bytes())
    assert proof is not None
    assert proof[:4] == ("s-2", "clear", "/c/s-2.jsonl", "n-1")
    assert (proof.own_session, proof.at) == (os.getsid(0), 1234)
    parent = proof.above[0]
    assert (parent.pid, parent.start_ticks) == (os.getppid(), start_ticks(os.getppid()))
    assert believed(proof, nonce="n-1", pid=parent.pid, start_ticks=parent.start_ticks)


def test_without_a_process_table_only_the_pid_of_the_cli_is_known() -> None:
    gone = 2**22 + 7  # above the kernel's largest pid
    assert list(above(gone)) == [Above(gone, 0, 0)]


def test_a_proof_is_the_owners_alone_and_leaves_nothing_beside_it(root: Root) -> None:
    root.prove()
    folder = root.home / "proofs"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / f"{ENTRY}.json").stat().st_mode & 0o777 == 0o600
    assert [p.name for p in folder.iterdir()] == [f"{ENTRY}.json"]


def test_the_latest_proof_stands(root: Root) -> None:
    root.prove()
    root.prove(SessionStarted("s-3", "resume"))
    assert (root.proof()["sessionId"], root.proof()["transcriptPath"]) == ("s-3", None)


def test_the_keeper_of_the_entry_is_rung(root: Root) -> None:
    root.record("s-1")
    root.prove()
    assert root.rung()


@pytest.mark.parametrize(
    "changes",
    [{"entryId": "another"}, {"keeper": None}, {"keeper": {"keeperId": 7}}, {"keeper": {"keeperId": "a\0b"}},
     {"keeper": {"keeperId": ".."}}, {"keeper": {"keeperId": "\ud800"}}],
)  # fmt: skip
def test_a_record_that_is_not_ours_or_odd_rings_nobody_and_breaks_nothing(root: Root, changes: Any) -> None:
    root.record("s-1", **changes)
    assert root.prove() is None
    assert not root.rung()


@pytest.mark.parametrize("entry", ["", "../../x", "B03A", "b03a054629d3/x", "b03a054629d3\n", "." * 12, "a" * 65])
def test_an_entry_id_that_is_none_of_ours_writes_nothing(root: Root, entry: str) -> None:
    assert "malformed" in (root.prove(SUPERVISOR_ENTRY_ID=entry) or "")
    assert not (root.home / "proofs").exists()


@pytest.mark.parametrize("path", ["", "relative"])
def test_a_home_that_is_no_absolute_path_writes_nothing(root: Root, path: str) -> None:
    assert "malformed" in (root.prove(SUPERVISOR_HOME=path) or "")


def test_a_state_root_is_never_made(root: Root, tmp_path: Path) -> None:
    assert "could not be written" in (root.prove(SUPERVISOR_HOME=str(tmp_path / "none")) or "")
    assert not (tmp_path / "none").exists()


def test_proofs_that_cannot_be_written_are_told(root: Root) -> None:
    (root.home / "proofs").write_text("a file")
    assert "could not be written" in (root.prove() or "")


@pytest.mark.parametrize("before", [b"", b"{", b"[]", b'{"sessionId":7}', b"[" * 10_000, b"x" * 20_000])
def test_an_earlier_proof_that_is_broken_is_replaced(root: Root, before: bytes) -> None:
    (root.home / "proofs").mkdir()
    (root.home / "proofs" / f"{ENTRY}.json").write_bytes(before)
    assert root.prove() is None
    assert root.proof()["sessionId"] == "s-2"
