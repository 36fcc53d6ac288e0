"""Diagnostics of our own processes: loguru behind one door, one sink per process. Agents' output never comes here.

Loguru costs 40 ms and several MB, so it is imported with the first message: a keeper that has nothing to say never
pays for it.
"""

from __future__ import annotations

import sys
from typing import Any

_logger: Any = None


def warn(message: str, **values: object) -> None:
    """One line on standard error (a keeper's is `<home>/logs/keepers.log`); values by name, interpolated once."""
    global _logger
    if _logger is None:
        from loguru import logger

        logger.remove()
        logger.add(sys.stderr, format=_FORMAT, level="INFO", diagnose=False, backtrace=False, catch=True)
        _logger = logger
    _logger.bind(values=" ".join(f"{k}={v!r}" for k, v in values.items())).opt(raw=False).warning("{}", message)


_FORMAT = "{time:YYYY-MM-DDTHH:mm:ss.SSSZZ} {level} pid={process} {message} {extra[values]}\n"
