"""Identifiers: JavaScript's encodeURIComponent, and what is refused."""

from urllib.parse import quote

import pytest

from supervisor.core.errors import BadInput
from supervisor.core.ids import MAX_ID_BYTES, agent_name, encode, session_id

# the samples that were run against real pi processes, and the rest of ECMA-262's unreserved marks
TABLE = [
    ("01a22c2e-7ba3-7088-8bcd-5f2fd2b7a001", "01a22c2e-7ba3-7088-8bcd-5f2fd2b7a001"),
    ("a/b c%", "a%2Fb%20c%25"),
    ("ünï✓", "%C3%BCn%C3%AF%E2%9C%93"),
    ("(x)!*'~", "(x)!*'~"),
    ("sp", "sp"),
    ("a:b", "a%3Ab"),
    ("a+b", "a%2Bb"),
    ("../../escape", "..%2F..%2Fescape"),
    ("..", ".."),
    (".", "."),
    ("x" * 300, "x" * 300),
    ("", ""),
    ("-_.!~*'()", "-_.!~*'()"),
    (";/?:@&=+$,#", "%3B%2F%3F%3A%40%26%3D%2B%24%2C%23"),
    ('"<>\\^`{|}[]', "%22%3C%3E%5C%5E%60%7B%7C%7D%5B%5D"),
    ("\0\n\x7f", "%00%0A%7F"),
    ("😀", "%F0%9F%98%80"),
]


@pytest.mark.parametrize(("raw", "encoded"), TABLE)
def test_an_id_is_encoded_as_javascript_does(raw: str, encoded: str) -> None:
    assert encoded == encode(raw)


def test_every_character_is_encoded_as_encode_uri_component_does() -> None:
    characters = [chr(n) for n in (*range(0x800), 0x2713, 0xFFFD, 0x1F600)]
    assert [quote(c, safe="!~*'()") for c in characters] == [encode(c) for c in characters]


def test_a_lone_surrogate_has_no_file_name() -> None:
    with pytest.raises(UnicodeEncodeError):
        encode("\ud800")


@pytest.mark.parametrize(
    ("raw", "accepted"),
    [
        ("01a22c2e-7ba3-7088", "01a22c2e-7ba3-7088"),
        ("  sp  ", "sp"),
        ("a/b c%", "a/b c%"),
        ("../../escape", "../../escape"),
        ("...", "..."),
        ("unknown-1", "unknown-1"),
        ("ünï✓", "ünï✓"),
        ("x" * MAX_ID_BYTES, "x" * MAX_ID_BYTES),
        ("é" * (MAX_ID_BYTES // 6), "é" * (MAX_ID_BYTES // 6)),
    ],
)
def test_a_session_id_is_trimmed_and_kept(raw: str, accepted: str) -> None:
    assert accepted == session_id(raw)


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "   ",
        "\t\n",
        "-rf",
        " --dangerously-skip-permissions",
        ".",
        "..",
        " .. ",
        "unknown",
        "Unknown",
        " UNKNOWN ",
        "a\nb",
        "a\0b",
        "\x1b[31m",
        "a\x7fb",
        "a\x85b",
        "\ud800",
        "x" * (MAX_ID_BYTES + 1),
        "é" * (MAX_ID_BYTES // 6 + 1),
    ],
)
def test_what_can_be_no_session_is_refused(raw: str) -> None:
    with pytest.raises(BadInput):
        session_id(raw)


@pytest.mark.parametrize("raw", ["a", "Lead-2", "v1.2_x", "9", "x" * 64])
def test_an_agent_name_is_kept(raw: str) -> None:
    assert raw == agent_name(raw)


@pytest.mark.parametrize(
    "raw", ["", "-rf", ".hidden", "_x", "a b", "a/b", "a\n", "ünï", "x" * 65, "a\x1b[31m", "{name}", "a\0"]
)
def test_what_is_no_agent_name_is_refused_with_what_to_do(raw: str) -> None:
    with pytest.raises(BadInput) as raised:
        agent_name(raw)
    assert raised.value.hint.startswith("Use 1-64 letters")


def test_a_refusal_repeats_no_control_characters() -> None:
    with pytest.raises(BadInput) as raised:
        agent_name("\x1b[31m\x07")
    assert raised.value.message.isprintable()
