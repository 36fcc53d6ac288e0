"""Diagnostics of our own processes: loguru behind one door, one sink per process. Agents' output never comes here.

Loguru costs 40 ms and several MB, so it is imported with the first message: a keeper that has nothing to say never
pays for it.
"""

from __future__ import annotations

import sys
from typing import Any

from supervisor.adapters.clock import SystemClock
from supervisor.core.timing import MS

_logger: Any = None
_told: dict[str, tuple[str, int]] = {}
_format = "supervisor: {message}"
_DATED = "{time:YYYY-MM-DDTHH:mm:ss.SSSZZ} {level} pid={process} {message}"
_REPEAT_NS = 3600 * 1000 * MS
"""The same trouble of the same thing is told again after an hour, not at every tick."""


def warn(message: str, **values: object) -> None:
    """One line on standard error, unless it was just told. A keeper's is `<home>/logs/keepers.log`: see `into_file`.

    Values go by name and are interpolated once.
    """
    global _logger
    about = f"{message} {values.get('agent', '')}"
    said, now = f"{values}", SystemClock().monotonic_ns()
    before = _told.get(about)
    if before is not None and before[0] == said and now - before[1] < _REPEAT_NS:
        return
    _told[about] = (said, now)
    if _logger is None:
        from loguru import logger

        logger.remove()
        logger.add(sys.stderr, format=_format, level="INFO", diagnose=False, backtrace=False, catch=True)
        _logger = logger
    _logger.warning("{}", " ".join([message, *(f"{k}={v!r}" for k, v in values.items())]))


def into_file() -> None:
    """From now on for a log that many keepers write: each line says when, and which process."""
    global _format, _logger
    _format, _logger = _DATED, None
