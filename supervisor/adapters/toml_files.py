"""TOML files into typed values, with errors that name file, line and key. Owns no content."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from supervisor.adapters.atomic_file import read_bounded
from supervisor.core.errors import BadInput, NotFound

T = TypeVar("T")


def read_toml(path: str) -> dict[str, Any]:
    """The file's table.

    Raises:
        NotFound: no such file.
        BadInput: unreadable, no TOML (with line and column), or too large.
    """
    try:
        data = read_bounded(path)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None
    if data is None:
        raise NotFound(f"{path}: there is no such file")
    return parse_toml(data, path)


def parse_toml(data: bytes, path: str) -> dict[str, Any]:
    """The table in `data`, which was read from `path`.

    Raises:
        BadInput: no TOML (with line and column), or no UTF-8.
    """
    import tomllib  # most commands find no file to read

    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: is not UTF-8 (byte {error.start})") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadInput(f"{path}: {error}") from None


def convert(table: dict[str, Any], into: type[T], *, path: str) -> T:
    """The typed value.

    Raises:
        BadInput: unknown key, wrong type or value: with the file and the path of the key.
    """
    try:
        return msgspec.convert(table, into)
    except msgspec.ValidationError as error:
        raise BadInput(f"{path}: {_lower(str(error))}") from None


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:].replace(" - at `$.", " - at `").replace("`$`", "the top level")
