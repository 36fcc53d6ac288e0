"""`supervisor settings`: what is shown, and that a refused value names key, value and bounds and writes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisor.cli.main import run
from supervisor.core.settings import SETTINGS

BEAT = "processMatrix.heartbeat_ms"


def rows_of(out: str) -> dict[str, list[str]]:
    return {line.split("\t")[0]: line.split("\t")[1:] for line in out.splitlines()}


def test_every_setting_is_shown_with_its_unit_origin_and_bounds(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["settings", "show"]) == 0
    rows = rows_of(capsys.readouterr().out)
    assert set(rows) == {"KEY", *SETTINGS}
    assert rows[BEAT][:4] == ["30000", "ms", "default", "1000…600000"]


def test_settings_are_shown_before_there_is_a_state_root(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SUPERVISOR_HOME", str(home / "later"))
    assert run(["settings", "show"]) == 0
    assert BEAT in capsys.readouterr().out
    assert not (home / "later").exists()


def test_json_says_the_same_as_data(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["settings", "set", BEAT, "2000"]) == 0
    capsys.readouterr()
    assert run(["settings", "show", "--json"]) == 0
    shown = {s["key"]: s for s in json.loads(capsys.readouterr().out)}
    assert shown[BEAT]["value"] == 2000
    assert shown[BEAT]["origin"] == str(home / "settings.toml")
    assert (shown[BEAT]["default"], shown[BEAT]["bounds"]) == (30_000, "1000…600000")


def test_a_set_value_is_shown_from_then_on(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["settings", "set", BEAT, "2000"]) == 0
    assert f"{BEAT} = 2000 ({home}/settings.toml)" in capsys.readouterr().out
    assert run(["settings", "show"]) == 0
    assert rows_of(capsys.readouterr().out)[BEAT][:3] == ["2000", "ms", str(home / "settings.toml")]


@pytest.mark.parametrize("value", ["999", "600001", "-5", "0", "abc", "2.5", "", "1e4", "5000ms", "9" * 5000])
def test_a_bad_value_is_refused_with_key_value_and_bounds(
    home: Path, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    assert run(["settings", "set", BEAT, value]) == 1
    said = capsys.readouterr().err
    assert f"{BEAT} = " in said
    assert value[:40] in said
    assert "It goes from 1000 to 600000 ms" in said
    assert not (home / "settings.toml").exists()


def test_a_word_is_taken_where_there_is_a_choice(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["settings", "set", "asks.mode", "hold"]) == 0
    assert capsys.readouterr().err == ""
    assert run(["settings", "set", "asks.mode", "sometimes"]) == 1
    assert "asks.mode = 'sometimes' is out of bounds. It is one of attended, rules, hold" in capsys.readouterr().err
    run(["settings", "show"])
    assert rows_of(capsys.readouterr().out)["asks.mode"][0] == "hold"


def test_rules_are_taken_as_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = '[{"action": "deny", "tool": "Bash", "reason": null}, {"action": "allow", "value": "ls *"}]'
    assert run(["settings", "set", "asks.rules", given]) == 0
    assert "asks.rules = 2 rules" in capsys.readouterr().out
    run(["settings", "show", "--json"])
    shown = {s["key"]: s for s in json.loads(capsys.readouterr().out)}
    assert [r["action"] for r in shown["asks.rules"]["value"]] == ["deny", "allow"]


@pytest.mark.parametrize(
    "value", ["nonsense", "{}", '[{"action": "maybe"}]', '[{"action": "deny", "colour": 1}]', "[1]"]
)
def test_bad_rules_are_refused_and_nothing_is_written(
    home: Path, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    assert run(["settings", "set", "asks.rules", value]) == 1
    assert "asks.rules" in capsys.readouterr().err
    assert not (home / "settings.toml").exists()


def test_an_unknown_key_is_refused_with_those_there_are(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["settings", "set", "processMatrix.nope", "5"]) == 1
    said = capsys.readouterr().err
    assert "'processMatrix.nope'" in said
    assert BEAT in said
    assert not (home / "settings.toml").exists()


def test_a_refused_value_leaves_the_old_one(home: Path) -> None:
    run(["settings", "set", BEAT, "2000"])
    before = (home / "settings.toml").read_bytes()
    assert run(["settings", "set", BEAT, "1"]) == 1
    assert (home / "settings.toml").read_bytes() == before


def test_a_malformed_file_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "settings.toml").write_text("[processMatrix]\nheartbeat_ms = 1\n")
    assert run(["settings", "show"]) == 1
    said = capsys.readouterr().err
    assert f"{home}/settings.toml" in said
    assert "heartbeat_ms = 1 is out of bounds" in said


def test_control_bytes_of_a_key_do_not_reach_the_terminal(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["settings", "set", "\x1b]0;evil\x07", "5"]) == 1
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["settings", "--help"], ["settings", "show", "--help"], ["settings", "set", "--help"]]
)
def test_help_holds_an_example(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 0
    assert "Example: supervisor settings" in capsys.readouterr().out
