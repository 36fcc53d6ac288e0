"""What a hook writes about its session, and when it is believed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.session_proof import Above, SessionProof, believed, encode_proof, parse_proof

AGENT = Above(100, 7000, 90)
WRAPPED = Above(101, 7010, 90)  # the real CLI below the launched wrapper, in its session
SHELL = Above(130, 7100, 130)  # a shell that the CLI put between itself and the hook, in the hook's session
TOOL = Above(120, 7050, 120)  # a tool's shell has a session of its own
NESTED = Above(121, 7060, 120)
PROOF = SessionProof("s-2", "clear", "/c/s-2.jsonl", "n-1", 130, (AGENT,), at=5)


def verdict(*above: Above, nonce: str = "n-1", own_session: int = 130) -> bool:
    proof = PROOF._replace(above=above, own_session=own_session)
    return believed(proof, nonce=nonce, pid=AGENT.pid, start_ticks=AGENT.start_ticks)


def test_a_proof_is_read_as_it_was_written() -> None:
    assert parse_proof(encode_proof(PROOF)) == PROOF


@pytest.mark.parametrize(
    ("above", "expected"),
    [
        ((AGENT,), True),
        ((SHELL, AGENT), True),
        ((WRAPPED, AGENT), True),
        ((SHELL, WRAPPED, AGENT), True),
        ((NESTED, TOOL, AGENT), False),
        ((SHELL, NESTED, TOOL, AGENT), False),
        ((NESTED,), False),
        ((), False),
        ((AGENT._replace(start_ticks=7001),), False),
        ((AGENT._replace(start_ticks=0),), True),
    ],
    ids=["the agent", "a shell between", "a wrapper", "both", "another CLI within", "the same behind a shell",
         "another CLI", "nobody", "another process of that pid", "no process table"],
)  # fmt: skip
def test_only_a_hook_of_the_agents_own_process_is_believed(above: tuple[Above, ...], expected: bool) -> None:
    assert verdict(*above) is expected


@pytest.mark.parametrize("nonce", ["n-0", ""])
def test_another_generations_proof_is_not_believed(nonce: str) -> None:
    assert not verdict(AGENT, nonce=nonce)


def test_a_proof_without_a_generation_is_never_believed() -> None:
    proof = PROOF._replace(generation="")
    assert not believed(proof, nonce="", pid=AGENT.pid, start_ticks=AGENT.start_ticks)


@pytest.mark.parametrize(
    "changes",
    [
        {"sessionId": ".."}, {"sessionId": 7}, {"sessionId": "a\nb"}, {"sessionId": "x" * 300}, {"generation": None},
        {"above": None}, {"above": [[1, 2]]}, {"above": [[1, 2, -3]]}, {"above": [["1", 2, 3]]},
        {"above": [[True, 2, 3]]}, {"ownSession": 2**70},
    ],
)  # fmt: skip
def test_a_malformed_proof_proves_nothing(changes: dict[str, Any]) -> None:
    raw = {**json.loads(encode_proof(PROOF)), **changes}
    proof = parse_proof(json.dumps(raw).encode())
    assert proof is None or not believed(proof, nonce="n-1", pid=100, start_ticks=7000)


@pytest.mark.parametrize("path", ["relative", "", 7, "/x\ny", "/x\x1b[2J", "/" + "x" * 5000])
def test_a_transcript_that_nobody_could_open_or_print_is_none(path: Any) -> None:
    raw = {**json.loads(encode_proof(PROOF)), "transcriptPath": path}
    proof = parse_proof(json.dumps(raw).encode())
    assert proof is not None
    assert proof.transcript is None


@given(st.binary(max_size=300) | st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda c: (
    st.lists(c) | st.dictionaries(st.sampled_from(["sessionId", "above", "generation", "ownSession", "at"]), c)
)).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_no_bytes_break_the_reader_or_prove_anything(data: bytes) -> None:
    proof = parse_proof(data)
    assert proof is None or not believed(proof, nonce="n-1", pid=100, start_ticks=7000)
