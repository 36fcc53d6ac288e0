"""What the reply to an ask means: allowed or denied, with the reason.

Owns nothing. Never asks and never prints; whatever is in doubt is denied.
"""

import json
from typing import NamedTuple

LONGEST_REASON = 500


class Allowed(NamedTuple):
    pass


class Denied(NamedTuple):
    reason: str


def judge(code: int, *, out: bytes, err: bytes) -> Allowed | Denied:
    """Judge what `supervisor ask --json` said and how it ended."""
    try:
        reply = json.loads(out)
    except ValueError:
        reply = None
    fields: dict[str, object] = reply if isinstance(reply, dict) else {}
    if code == 0 and fields.get("approved", True) is True:  # a code and a reply that differ are a doubt
        return Allowed()
    reason = _one_line(fields["reason"]) if isinstance(fields.get("reason"), str) else ""
    said = _one_line(err.decode("utf-8", "replace").strip().rpartition("\n")[2])
    return Denied(reason or said or f"the ask ended with code {code} and gave no reason")


def _one_line(text: object) -> str:
    words = " ".join(str(text).split())
    return "".join(char for char in words if char.isprintable())[:LONGEST_REASON]
