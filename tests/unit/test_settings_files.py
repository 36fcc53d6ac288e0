"""Settings as files: layers, bounds, and what a write leaves behind."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest

from supervisor.adapters.settings_files import SettingsFiles
from supervisor.core.errors import BadInput
from supervisor.core.settings import SETTINGS

BEAT = "processMatrix.heartbeat_ms"


class Layers:
    """The two files of one test."""

    def __init__(self, folder: Path) -> None:
        self.user = folder / "config" / "settings.toml"
        self.root = folder / "home" / "settings.toml"
        self.user.parent.mkdir()
        self.root.parent.mkdir()
        self.files = SettingsFiles(user=str(self.user.parent), root=str(self.root))


@pytest.fixture
def layers(tmp_path: Path) -> Layers:
    return Layers(tmp_path)


def test_without_files_everything_is_its_default(layers: Layers) -> None:
    values = layers.files.values()
    assert {k: v.value for k, v in values.items()} == {k: s.default for k, s in SETTINGS.items()}
    assert {v.origin for v in values.values()} == {"default"}


def test_the_users_file_overrides_the_default(layers: Layers) -> None:
    layers.user.write_text("[processMatrix]\nheartbeat_ms = 2000\n")
    value = layers.files.values()[BEAT]
    assert (value.value, value.origin) == (2000, str(layers.user))


def test_the_state_roots_file_overrides_the_users(layers: Layers) -> None:
    layers.user.write_text("[processMatrix]\nheartbeat_ms = 2000\nwatcher_poll_ms = 3000\n")
    layers.root.write_text("[processMatrix]\nheartbeat_ms = 4000\n")
    values = layers.files.values()
    assert (values[BEAT].value, values[BEAT].origin) == (4000, str(layers.root))
    assert values["processMatrix.watcher_poll_ms"].value == 3000


def test_a_dotted_key_is_the_same_key(layers: Layers) -> None:
    layers.user.write_text("processMatrix.heartbeat_ms = 2000\n")
    assert layers.files.values()[BEAT].value == 2000


def test_without_a_home_directory_only_the_root_is_read(tmp_path: Path) -> None:
    root = tmp_path / "settings.toml"
    root.write_text("[processMatrix]\nheartbeat_ms = 4000\n")
    assert SettingsFiles(user="", root=str(root)).values()[BEAT].value == 4000


@pytest.mark.parametrize("value", [1_000, 600_000])
def test_the_bounds_themselves_are_allowed(layers: Layers, value: int) -> None:
    assert layers.files.set(BEAT, value).value == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[processMatrix]\nheartbeat_ms = 999\n", "processMatrix.heartbeat_ms = 999 is out of bounds"),
        ("[processMatrix]\nheartbeat_ms = 600001\n", "processMatrix.heartbeat_ms = 600001 is out of bounds"),
        ("[processMatrix]\nheartbeat_ms = 2.5\n", "processMatrix.heartbeat_ms = 2.5 is no whole number"),
        ("[processMatrix]\nheartbeat_ms = true\n", "processMatrix.heartbeat_ms = True is no whole number"),
        ('[processMatrix]\nheartbeat_ms = "2000"\n', "is no whole number"),
        ("[processMatrix]\nhartbeat_ms = 2000\n", "there is no setting 'processMatrix.hartbeat_ms'"),
        ("heartbeat_ms = 2000\n", "there is no setting 'heartbeat_ms'"),
        ("[processMatrix\n", "(at line 1"),
    ],
)
def test_a_bad_file_is_named_with_key_and_reason(layers: Layers, text: str, said: str) -> None:
    layers.user.write_text(text)
    with pytest.raises(BadInput) as refused:
        layers.files.values()
    assert str(layers.user) in str(refused.value)
    assert said in str(refused.value)


def test_the_bounds_are_named_with_the_value(layers: Layers) -> None:
    with pytest.raises(BadInput) as refused:
        layers.files.set(BEAT, 1)
    assert str(refused.value) == f"{BEAT} = 1 is out of bounds. It goes from 1000 to 600000 ms"


@pytest.mark.parametrize(("key", "value"), [(BEAT, 1), (BEAT, 10**9), ("no.such", 5)])
def test_a_refused_write_leaves_no_file(layers: Layers, key: str, value: int) -> None:
    with pytest.raises(BadInput):
        layers.files.set(key, value)
    assert list(layers.root.parent.iterdir()) == []


def test_a_refused_write_leaves_the_file_as_it_was(layers: Layers) -> None:
    layers.files.set(BEAT, 5000)
    before = layers.root.read_bytes()
    with pytest.raises(BadInput):
        layers.files.set(BEAT, 1)
    assert layers.root.read_bytes() == before


def test_a_write_goes_to_the_state_root_and_keeps_the_other_keys(layers: Layers) -> None:
    layers.user.write_text("[transcripts]\nmax_kib = 100\n")
    layers.files.set(BEAT, 5000)
    layers.files.set("processMatrix.watcher_poll_ms", 7000)
    written = tomllib.loads(layers.root.read_text())
    assert written == {"processMatrix": {"heartbeat_ms": 5000, "watcher_poll_ms": 7000}}
    assert layers.files.values()["transcripts.max_kib"].value == 100


def test_a_written_file_is_its_owners_alone(layers: Layers) -> None:
    layers.files.set(BEAT, 5000)
    assert stat.S_IMODE(layers.root.stat().st_mode) == 0o600


def test_a_malformed_file_of_the_root_is_not_written_over(layers: Layers) -> None:
    layers.root.write_text("[processMatrix\n")
    with pytest.raises(BadInput):
        layers.files.set(BEAT, 5000)
    assert layers.root.read_text() == "[processMatrix\n"
