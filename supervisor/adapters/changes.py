"""Something changed in a folder: a wake-up without content, from the file system where it tells, else nothing.

Owns one watchdog observer. A hint, never the truth: callers look again at their own poll anyway.
"""

from __future__ import annotations

import logging
import threading
from typing import Any


class FolderChanges:
    """`wait` returns early when a file in the folder was written, renamed or removed."""

    def __init__(self, folder: str) -> None:
        self._event = threading.Event()
        self._observer = _observe(folder, self._event)

    @property
    def watching(self) -> bool:
        """False when no watch could be had (inotify limits): only the poll wakes."""
        return self._observer is not None

    def wait(self, seconds: float) -> None:
        """Until something changed, at most so long."""
        self._event.wait(seconds)
        self._event.clear()

    def close(self) -> None:
        """Stop the observer."""
        if self._observer is not None:
            self._observer.stop()
            self._observer.join()


def _observe(folder: str, event: threading.Event) -> Any:
    from watchdog.events import FileSystemEvent, FileSystemEventHandler
    from watchdog.observers import Observer

    logging.getLogger("watchdog").setLevel(logging.CRITICAL)  # its stop races itself and says so on stderr

    class Handler(FileSystemEventHandler):
        def on_any_event(self, happened: FileSystemEvent) -> None:
            # our own reading opens and closes files: a handler that minded it would wake itself for ever
            if happened.event_type not in ("opened", "closed_no_write"):
                event.set()

    observer = Observer()
    try:
        observer.schedule(Handler(), folder, recursive=False)
        observer.start()
    except OSError:
        return None
    return observer
