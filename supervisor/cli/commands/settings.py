"""`supervisor settings`: show and set settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from supervisor.cli.common import json_option, note, open_context, print_json, say

if TYPE_CHECKING:
    from collections.abc import Sequence


def _complete_keys(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> Sequence[str]:
    from supervisor.core.settings import SETTINGS

    return [key for key in SETTINGS if key.startswith(incomplete)]


@click.group("settings", epilog="Example: supervisor settings set processMatrix.heartbeat_ms 10000")
def command() -> None:
    """Show and set settings.

    A default is overridden by your settings.toml in the configuration folder, and that by the state root's.
    """


@command.command("show", epilog="Example: supervisor settings show --json")
@json_option
def show(as_json: bool) -> None:
    """Show every setting: value, unit, where it comes from, its bounds, and what it is for."""
    from supervisor.cli.tables import print_table
    from supervisor.core.settings import SETTINGS

    values = open_context(prepare=False).settings.values()
    pairs = [(SETTINGS[key], values[key]) for key in SETTINGS]
    if as_json:
        print_json(
            [
                {
                    "key": s.key,
                    "value": v.value,
                    "unit": s.unit,
                    "origin": v.origin,
                    "default": s.default,
                    "bounds": s.bounds,
                    "about": s.about,
                }
                for s, v in pairs
            ]
        )
        return
    rows = [(s.key, _text(v.value), s.unit, v.origin, s.bounds, s.about) for s, v in pairs]
    print_table(("KEY", "VALUE", "UNIT", "ORIGIN", "BOUNDS", "WHAT FOR"), rows)


def _text(value: object) -> str:
    import shlex

    if isinstance(value, bool):
        return str(value).lower()

    if isinstance(value, tuple):
        words = [v for v in value if isinstance(v, str)]
        return shlex.join(words) if words else f"{len(value)} rules" if value else "none"
    return str(value)


@command.command(
    "set",
    context_settings={"ignore_unknown_options": True},  # a negative number is a bad value, not an option
    epilog="Example: supervisor settings set transcripts.max_kib 131072",
)
@click.argument("key", shell_complete=_complete_keys)
@click.argument("value", type=click.UNPROCESSED)
@json_option
def set_(key: str, value: str, as_json: bool) -> None:
    """Write one setting to the state root's settings.toml.

    What concerns asks is in force at once, the rest for keepers that are started from now on.
    """
    context = open_context(records=False)
    written = context.settings.set(key, _parsed(key, value))
    if as_json:
        print_json({"key": written.key, "value": written.value, "origin": written.origin})
    else:
        say(f"{written.key} = {_text(written.value)} ({written.origin})")
    if not key.startswith(("asks.", "notify.")):
        note("keepers that run already go on with what they were started with")


def _parsed(key: str, raw: str) -> Any:
    """The value as its setting takes it: a whole number, a word, or rules as JSON.

    Raises:
        BadInput: an unknown key, or a malformed value: names key, value and bounds.
    """
    import json
    import re

    from supervisor.core.errors import BadInput
    from supervisor.core.settings import SETTINGS, check

    setting = SETTINGS.get(key)
    if setting is None or setting.choices:
        return check(key, raw)
    if setting.rules:
        try:
            rules = json.loads(raw)
        except (ValueError, RecursionError):
            raise BadInput(f"{key} = {raw[:60]!r} is no JSON", hint="Give a JSON array of rules") from None
        check(key, rules)
        return [
            {name: value for name, value in rule.items() if value is not None} for rule in rules
        ]  # TOML has no null
    if setting.argv:
        try:
            return list(check(key, json.loads(raw)))
        except (ValueError, RecursionError):
            raise BadInput(f"{key} = {raw[:60]!r} is no JSON", hint="Give a JSON array of words") from None
    if setting.flag:
        return check(key, {"true": True, "false": False}.get(raw, raw))
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", raw):
        raise BadInput(
            f"{key} = {raw[:60]!r} is no whole number of {setting.unit}",
            hint=f"It goes from {setting.low} to {setting.high} {setting.unit}",
        )
    return int(raw)
