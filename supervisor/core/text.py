"""Text for people and records: bounded, and harmless on a terminal. Owns no state."""

from __future__ import annotations

import re

# C0 and C1 controls (an escape sequence is dead without its ESC or CSI), the bidirectional overrides that can make a
# command read as another one, what is not seen (so that nothing hides: soft hyphen, joiners, fillers, annotations,
# tags; not the variation selectors of emoji), and lone surrogates (undecodable bytes), which no stream takes.
_HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)


def printable(text: str) -> str:
    """Replace control and bidi-override characters by `\\xNN`-style text; newline and tab stay."""
    return _HARMFUL.sub(lambda m: f"\\x{ord(m.group()):02x}", text)


def is_text(text: str) -> bool:
    """Whether a record can hold it: undecodable bytes of a command line are lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def escaped_json(text: str) -> str:
    """JSON whose strings cannot drive a terminal: what is harmful there stands as `\\uNNNN`, for readers the same."""
    return _HARMFUL.sub(_json_escape, text)


def _json_escape(found: re.Match[str]) -> str:
    """Its UTF-16 units, as JSON writes what lies beyond them: two for a tag."""
    units = found.group().encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def one_line(text: str, limit: int = 200) -> str:
    """`printable`, on one line, cut to `limit` characters with an ellipsis."""
    flat = printable(text.replace("\n", " ").replace("\t", " "))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def bounded(text: str, limit: int) -> str:
    """At most `limit` characters of `text` (records keep no more than their bound)."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def span(ms: float) -> str:
    """A duration for people: `480ms`, `12s`, `3m 05s`, `2h 10m`, `3d 4h`. Negative reads as `0ms`."""
    ms = max(ms, 0)
    if ms < 1000:
        return f"{int(ms)}ms"
    s = int(ms // 1000)
    if s < 60:
        return f"{s}s"
    if s < 3600:
        return f"{s // 60}m {s % 60:02d}s"
    if s < 86400:
        return f"{s // 3600}h {s % 3600 // 60:02d}m"
    return f"{s // 86400}d {s % 86400 // 3600}h"
