"""Settings: typed, bounded, each with its default and reason. Pure; files are read by `adapters.settings_files`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from supervisor.core.errors import BadInput
from supervisor.core.timing import ENTRY_HEARTBEAT_MS, WATCHER_POLL_MS


class Setting(Struct, frozen=True, kw_only=True):
    """One key: its default, inclusive bounds, unit and what it is for."""

    key: str
    default: int
    low: int
    high: int
    unit: str
    about: str


SETTINGS: Mapping[str, Setting] = {
    s.key: s
    for s in (
        Setting(
            key="processMatrix.heartbeat_ms",
            default=ENTRY_HEARTBEAT_MS,
            low=1_000,
            high=600_000,
            unit="ms",
            about="how often heartbeatAt inside an entry is renewed",
        ),
        Setting(
            key="processMatrix.watcher_poll_ms",
            default=WATCHER_POLL_MS,
            low=1_000,
            high=600_000,
            unit="ms",
            about="the slow look of keepers and views that makes a lost wake-up harmless",
        ),
        Setting(
            key="transcripts.max_kib",
            default=64 * 1024,
            low=64,
            high=16 * 1024 * 1024,
            unit="KiB",
            about="cap of one agent's transcript; the older part is dropped",
        ),
    )
}


class Value(Struct, frozen=True):
    """A setting's value and where it comes from (`default`, or a file)."""

    key: str
    value: int
    origin: str


def check(key: str, raw: Any, *, where: str = "") -> int:
    """The value, if key, type and bounds are right.

    Raises:
        BadInput: names key, value and bounds (and the file).
    """
    at = f"{where}: " if where else ""
    setting = SETTINGS.get(key)
    if setting is None:
        raise BadInput(f"{at}there is no setting {key!r}", hint=f"Settings are: {', '.join(SETTINGS)}")
    if isinstance(raw, bool) or not isinstance(raw, int):
        raise BadInput(f"{at}{key} = {raw!r} is no whole number of {setting.unit}")
    if not setting.low <= raw <= setting.high:
        raise BadInput(
            f"{at}{key} = {raw} is out of bounds",
            hint=f"It goes from {setting.low} to {setting.high} {setting.unit}",
        )
    return raw


def flatten(table: Mapping[str, Any]) -> dict[str, Any]:
    """`{"processMatrix": {"heartbeat_ms": 1}}` → `{"processMatrix.heartbeat_ms": 1}`."""
    return {
        f"{section}.{key}" if isinstance(values, Mapping) else section: value
        for section, values in table.items()
        for key, value in (values.items() if isinstance(values, Mapping) else [(section, values)])
    }


def resolve(layers: list[tuple[str, Mapping[str, Any]]]) -> dict[str, Value]:
    """Every setting's value; later layers `(origin, flat table)` win.

    Raises:
        BadInput: an unknown key or a bad value, naming its file.
    """
    values = {s.key: Value(s.key, s.default, "default") for s in SETTINGS.values()}
    for origin, table in layers:
        for key, raw in table.items():
            values[key] = Value(key, check(key, raw, where=origin), origin)
    return values
