"""Identifiers: what is a valid one, and its safe file name. Owns no state; never touches a file."""

from __future__ import annotations

import re

from supervisor.core.errors import BadInput

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!~*'()")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_PLAIN = re.compile(r"[A-Za-z0-9_.!~*'()-]*\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\Z")
MAX_ID_BYTES = 200


def encode(identifier: str) -> str:
    """Percent-encode as JavaScript's `encodeURIComponent` does, so that pi and we name the same file."""
    if _PLAIN.match(identifier):
        return identifier
    return "".join(chr(b) if b in _UNRESERVED else f"%{b:02X}" for b in identifier.encode())


def uuid4_of(random: bytes) -> str:
    """16 random bytes as a version 4 UUID (RFC 9562): the `uuid` module costs a millisecond and a shared library."""
    bits = int.from_bytes(random, "big")
    bits = bits & ~(0xF << 76) | 0x4 << 76
    text = f"{bits & ~(0x3 << 62) | 0x2 << 62:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_uuid(text: str) -> bool:
    """Whether a text is a UUID in its usual form."""
    return _UUID.match(text) is not None


def session_id(raw: str) -> str:
    """The trimmed session id.

    Raises:
        BadInput: empty, `unknown`, `.`, `..`, a leading `-` (an option to a CLI that is resumed), over 200 bytes
            (encoded: it becomes a file name), control characters, or not encodable as UTF-8.
    """
    text = raw.strip()
    if not text or text.startswith("-") or text.lower() == "unknown" or text in {".", ".."}:
        raise BadInput(f"{raw!r} is no session id")
    if _CONTROL.search(text):
        raise BadInput(f"session id {raw!r} holds control characters")
    try:
        too_long = len(encode(text)) > MAX_ID_BYTES
    except UnicodeEncodeError:
        raise BadInput(f"session id {raw!r} is not valid text") from None
    if too_long:
        raise BadInput(f"session id {text[:40]!r}… is longer than {MAX_ID_BYTES} bytes")
    return text


def agent_name(raw: str) -> str:
    """A name for people: letters, digits, `.`, `_`, `-`, at most 64, not starting with punctuation.

    Raises:
        BadInput: anything else.
    """
    if not _NAME.match(raw):
        raise BadInput(
            f"{raw[:80]!r} is no agent name",
            hint="Use 1-64 letters, digits, '.', '_' or '-', starting with a letter or digit",
        )
    return raw
