"""Settings as TOML: the user's file under the state root's. Owns both; writes only files that it made or can keep."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from supervisor.adapters.atomic_file import write_atomic
from supervisor.adapters.toml_files import read_toml
from supervisor.core.errors import NotFound
from supervisor.core.settings import Value, check, flatten, resolve


class SettingsFiles:
    """Reads layers in order: default, the user's file, the state root's file."""

    def __init__(self, *, user: str, root: str) -> None:
        self._paths = [p for p in (os.path.join(user, "settings.toml") if user else "", root) if p]
        self._root = root

    def values(self) -> Mapping[str, Value]:
        """Every setting with its origin.

        Raises:
            BadInput: a malformed file, an unknown key, a bad value.
        """
        return resolve([(path, table) for path in self._paths if (table := self._flat(path))])

    def set(self, key: str, raw: Any) -> Value:
        """Write one value to the state root's file.

        Raises:
            BadInput: an unknown key or a value out of bounds; nothing is written.
        """
        import tomli_w

        flat = {**self._flat(self._root), key: raw}
        check(key, raw)
        values = resolve([(p, flat if p == self._root else self._flat(p)) for p in self._paths])
        nested: dict[str, Any] = {}
        for name, value in flat.items():
            section, _, leaf = name.partition(".")
            if leaf:
                nested.setdefault(section, {})[leaf] = value
            else:
                nested[section] = value
        write_atomic(self._root, tomli_w.dumps(nested).encode(), durable=True)
        return values[key]

    def stamp(self) -> tuple[int, ...]:
        """Changes when one of the files does."""
        return tuple(_modified(path) for path in self._paths)

    def _flat(self, path: str) -> dict[str, Any]:
        try:
            return flatten(read_toml(path))
        except NotFound:
            return {}


def _modified(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
