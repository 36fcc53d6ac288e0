"""Which process table this platform has. Owns no state."""

from __future__ import annotations

import sys

from supervisor.core.ports import ProcessTable


def system_process_table(host_id: str) -> ProcessTable:
    """Linux: `/proc`; macOS: psutil."""
    if sys.platform == "darwin":
        from supervisor.adapters.darwin import Darwin

        return Darwin(host_id)
    from supervisor.adapters.procfs import ProcFs

    return ProcFs(host_id)
