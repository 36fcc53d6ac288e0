"""Where a prompt comes from when the command line holds none: all of stdin, or one line after the other.

Owns nothing; reads descriptor 0. Never cuts a prompt short: one that is too long is none at all.
"""

from collections.abc import Iterator
from typing import NamedTuple

LONGEST_PROMPT = 8 * 1024 * 1024  # bytes


class TooLong(NamedTuple):
    limit: int = LONGEST_PROMPT


def decode(raw: bytes) -> str:
    """As text that encodes to the same bytes again, whatever they are."""
    return raw.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def whole() -> str | TooLong:
    with open(0, "rb", closefd=False) as stdin:
        raw = stdin.read(LONGEST_PROMPT + 1)
    return TooLong() if len(raw) > LONGEST_PROMPT else decode(raw)


def lines() -> Iterator[str | TooLong]:
    """One prompt a line until the end of the input; blank lines are none."""
    with open(0, "rb", closefd=False) as stdin:
        while True:
            try:
                raw = stdin.readline(LONGEST_PROMPT + 1)
            except OSError:  # the terminal is gone: that is an end of input too
                return
            if not raw:
                return
            if len(raw) > LONGEST_PROMPT:
                yield TooLong()
                return
            if raw.strip():
                yield decode(raw.removesuffix(b"\n"))
