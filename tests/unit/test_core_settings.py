"""Settings: bounds, layers, and errors that name key, value and bounds."""

from typing import Any

import pytest

from supervisor.core.errors import BadInput
from supervisor.core.rules import Rule
from supervisor.core.settings import SETTINGS, Value, check, flatten, resolve

HEARTBEAT = "processMatrix.heartbeat_ms"
NUMBERS = [key for key, s in SETTINGS.items() if not s.choices and not s.rules and not s.argv and not s.flag]
CHOICES = [key for key, s in SETTINGS.items() if s.choices]


@pytest.mark.parametrize(
    ("key", "default", "low", "high"),
    [
        ("processMatrix.heartbeat_ms", 30_000, 1_000, 600_000),
        ("processMatrix.watcher_poll_ms", 25_000, 1_000, 600_000),
        ("transcripts.max_kib", 65_536, 64, 16_777_216),
        ("limits.max_depth", 8, 1, 64),
        ("limits.max_children", 128, 1, 10_000),
        ("limits.max_agents", 1_000, 1, 100_000),
        ("asks.forwarding_timeout_ms", 600_000, 1_000, 604_800_000),
    ],
)
def test_defaults_and_bounds_are_those_of_the_design(key: str, default: int, low: int, high: int) -> None:
    assert (default, low, high) == (SETTINGS[key].default, SETTINGS[key].low, SETTINGS[key].high)


@pytest.mark.parametrize("key", NUMBERS)
def test_both_bounds_are_inclusive(key: str) -> None:
    low, high = SETTINGS[key].low, SETTINGS[key].high
    assert [low, high] == [check(key, low), check(key, high)]


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("beyond", [-1, 1])
def test_out_of_bounds_names_key_value_and_bounds(key: str, beyond: int) -> None:
    setting = SETTINGS[key]
    raw = setting.low - 1 if beyond < 0 else setting.high + 1
    with pytest.raises(BadInput) as raised:
        check(key, raw)
    expected = f"{key} = {raw} is out of bounds. It goes from {setting.low} to {setting.high} {setting.unit}"
    assert expected == str(raised.value)


@pytest.mark.parametrize("raw", ["5000", 5000.0, True, None, [5000], {"ms": 5000}])
def test_what_is_no_whole_number_is_refused(raw: Any) -> None:
    with pytest.raises(BadInput) as raised:
        check(HEARTBEAT, raw)
    assert f"{HEARTBEAT} = {raw!r} is no whole number of ms" == raised.value.message


@pytest.mark.parametrize("key", CHOICES)
def test_a_choice_is_one_of_its_words(key: str) -> None:
    assert list(SETTINGS[key].choices) == [check(key, word) for word in SETTINGS[key].choices]


@pytest.mark.parametrize("key", CHOICES)
@pytest.mark.parametrize("raw", ["Attended", "", 1, None, ["rules"], {"rules": 1}])
def test_what_is_none_of_the_words_is_refused_with_them(key: str, raw: Any) -> None:
    with pytest.raises(BadInput) as raised:
        check(key, raw)
    assert (f"{key} = {raw!r} is out of bounds", f"It is one of {', '.join(SETTINGS[key].choices)}") == (
        raised.value.message,
        raised.value.hint,
    )


@pytest.mark.parametrize("raw", [[], ["/usr/bin/x"], ["x", "", "two words", "$(x)"]])
def test_a_command_is_a_list_of_words(raw: list[str]) -> None:
    assert check("notify.command", raw) == tuple(raw)


@pytest.mark.parametrize("raw", ["x -y", 1, None, ["x", 1], [""], ["x\0"], ["x"] * 65, {"x": 1}, [["x"]]])
def test_what_is_no_command_is_refused(raw: Any) -> None:
    with pytest.raises(BadInput, match="notify.command"):
        check("notify.command", raw)


def test_rules_are_typed() -> None:
    assert (Rule(action="deny", tool="Bash", value="rm *"),) == check(
        "asks.rules", [{"action": "deny", "tool": "Bash", "value": "rm *"}]
    )


@pytest.mark.parametrize("raw", ["allow", [{"action": "maybe"}], [{"tool": "x"}], [{"action": "deny", "x": 1}], 5])
def test_a_malformed_rule_is_refused(raw: Any) -> None:
    with pytest.raises(BadInput, match=r"^asks\.rules: "):
        check("asks.rules", raw)


def test_there_is_a_bound_on_rules() -> None:
    with pytest.raises(BadInput, match="holds 1001 rules"):
        check("asks.rules", [{"action": "ask"}] * 1001)


def test_an_unknown_key_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadInput) as raised:
        check("processMatrix.hartbeat_ms", 1)
    assert all(key in raised.value.hint for key in SETTINGS)


def test_an_error_names_its_file() -> None:
    with pytest.raises(BadInput, match=r"^/etc/settings\.toml: processMatrix\.heartbeat_ms = 1 is out of bounds"):
        check(HEARTBEAT, 1, where="/etc/settings.toml")


@pytest.mark.parametrize(
    ("table", "flat"),
    [
        ({}, {}),
        ({"processMatrix": {}}, {}),
        ({"processMatrix": {"heartbeat_ms": 1}}, {HEARTBEAT: 1}),
        ({"top": 1}, {"top": 1}),
        ({"a": {"b": {"c": 1}}}, {"a.b": {"c": 1}}),
        ({"a": {"x": 1, "y": 2}, "b": {"x": 3}}, {"a.x": 1, "a.y": 2, "b.x": 3}),
    ],
)
def test_sections_become_dotted_keys(table: dict[str, Any], flat: dict[str, Any]) -> None:
    assert flat == flatten(table)


def test_without_files_everything_is_the_default() -> None:
    assert {k: Value(k, s.default, "default") for k, s in SETTINGS.items()} == resolve([])


def test_a_later_layer_wins_and_says_where_it_is_from() -> None:
    found = resolve([("user.toml", {HEARTBEAT: 2000}), ("root.toml", {HEARTBEAT: 3000})])
    assert Value(HEARTBEAT, 3000, "root.toml") == found[HEARTBEAT]


@pytest.mark.parametrize("table", [{"nonsense": 1}, {HEARTBEAT: 0}, {"processMatrix": 5}])
def test_a_bad_value_in_any_layer_is_refused_with_its_file(table: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"^user\.toml: "):
        resolve([("user.toml", table), ("root.toml", {HEARTBEAT: 3000})])


@pytest.mark.parametrize("raw", [0, 1, "true", None, []])
def test_a_switch_is_true_or_false_and_nothing_else(raw: object) -> None:
    assert [check("processMatrix.enabled", v) for v in (True, False)] == [True, False]
    with pytest.raises(BadInput, match="It is true or false"):
        check("processMatrix.enabled", raw)
