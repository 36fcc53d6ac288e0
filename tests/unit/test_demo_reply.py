"""How the demo agent reads the reply to its ask."""

import pytest

from supervisor.demo import reply
from supervisor.demo.reply import Allowed, Denied


@pytest.mark.parametrize("out", [b"", b"{}", b'{"approved":true}', b"[]", b"garbage"])
def test_a_code_of_zero_allows(out: bytes) -> None:
    assert isinstance(reply.judge(0, out=out, err=b""), Allowed)


@pytest.mark.parametrize("out", [b'{"approved":false}', b'{"approved":null}', b'{"approved":"true"}'])
def test_a_reply_that_contradicts_its_code_is_denied(out: bytes) -> None:
    assert isinstance(reply.judge(0, out=out, err=b""), Denied)


@pytest.mark.parametrize(
    ("code", "out", "err", "reason"),
    [
        (1, b'{"reason":"not on a friday"}', b"noise", "not on a friday"),
        (1, b'{"approved":true,"reason":"odd"}', b"", "odd"),
        (4, b"", b"first\nnobody is serving\n\n", "nobody is serving"),
        (1, b'{"reason":7}', b"said", "said"),
        (1, b'{"reason":""}', b"", "the ask ended with code 1 and gave no reason"),
        (137, b"{", b"", "the ask ended with code 137 and gave no reason"),
        (1, b'{"reason":"a\\nALLOWED b\\u001b[31m"}', b"", "a ALLOWED b[31m"),
        (1, b"", b"x" * 9000, "x" * reply.LONGEST_REASON),
        (1, b"", b"\xff", "\ufffd"),
    ],
)
def test_anything_else_is_denied_with_the_best_reason_there_is(code: int, out: bytes, err: bytes, reason: str) -> None:
    assert Denied(reason) == reply.judge(code, out=out, err=err)
