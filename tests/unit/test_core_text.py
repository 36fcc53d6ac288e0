"""Text for people and records: bounded, harmless, and always writable."""

import json

import pytest

from supervisor.core.text import bounded, escaped_json, one_line, printable, span


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain, with ünï✓ and 😀", "plain, with ünï✓ and 😀"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x9b31m", "\\x9b31m"),
        ("over\rwritten", "over\\x0dwritten"),
        ("bell\x07 back\x08 del\x7f nul\0", "bell\\x07 back\\x08 del\\x7f nul\\x00"),
        ("rm \u202efdp.txt", "rm \\x202efdp.txt"),
        ("\u2066isolated\u2069", "\\x2066isolated\\x2069"),
        ("\u200e\u200f\u061c", "\\x200e\\x200f\\x61c"),
        ("line\x0bfeed\x0c\x85", "line\\x0bfeed\\x0c\\x85"),
        ("ls\u00ad\u2061\u3164\U000e0072\U000e006d", "ls\\xad\\x2061\\x3164\\xe0072\\xe006d"),
        ("❤️ and 👍🏽", "❤️ and 👍🏽"),
    ],
)
def test_control_and_bidi_characters_are_shown_not_obeyed(raw: str, shown: str) -> None:
    assert shown == printable(raw)


def test_escaped_json_says_the_same_with_nothing_hidden_in_it() -> None:
    value = {"a\x7f": ["\u202e", "\u00ad", "\U000e0072", "plain ✓ 😀"]}
    shown = escaped_json(json.dumps(value, ensure_ascii=False))
    assert (json.loads(shown), shown) == (value, printable(shown))


@pytest.mark.parametrize("raw", ["caf\udce9", "\ud800", "\udfff!"])
def test_what_is_printable_can_be_written_anywhere(raw: str) -> None:
    """Names of files and command lines that are not UTF-8 reach us with surrogates; records and terminals take none."""
    assert printable(raw).encode().decode() == printable(raw)


@pytest.mark.parametrize(
    ("raw", "limit", "shown"),
    [
        ("short", 10, "short"),
        ("exactly10!", 10, "exactly10!"),
        ("more than ten", 10, "more than…"),
        ("two\nlines\there", 20, "two lines here"),
        ("\x1b[31m", 20, "\\x1b[31m"),
        ("\x1b" * 10, 10, "\\x1b\\x1b\\…"),
    ],
)
def test_one_line_is_one_line_within_its_limit(raw: str, limit: int, shown: str) -> None:
    assert shown == one_line(raw, limit)


@pytest.mark.parametrize(("raw", "limit", "kept"), [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("", 3, "")])
def test_a_record_keeps_no_more_than_its_bound(raw: str, limit: int, kept: str) -> None:
    assert kept == bounded(raw, limit)


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (-5, "0ms"),
        (0, "0ms"),
        (480.9, "480ms"),
        (999, "999ms"),
        (1000, "1s"),
        (59_999, "59s"),
        (60_000, "1m 00s"),
        (185_000, "3m 05s"),
        (3_600_000, "1h 00m"),
        (7_800_000, "2h 10m"),
        (86_400_000, "1d 0h"),
        (273_600_000, "3d 4h"),
    ],
)
def test_a_duration_reads_as_people_say_it(ms: float, shown: str) -> None:
    assert shown == span(ms)
