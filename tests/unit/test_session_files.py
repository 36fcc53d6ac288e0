"""Where a CLI keeps its session: patterns, filled with the agent's variables and its session."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.adapters.session_files import SystemSessionFiles, expand

ENV = {"HOME": "/h", "DIR": "/d", "STAR": "/a*b", "EMPTY": ""}
SESSION = "0b6f5a3c-1111-4222-8333-444455556666"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("~/x/{session_id}.jsonl", f"/h/x/{SESSION}.jsonl"),
        ("$DIR/*/{session_id:8}.jsonl", "/d/*/0b6f5a3c.jsonl"),
        ("$STAR/{session_id}", f"/a*b/{SESSION}"),
        ("$STAR/*/x", "/a[*]b/*/x"),
        ("$NONE/{session_id}", None),
        ("$EMPTY/{session_id}", None),
        ("~/{session_id:0}", "/h/{session_id:0}"),
    ],
)
def test_a_pattern_is_filled_in(pattern: str, expected: str | None) -> None:
    assert expand(pattern, ENV, SESSION) == expected


def test_without_a_session_a_pattern_that_names_it_leads_nowhere() -> None:
    assert expand("~/{session_id}", ENV, None) is None
    assert expand("~/{session_id:8}", ENV, None) is None
    assert expand("~/x", ENV, None) == "/h/x"


def test_what_a_session_is_called_is_no_pattern(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "other").touch()
    files = SystemSessionFiles()
    assert files.find((f"{tmp_path}/*/{{session_id}}",), {}, "*") is None
    assert files.find((f"{tmp_path}/*/{{session_id}}",), {}, "other") == str(tmp_path / "a" / "other")


def test_the_first_pattern_that_leads_to_a_file_counts(tmp_path: Path) -> None:
    (tmp_path / "2").touch()
    assert SystemSessionFiles().find(("$NONE/x", f"{tmp_path}/1", f"{tmp_path}/2"), {}, None) == str(tmp_path / "2")
