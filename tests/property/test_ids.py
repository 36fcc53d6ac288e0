"""Encoded ids: one file for each id, and never a way out of the folder."""

from urllib.parse import quote, unquote

from hypothesis import example, given
from hypothesis import strategies as st

from supervisor.core.ids import MAX_ID_BYTES, agent_name, encode, session_id
from supervisor.core.text import one_line, printable
from tests.property.strategies import session_ids

texts = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60)


@given(texts)
@example("!~*'()-_.")
def test_encoding_is_that_of_javascript(raw: str) -> None:
    assert quote(raw, safe="!~*'()") == encode(raw)


@given(texts)
def test_encoding_can_be_undone_so_no_two_ids_share_a_file(raw: str) -> None:
    assert raw == unquote(encode(raw))


@given(session_ids)
@example("...")
@example("a/../..")
def test_an_accepted_id_is_a_plain_file_name(accepted: str) -> None:
    name = encode(accepted)
    assert ("/" in name, "\0" in name, name in ("", ".", ".."), len(name) <= MAX_ID_BYTES) == (
        False,
        False,
        False,
        True,
    )


@given(session_ids)
def test_accepting_twice_is_accepting_once(accepted: str) -> None:
    assert accepted == session_id(accepted)


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True))
def test_an_agents_name_needs_no_encoding(name: str) -> None:
    assert (name, name) == (agent_name(name), encode(name))


@given(texts)
def test_printable_text_moves_no_cursor_and_is_stable(raw: str) -> None:
    shown = printable(raw)
    assert (shown, []) == (printable(shown), [c for c in shown if ord(c) < 32 and c not in "\n\t"])


@given(texts, st.integers(1, 40))
def test_one_line_is_never_longer_than_asked(raw: str, limit: int) -> None:
    line = one_line(raw, limit)
    assert (len(line) <= limit, "\n" in line) == (True, False)
