"""Settings: typed, bounded, each with its default and reason. Pure; files are read by `adapters.settings_files`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from supervisor.core.errors import BadInput
from supervisor.core.rules import Rule, RuleSpec, plain
from supervisor.core.timing import ADOPTION_GRACE_MS, ENTRY_HEARTBEAT_MS, FORWARDING_TIMEOUT_MS, WATCHER_POLL_MS

MAX_RULES = 1000
MAX_WORDS = 64
_GIVE_WORDS = 'Give the program and its arguments: ["/usr/bin/x", "-y"]'


class Setting(Struct, frozen=True, kw_only=True):
    """One key: its default, bounds, unit and what it is for.

    Whole numbers have inclusive bounds `low` and `high`; `choices` are the words of a choice; `rules`: a list of rules;
    `argv`: the words of a command, which no shell sees; `flag`: on or off.
    """

    key: str
    default: Any
    about: str
    unit: str = ""
    low: int = 0
    high: int = 0
    choices: tuple[str, ...] = ()
    rules: bool = False
    argv: bool = False
    flag: bool = False

    @property
    def bounds(self) -> str:
        """For people."""
        if self.rules:
            return f"at most {MAX_RULES} rules"
        if self.argv:
            return f"at most {MAX_WORDS} words"
        if self.flag:
            return "true | false"
        return " | ".join(self.choices) if self.choices else f"{self.low}…{self.high}"


SETTINGS: Mapping[str, Setting] = {
    s.key: s
    for s in (
        Setting(
            key="processMatrix.enabled",
            default=True,
            flag=True,
            about="whether anything is recorded at all; without, agents are launched and nothing is written",
        ),
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
            about="how often a keeper looks for parents and children anyway, so that a lost wake-up is harmless",
        ),
        Setting(
            key="processMatrix.adoption_grace_ms",
            default=ADOPTION_GRACE_MS,
            low=5_000,
            high=3_600_000,
            unit="ms",
            about="how long an agent whose parent is lost lives on and may be adopted",
        ),
        Setting(
            key="transcripts.max_kib",
            default=64 * 1024,
            low=64,
            high=16 * 1024 * 1024,
            unit="KiB",
            about="cap of one agent's transcript; the older part is dropped",
        ),
        Setting(
            key="limits.max_depth",
            default=8,
            low=1,
            high=64,
            unit="levels",
            about="how deep a tree may grow, its master included",
        ),
        Setting(
            key="limits.max_children",
            default=128,
            low=1,
            high=10_000,
            unit="agents",
            about="how many live children one agent may have",
        ),
        Setting(
            key="limits.max_agents",
            default=1_000,
            low=1,
            high=100_000,
            unit="agents",
            about="how many live agents one state root may hold",
        ),
        Setting(
            key="asks.forwarding_timeout_ms",
            default=FORWARDING_TIMEOUT_MS,
            low=1_000,
            high=7 * 24 * 3600 * 1000,
            unit="ms",
            about="how long an ask waits for an answer; read at each ask",
        ),
        Setting(
            key="asks.mode",
            default="attended",
            choices=("attended", "rules", "hold"),
            about="when a session serves asks: while somebody attends, by rules alone, or always",
        ),
        Setting(
            key="asks.agents_allow",
            default="own",
            choices=("own", "any"),
            about="what an agent may allow its descendants: what it may do itself, or whatever no rule denies",
        ),
        Setting(
            key="asks.rules",
            default=(),
            rules=True,
            about="rules of every session, the last match wins",
        ),
        Setting(
            key="notify.tmux",
            default="message",
            choices=("message", "popup"),
            about="what tmux shows of a new ask: a line in the status bar, or besides an inbox above the panes",
        ),
        Setting(
            key="notify.command",
            default=(),
            argv=True,
            about="command that tells you of an ask; without one your desktop's notification",
        ),
    )
}


class Value(Struct, frozen=True):
    """A setting's value and where it comes from (`default`, or a file)."""

    key: str
    value: Any
    origin: str


def check(key: str, raw: Any, *, where: str = "") -> Any:
    """The value, if key, type and bounds are right.

    Raises:
        BadInput: names key, value and bounds (and the file).
    """
    at = f"{where}: " if where else ""
    setting = SETTINGS.get(key)
    if setting is None:
        raise BadInput(f"{at}there is no setting {key!r}", hint=f"Settings are: {', '.join(SETTINGS)}")
    if setting.rules:
        return _rules(key, raw, at)
    if setting.argv:
        return _words(key, raw, at)
    if setting.flag:
        if not isinstance(raw, bool):
            raise BadInput(f"{at}{key} = {raw!r} is out of bounds", hint="It is true or false")
        return raw
    if setting.choices:
        if raw not in setting.choices:
            raise BadInput(f"{at}{key} = {raw!r} is out of bounds", hint=f"It is one of {', '.join(setting.choices)}")
        return raw
    if isinstance(raw, bool) or not isinstance(raw, int):
        raise BadInput(f"{at}{key} = {raw!r} is no whole number of {setting.unit}")
    if not setting.low <= raw <= setting.high:
        raise BadInput(
            f"{at}{key} = {raw} is out of bounds",
            hint=f"It goes from {setting.low} to {setting.high} {setting.unit}",
        )
    return raw


def _rules(key: str, raw: Any, at: str) -> tuple[Rule, ...]:
    try:
        rules = msgspec.convert(raw, tuple[RuleSpec, ...])
    except msgspec.ValidationError as error:
        raise BadInput(f"{at}{key}: {error}", hint="A rule is { action, tool, value, reason }") from None
    if len(rules) > MAX_RULES:
        raise BadInput(f"{at}{key} holds {len(rules)} rules", hint=f"At most {MAX_RULES} are taken")
    return tuple(plain(r) for r in rules)


def _words(key: str, raw: Any, at: str) -> tuple[str, ...]:
    good = isinstance(raw, list | tuple) and len(raw) <= MAX_WORDS
    if not good or not all(isinstance(w, str) and len(w) <= 4096 and "\0" not in w for w in raw):
        raise BadInput(f"{at}{key} is no list of words", hint=_GIVE_WORDS)
    if raw and not raw[0]:
        raise BadInput(f"{at}{key} names no program", hint=_GIVE_WORDS)
    return tuple(raw)


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
